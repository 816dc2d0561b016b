"""A topic of one topic-partition that belongs to a client of its own: how it is created, appended to and looked up.

The topics of the load are not deleted or taken apart by strangers, so a client that does such things makes its own. It
has the replicas and settings of one of the load, by which the fault budget decides what may be lost. Under faults no
answer is certain: `answer` returns None if there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from squall.harness.conformance.client import (
    NEWEST,
    Address,
    ConformanceClient,
    NotConforming,
    Patience,
    Response,
)
from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.metadata.topic_configs import MIN_ISR
from squall.nodes.protocol.compression import Compression
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from squall.nodes.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.record import Record
from squall.nodes.protocol.records import build_batch
from squall.nodes.protocol.schema import Message
from squall.workloads.clients.common.payload import VALUE_BYTES, encode_value

ANSWER_SECONDS, TIMEOUT_MS = 1.5, 1_000
ALL, LEADER_ONLY = -1, 1
MOST_RECORDS = 4
OLDEST_MS = 2_000
"""How old a record is at most, by its timestamp, when it is sent."""
COMPRESSIONS = (Compression.NONE, Compression.NONE, Compression.GZIP)
CREATED_IDS_SINCE = 7
LEADER_EPOCHS_SINCE = 7
"""Since then Metadata says the leader epoch; a client may then also ask without wishing for the topic."""


@dataclass(frozen=True, slots=True)
class Created:
    """How a request to create a topic ended. `topic_id` is empty if it did not; `nothing_done`: it may be repeated."""

    topic_id: bytes = b""
    nothing_done: bool = False


class OwnTopic:
    """The requests that clients with a topic of their own have in common. `close` it in the end."""

    def __init__(
        self,
        world: SimWorld,
        patience: Patience,
        like: TopicOptions,
        rng: Random,
        on_send: Callable[[int], None],
        first_value: int,
    ) -> None:
        """The topic is `like` this one, with one topic-partition. Values count up from `first_value`.

        `on_send` is called with each value that a broker should append, before it is sent.
        """
        self.client = ConformanceClient(world.connector(), world.bootstrap(), rng, lambda: 0, patience=patience)
        self.brokers: dict[int, Address] = {
            one.node_id: (one.address, one.port) for one in world.places if one.is_broker
        }
        self._like = like
        self._rng = rng
        self._on_send = on_send
        self._next_value = first_value
        self._wall_clock_s = next(iter(world.processes.values())).clock.true_s

    async def close(self) -> None:
        await self.client.close()

    async def create(self, name: str) -> Created:
        settings = {MIN_ISR: self._like.min_insync_replicas, **self._like.config}
        configs = [CreatableTopicConfig(key, str(value).lower()) for key, value in settings.items()]
        topic = CreatableTopic(name, 1, self._like.replication_factor, configs=configs)
        request = CreateTopicsRequest([topic], TIMEOUT_MS)
        told = await self.answer(self.client.any_broker(), request, CreateTopicsResponse, since=CREATED_IDS_SINCE)
        if told is None:
            return Created()
        error = told.topics[0].error_code
        if error == ErrorCode.NONE:
            return Created(told.topics[0].topic_id)
        return Created(nothing_done=error == ErrorCode.INVALID_REPLICATION_FACTOR)  # too few brokers were there

    async def append(self, name: str, leader: Address) -> list[int]:
        """Send a batch of some records; return their values if it was acknowledged.

        Most loads send each record in a batch of its own. Offsets within a batch are found here: a log may begin there,
        and so does the log of a replica that is added then.
        """
        values = [self._new_value() for _ in range(self._rng.randint(1, MOST_RECORDS))]
        now = int(self._wall_clock_s() * 1000)
        records = [
            Record(timestamp=now - self._rng.randint(0, OLDEST_MS), value=encode_value(value, VALUE_BYTES))
            for value in values
        ]
        batch = build_batch(records, compression=self._rng.choice(COMPRESSIONS))
        topic = TopicProduceData(name, [PartitionProduceData(0, batch)])
        acks = self._rng.choice((ALL, LEADER_ONLY))
        told = await self.answer(
            leader, ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[topic]), ProduceResponse
        )
        return [] if told is None or told.responses[0].partition_responses[0].error_code else values

    def _new_value(self) -> int:
        value = self._next_value
        self._next_value += 1
        self._on_send(value)
        return value

    async def look(self, name: str) -> MetadataResponsePartition | None:
        """Return the topic-partition by some broker's metadata."""
        request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        told = await self.answer(self.client.any_broker(), request, MetadataResponse, since=LEADER_EPOCHS_SINCE)
        partitions = [] if told is None else told.topics[0].partitions
        return partitions[0] if partitions else None

    async def answer(
        self, address: Address, request: Message, answer: type[Response], *, since: int = 0, until: int = NEWEST
    ) -> Response | None:
        """Return the response, None if there is none."""
        with suppress(NotConforming, TimeoutError):
            asked = self.client.ask(address, request, answer, since=since, until=until)
            return await asyncio.wait_for(asked, ANSWER_SECONDS)
        return None
