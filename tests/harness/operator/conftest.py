"""A Kafka cluster that is only an answer to requests, for the client side of the operator's tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import APIS, ApiKey
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from squall.nodes.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from squall.nodes.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    PartitionDataResponse,
    ReplicaState,
    TopicDataResponse,
)
from squall.nodes.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from squall.nodes.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from squall.nodes.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from squall.nodes.protocol.requests.session import ServerSession, Versions, api_versions_response
from squall.nodes.protocol.schema import Message

Place = tuple[str, int]


@dataclass
class FakeKafka:
    """Brokers 1 to 3 and topic `orders` of two topic-partitions. Fulfils `Connector`, whatever the address.

    A move is over after it has been listed `looks` times; `versions` is what ApiVersions shows.
    """

    versions: dict[int, tuple[int, int]] = field(
        default_factory=lambda: {int(key): api.versions for key, api in APIS.items()}
    )
    replicas: dict[Place, list[int]] = field(default_factory=lambda: {("orders", 0): [1, 2], ("orders", 1): [2, 1]})
    behind: set[int] = field(default_factory=set)
    """Brokers that are in no ISR."""
    down: set[int] = field(default_factory=set)
    """Brokers that Metadata does not list, and that lead nothing."""
    moves: dict[Place, list[int]] = field(default_factory=dict)
    looks: int = 2
    refusals: dict[Place, ErrorCode] = field(default_factory=dict)
    eligible: list[int] = field(default_factory=list)
    unreachable: set[int] = field(default_factory=set)
    """Ports at which nobody answers."""
    asked: list[tuple[int, Message, int]] = field(default_factory=list)
    """Port, message and version of every request but ApiVersions."""

    async def connect(self, host: str, port: int) -> FakeStream:
        if port in self.unreachable:
            raise ConnectionRefusedError("Connection refused")
        return FakeStream(self, port)

    def messages(self, kind: type[Message]) -> list[Any]:
        return [message for _, message, _ in self.asked if isinstance(message, kind)]

    # -- answers --------------------------------------------------------------------------------------------------

    def answer(self, message: Any) -> Message:
        by_key: dict[int, Callable[[Any], Message]] = {
            ApiKey.METADATA: self._metadata,
            ApiKey.DESCRIBE_QUORUM: self._quorum,
            ApiKey.DESCRIBE_CONFIGS: self._configs,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self._topic_partitions,
            ApiKey.LIST_OFFSETS: self._offsets,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self._alter,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self._list,
        }
        return by_key[message.API_KEY](message)

    def _leader(self, place: Place) -> int:
        alive = [one for one in self.replicas[place] if one not in self.down]
        return alive[0] if alive else -1

    def _in_sync(self, place: Place) -> list[int]:
        return [one for one in self.replicas[place] if one not in self.behind | self.down]

    def _metadata(self, request: Any) -> Message:
        brokers = [
            MetadataResponseBroker(node_id=one, host="127.0.0.1", port=9090 + one, rack=f"r{one}")
            for one in (1, 2, 3)
            if one not in self.down
        ]
        topics: dict[str, MetadataResponseTopic] = {}
        for place in sorted(self.replicas):
            topic = topics.setdefault(place[0], MetadataResponseTopic(name=place[0], topic_id=b"\x01" * 16))
            topic.partitions.append(
                MetadataResponsePartition(
                    partition_index=place[1],
                    leader_id=self._leader(place),
                    leader_epoch=7,
                    replica_nodes=list(self.replicas[place]),
                    isr_nodes=self._in_sync(place),
                )
            )
        return MetadataResponse(
            brokers=brokers, cluster_id="fake", controller_id=brokers[0].node_id, topics=list(topics.values())
        )

    def _quorum(self, request: Any) -> Message:
        states = [
            ReplicaState(replica_id=101, log_end_offset=50, last_fetch_timestamp=1000, last_caught_up_timestamp=1000),
            ReplicaState(replica_id=102, log_end_offset=48, last_fetch_timestamp=900, last_caught_up_timestamp=800),
            ReplicaState(replica_id=103, log_end_offset=-1),
        ]
        part = PartitionDataResponse(leader_id=101, leader_epoch=4, high_watermark=48, current_voters=states)
        part.observers = [ReplicaState(replica_id=1, log_end_offset=40)]
        return DescribeQuorumResponse(topics=[TopicDataResponse(topic_name="__cluster_metadata", partitions=[part])])

    def _configs(self, request: Any) -> Message:
        configs = [
            DescribeConfigsResourceResult(name="min.insync.replicas", value="2", config_source=1),
            DescribeConfigsResourceResult(name="retention.ms", value="1", config_source=5),
        ]
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(resource_type=2, resource_name=one.resource_name, configs=configs)
                for one in request.resources
            ]
        )

    def _topic_partitions(self, request: Any) -> Message:
        """One topic-partition in each page."""
        names = {one.name for one in request.topics}
        start = (request.cursor.topic_name, request.cursor.partition_index) if request.cursor else ("", 0)
        places = [place for place in sorted(self.replicas) if place[0] in names and place >= start]
        part = DescribeTopicPartitionsResponsePartition(
            partition_index=places[0][1], eligible_leader_replicas=self.eligible, last_known_elr=[]
        )
        topic = DescribeTopicPartitionsResponseTopic(name=places[0][0], partitions=[part])
        cursor = Cursor(topic_name=places[1][0], partition_index=places[1][1]) if len(places) > 1 else None
        return DescribeTopicPartitionsResponse(topics=[topic], next_cursor=cursor)

    def _offsets(self, request: Any) -> Message:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=one.partition_index, offset=100 if one.timestamp == -1 else 10
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _alter(self, request: Any) -> Message:
        topics = []
        for topic in request.topics:
            parts = []
            for one in topic.partitions:
                place = (topic.name, one.partition_index)
                parts.append(self._alter_one(place, one.replicas))
            topics.append(ReassignableTopicResponse(name=topic.name, partitions=parts))
        return AlterPartitionReassignmentsResponse(responses=topics)

    def _alter_one(self, place: Place, replicas: list[int] | None) -> ReassignablePartitionResponse:
        code = self.refusals.get(place, ErrorCode.NONE)
        if code == ErrorCode.NONE and replicas is None and place not in self.moves:
            code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        if code == ErrorCode.NONE and replicas is None:
            del self.moves[place]
        elif code == ErrorCode.NONE and replicas is not None:
            self.moves[place] = list(replicas)
        return ReassignablePartitionResponse(partition_index=place[1], error_code=int(code))

    def _list(self, request: Any) -> Message:
        topics = [
            OngoingTopicReassignment(
                name=place[0],
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=place[1],
                        replicas=sorted({*self.replicas[place], *target}),
                        adding_replicas=[one for one in target if one not in self.replicas[place]],
                        removing_replicas=[one for one in self.replicas[place] if one not in target],
                    )
                ],
            )
            for place, target in sorted(self.moves.items())
        ]
        self.looks -= bool(topics)
        if self.looks <= 0:
            self.replicas.update(self.moves)
            self.moves.clear()
        return ListPartitionReassignmentsResponse(topics=topics)


class FakeStream:
    """One connection to it."""

    def __init__(self, kafka: FakeKafka, port: int) -> None:
        self.kafka = kafka
        self.port = port
        served: Versions = kafka.versions
        self.session = ServerSession(0, "fake", served)
        self.received: Callable[[bytes], None] | None = None

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        self.received = received

    async def send(self, frame: bytes) -> None:
        request = self.session.received(0, frame)
        if request.api_key == ApiKey.API_VERSIONS:
            request.respond(api_versions_response(self.kafka.versions))
        else:
            self.kafka.asked.append((self.port, request.body, request.api_version))
            request.respond(self.kafka.answer(request.body))
        assert self.received is not None
        asyncio.get_running_loop().call_soon(self.received, b"".join(request.chunks()))

    def close(self) -> None: ...


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """The cluster that every command of this test talks to."""
    made = FakeKafka()
    monkeypatch.setattr("squall.harness.load.tcp.TcpConnector", lambda network: made)
    monkeypatch.setattr("squall.harness.operator.reassigning.LOOK_SECONDS", 0.001)
    return made
