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
from contextlib import suppress
from random import Random

from squall.harness.conformance.client import (
    NEWEST,
    Address,
    ConformanceClient,
    NotConforming,
    Patience,
    Response,
    place,
)
from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.metadata.topic_configs import MIN_ISR
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.record import Record
from squall.nodes.protocol.records import build_batch, iterate_batches, parse_records
from squall.nodes.protocol.schema import Message
from squall.workloads.clients.common.payload import VALUE_BYTES, decode_value, encode_value

SHARE = 0.3
"""The probability that a run has this client."""
STREAM = "recreated topics"
PAUSE = (0.02, 0.3)
"""Seconds of virtual time between two requests."""
DELETED = 0.15
"""The probability that a step deletes the topic."""
NAMES = 6
"""A topic whose fate is unknown remains, and costs the cluster replicas and leaders."""
ANSWER_SECONDS, TIMEOUT_MS = 1.5, 1_000
ALL, LEADER_ONLY = -1, 1
CREATED_IDS_SINCE, FETCHED_IDS_SINCE, DELETED_NAMES_UNTIL = 7, 13, 5
NO_WISH_SINCE = 4
"""Since then a client may ask for the metadata of a topic without wishing for it."""
FETCH_BYTES = 4_000
FIRST_VALUE = 1 << 60
"""The values of workloads are below it."""


class RecreatedTopics:
    """See the module."""

    def __init__(self, world: SimWorld, patience: Patience, like: TopicOptions, on_send: Callable[[int], None]) -> None:
        """The topic is `like` this one, with one topic-partition.

        `on_send` is called with each value that a broker should append, before it is sent.
        """
        self._world = world
        self._like = like
        self._patience = patience
        self._on_send = on_send
        self._rng: Random = world.streams.stream(STREAM)
        self._brokers: dict[int, Address] = {
            one.node_id: (one.address, one.port) for one in world.places if one.is_broker
        }
        self._name = ""
        self._topic_id = b""
        """Empty while there is no topic."""
        self._sent = 0
        self._acknowledged: list[int] = []
        self._earlier: frozenset[int] = frozenset()
        """What lies in earlier topics for certain."""
        self.names = self.created = self.read = 0

    async def run(self) -> None:
        """Create, fill, read and delete, until cancelled or out of names. Raises NotConforming."""
        client = self._client()
        try:
            while self._topic_id or self._name or self.names < NAMES:
                await asyncio.sleep(self._rng.uniform(*PAUSE))
                await self._step(client)
        finally:
            await client.close()

    async def check(self) -> None:
        """Read the topic at each broker, in a cluster without faults. Raises NotConforming."""
        client = self._client()
        try:
            for address in self._brokers.values() if self._topic_id else ():
                await self._read(client, address)
        finally:
            await client.close()

    def _client(self) -> ConformanceClient:
        world = self._world
        return ConformanceClient(world.connector(), world.bootstrap(), self._rng, lambda: 0, patience=self._patience)

    async def _step(self, client: ConformanceClient) -> None:
        if not self._topic_id:
            await self._create(client)
        elif self.names < NAMES and self._rng.random() < DELETED:
            await self._delete(client)
        elif self._rng.random() < 0.5:
            await self._append(client)
        else:
            await self._read(client, client.any_broker())

    async def _create(self, client: ConformanceClient) -> None:
        if not self._name:
            self.names += 1
            self._name = f"squall-again-{self.names}"
        self._earlier = frozenset(self._acknowledged)
        settings = {MIN_ISR: self._like.min_insync_replicas, **self._like.config}
        configs = [CreatableTopicConfig(name, str(value).lower()) for name, value in settings.items()]
        topic = CreatableTopic(self._name, 1, self._like.replication_factor, configs=configs)
        request = CreateTopicsRequest([topic], TIMEOUT_MS)
        answer = await _answer(client, client.any_broker(), request, CreateTopicsResponse, since=CREATED_IDS_SINCE)
        error = None if answer is None else answer.topics[0].error_code
        if answer is not None and error == ErrorCode.NONE:
            self._topic_id = answer.topics[0].topic_id
            self.created += 1
        elif error != ErrorCode.INVALID_REPLICATION_FACTOR:  # which a controller says without having done anything
            self._name = ""

    async def _delete(self, client: ConformanceClient) -> None:
        request = DeleteTopicsRequest(topic_names=[self._name], timeout_ms=TIMEOUT_MS)
        answer = await _answer(client, client.any_broker(), request, DeleteTopicsResponse, until=DELETED_NAMES_UNTIL)
        self._topic_id = b""
        if answer is None or answer.responses[0].error_code:
            self._name = ""

    async def _append(self, client: ConformanceClient) -> None:
        leader = await self._leader(client)
        if leader is None:
            return
        value = FIRST_VALUE + self._sent
        self._sent += 1
        self._on_send(value)
        batch = build_batch([Record(value=encode_value(value, VALUE_BYTES))])
        topic = TopicProduceData(self._name, [PartitionProduceData(0, batch)])
        acks = self._rng.choice((ALL, LEADER_ONLY))
        request = ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        answer = await _answer(client, leader, request, ProduceResponse)
        if answer is not None and not answer.responses[0].partition_responses[0].error_code:
            self._acknowledged.append(value)

    async def _leader(self, client: ConformanceClient) -> Address | None:
        """Where the topic's leader is by some broker's metadata."""
        request = MetadataRequest([MetadataRequestTopic(name=self._name)], allow_auto_topic_creation=False)
        answer = await _answer(client, client.any_broker(), request, MetadataResponse, since=NO_WISH_SINCE)
        partitions = [] if answer is None else answer.topics[0].partitions
        return self._brokers.get(partitions[0].leader_id) if partitions else None

    async def _read(self, client: ConformanceClient, address: Address) -> None:
        part = FetchPartition(0, fetch_offset=self._rng.choice((0, 0, 1, 2)), partition_max_bytes=FETCH_BYTES)
        topic = FetchTopic(topic_id=self._topic_id, partitions=[part])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
        answer = await _answer(client, address, request, FetchResponse, since=FETCHED_IDS_SINCE)
        for each in answer.responses if answer is not None else ():
            for one in each.partitions:
                self._judge(address, bytes(one.records or b""))

    def _judge(self, address: Address, records: bytes) -> None:
        values = [
            decode_value(record.value) for _, batch in iterate_batches(records) for record in parse_records(batch)
        ]
        self.read += len(values)
        if foreign := sorted(self._earlier.intersection(values)):
            raise NotConforming(
                f"{place(address)}: {self._name}, created again with the id {self._topic_id.hex()}: a fetch returns "
                f"the values {foreign}, which were acknowledged before it was created"
            )


async def _answer(
    client: ConformanceClient,
    address: Address,
    request: Message,
    answer: type[Response],
    *,
    since: int = 0,
    until: int = NEWEST,
) -> Response | None:
    """Return the response, None if there is none."""
    with suppress(NotConforming, TimeoutError):
        asked = client.ask(address, request, answer, since=since, until=until)
        return await asyncio.wait_for(asked, ANSWER_SECONDS)
    return None
