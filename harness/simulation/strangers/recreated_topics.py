"""A client that deletes its topic and creates it again under the same name, with records in each, under all faults.

A topic's logs lie in directories of its name. A broker that was away while a topic was deleted and created again finds
the old topic's records there. Whoever reads a topic by its id (KIP-516) must never get a record of an earlier one
(MD-05). The topics of the load are not deleted, so this client has one of its own.

Laws:

* The client states only what is certain. A record that was acknowledged before the client asked for the next topic
  is in an earlier topic. Of a record without an acknowledgement nothing is known: it may be appended at any time.
* A request to create or delete whose outcome is unknown may be carried out later, or twice. So the client has no second
  one under the same name: it goes on with another name.
* Nothing else is expected of the answers. The observer judges the topic like any other. So it has the replicas and
  settings of one of the load, by which the fault budget decides what may be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from squall.harness.conformance.client import Address, NotConforming, Patience, place
from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.strangers.own_topic import TIMEOUT_MS, OwnTopic
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from squall.nodes.protocol.records import iterate_batches, parse_records
from squall.workloads.clients.common.payload import decode_value

SHARE = 0.3
"""The probability that a run has this client."""
STREAM = "recreated topics"
PAUSE = (0.02, 0.3)
"""Seconds of virtual time between two requests."""
DELETED = 0.15
"""The probability that a step deletes the topic."""
NAMES = 6
"""A topic whose fate is unknown remains, and costs the cluster replicas and leaders."""
FETCHED_IDS_SINCE, DELETED_NAMES_UNTIL = 13, 5
FETCH_BYTES = 4_000
FIRST_VALUE = 1 << 60
"""The values of workloads are below it."""


class RecreatedTopics:
    """See the module."""

    def __init__(self, world: SimWorld, patience: Patience, like: TopicOptions, on_send: Callable[[int], None]) -> None:
        """The topic is `like` this one, with one topic-partition.

        `on_send` is called with each value that a broker should append, before it is sent.
        """
        self._rng: Random = world.streams.stream(STREAM)
        self._own = OwnTopic(world, patience, like, self._rng, on_send, FIRST_VALUE)
        self._name = ""
        self._topic_id = b""
        """Empty while there is no topic."""
        self._acknowledged: list[int] = []
        self._earlier: frozenset[int] = frozenset()
        """What lies in earlier topics for certain."""
        self.names = self.created = self.read = 0

    async def run(self) -> None:
        """Create, fill, read and delete, until cancelled or out of names. Raises NotConforming."""
        try:
            while self._topic_id or self._name or self.names < NAMES:
                await asyncio.sleep(self._rng.uniform(*PAUSE))
                await self._step()
        finally:
            await self._own.close()

    async def check(self) -> None:
        """Read the topic at each broker, in a cluster without faults. Raises NotConforming."""
        try:
            for address in self._own.brokers.values() if self._topic_id else ():
                await self._read(address)
        finally:
            await self._own.close()

    async def _step(self) -> None:
        if not self._topic_id:
            await self._create()
        elif self.names < NAMES and self._rng.random() < DELETED:
            await self._delete()
        elif self._rng.random() < 0.5:
            await self._append()
        else:
            await self._read(self._own.client.any_broker())

    async def _create(self) -> None:
        if not self._name:
            self.names += 1
            self._name = f"squall-again-{self.names}"
        self._earlier = frozenset(self._acknowledged)
        created = await self._own.create(self._name)
        if created.topic_id:
            self._topic_id = created.topic_id
            self.created += 1
        elif not created.nothing_done:
            self._name = ""

    async def _delete(self) -> None:
        request = DeleteTopicsRequest(topic_names=[self._name], timeout_ms=TIMEOUT_MS)
        broker = self._own.client.any_broker()
        told = await self._own.answer(broker, request, DeleteTopicsResponse, until=DELETED_NAMES_UNTIL)
        self._topic_id = b""
        if told is None or told.responses[0].error_code:
            self._name = ""

    async def _append(self) -> None:
        partition = await self._own.look(self._name)
        leader = None if partition is None else self._own.brokers.get(partition.leader_id)
        if leader is not None:
            self._acknowledged += await self._own.append(self._name, leader)

    async def _read(self, address: Address) -> None:
        part = FetchPartition(0, fetch_offset=self._rng.choice((0, 0, 1, 2)), partition_max_bytes=FETCH_BYTES)
        topic = FetchTopic(topic_id=self._topic_id, partitions=[part])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
        told = await self._own.answer(address, request, FetchResponse, since=FETCHED_IDS_SINCE)
        for each in told.responses if told is not None else ():
            for one in each.partitions:
                self._judge(address, bytes(one.records or b""))

    def _judge(self, address: Address, records: bytes) -> None:
        batches = iterate_batches(records, torn_tail=True)
        values = [decode_value(record.value) for _, batch in batches for record in parse_records(batch)]
        self.read += len(values)
        if foreign := sorted(self._earlier.intersection(values)):
            raise NotConforming(
                f"{place(address)}: {self._name}, created again with the id {self._topic_id.hex()}: a fetch returns "
                f"the values {foreign}, which were acknowledged before it was created"
            )
