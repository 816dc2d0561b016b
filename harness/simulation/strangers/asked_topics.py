"""A client that asks brokers for topics that do not exist, in clusters that create a topic when somebody asks for it.

A broker passes such a wish on to the controller, answers that the topic is unknown, and expects the client to ask
again. What becomes of the wish, nobody is told: under faults it may be lost with a controller or a connection. So this
client asks during the load, each name at one broker only, and again when the faults are over. Then every broker has to
bring the topics into being that it was asked for (`auto.create.topics.enable`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from random import Random

from squall.harness.conformance.client import Address, ConformanceClient, NotConforming, Patience, expect
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

STREAM = "asked topics"
PAUSE = (0.3, 3.0)
"""Seconds of virtual time between two questions."""
AT_MOST = 8
"""Topics of one run: each costs the cluster replicas and leaders."""
AGAIN = 0.5
"""The probability that a question names a topic that was asked for before."""
ANSWER_SECONDS = 1.0
NAMED_FROM, NAMED_UNTIL = 4, 9
"""The versions of Metadata in which a client may wish for a topic by its name alone."""


class AskedTopics:
    """See the module. `patience` says how long a topic may take to come into being, once the faults are over."""

    def __init__(self, world: SimWorld, patience: Patience) -> None:
        self._world = world
        self._patience = patience
        self._rng: Random = world.streams.stream(STREAM)
        self.asked: list[tuple[Address, str]] = []
        """Each name, with the broker that was asked for it."""

    async def run(self) -> None:
        """Ask until cancelled. Nothing is expected of the answers."""
        client = self._client()
        try:
            while True:
                await asyncio.sleep(self._rng.uniform(*PAUSE))
                with suppress(NotConforming, TimeoutError):
                    await asyncio.wait_for(_error(client, *self._wish(client)), ANSWER_SECONDS)
        finally:
            await client.close()

    def _client(self) -> ConformanceClient:
        world = self._world
        return ConformanceClient(world.connector(), world.bootstrap(), self._rng, lambda: 0, patience=self._patience)

    def _wish(self, client: ConformanceClient) -> tuple[Address, str]:
        if self.asked and (len(self.asked) >= AT_MOST or self._rng.random() < AGAIN):
            return self._rng.choice(self.asked)
        self.asked.append((client.any_broker(), f"squall-asked-{len(self.asked)}"))
        return self.asked[-1]

    async def check(self) -> None:
        """Ask each broker again for its topics, in a cluster without faults. Raises NotConforming."""
        client = self._client()
        try:
            for address, name in self.asked:
                await client.settled(partial(_expect_created, client, address, name))
        finally:
            await client.close()


async def _expect_created(client: ConformanceClient, address: Address, name: str) -> None:
    expect(address, f"the error of {name}, a topic that it was asked for", await _error(client, address, name), 0)


async def _error(client: ConformanceClient, address: Address, name: str) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    answer = await client.ask(address, request, MetadataResponse, since=NAMED_FROM, until=NAMED_UNTIL)
    return answer.topics[0].error_code
