"""The native admin client: describe the cluster; create, enlarge and delete topics. It serves both worlds.

It queries every broker and every controller in parallel, because each may be cut off and report an old state. Of their
responses the one with the highest epoch counts; of equal epochs the one with fewer in-sync replicas, so that a cluster
counts as whole only when no node disagrees. The active controller is requested from the controllers (DescribeQuorum):
brokers only forward.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from squall.nodes.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    TopicDataRequest,
)
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.nodes.protocol.schema import Message
from squall.workloads.clients.common.client import ClusterState, PartitionState, Topic
from squall.workloads.clients.native.connection import KafkaConnection, Response
from squall.workloads.core.ports import Connector

METADATA_VERSION = 9
CREATE_TOPICS_VERSION = 5
CREATE_PARTITIONS_VERSION = 2
DELETE_TOPICS_VERSION = 6
DESCRIBE_QUORUM_VERSION = 1
METADATA_TOPIC = "__cluster_metadata"
ASK_SECONDS = 1.5
CREATE_SECONDS = 5.0
CLIENT_ID = "squall-admin"

Address = tuple[str, int]


class AdminError(OSError):
    """The cluster refused the request; the message states what and why. A retry may help."""


class NotAsked(TimeoutError):
    """No connection was made, so the request was not sent."""


@dataclass(frozen=True)
class _Told:
    """One broker's response to Metadata."""

    address: Address
    metadata: MetadataResponse


class NativeAdmin:
    """Implements `Admin` over a Connector. Connections are kept and reopened when they break.

    With a `cluster_id`, brokers that report another cluster id count as silent; `strangers` maps them to that id. A
    cluster whose metadata is in ZooKeeper has no quorum to ask (`has_quorum`): the controller is then the one that most
    brokers name, and its epoch is unknown.
    """

    def __init__(
        self,
        connector: Connector,
        brokers: Sequence[Address],
        controllers: Sequence[Address] = (),
        cluster_id: str | None = None,
        *,
        has_quorum: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.has_quorum = has_quorum
        self.strangers: dict[Address, str] = {}
        self.connector = connector
        self.brokers = tuple(brokers)
        self.controllers = tuple(controllers)
        self.connections: dict[Address, KafkaConnection] = {}

    async def describe(self, topics: Sequence[str] | None = None) -> ClusterState:
        """Raises OSError if no broker responds."""
        told, quorum = await asyncio.gather(self._metadata(topics), self._quorum())
        if not told:
            raise ConnectionError(f"none of {len(self.brokers)} brokers answered")
        controller, epoch = quorum if self.has_quorum else (_most_named(told), None)
        return ClusterState(
            brokers=alive_brokers(told), partitions=merged(told), controller=controller, controller_epoch=epoch
        )

    async def create_topics(self, topics: Sequence[Topic]) -> None:
        """Create topics; an existing one is no error. Raises OSError, AdminError."""
        request = CreateTopicsRequest(topics=[_creatable(topic) for topic in topics], timeout_ms=4000)

        async def ask(address: Address) -> list[_Refusal]:
            answer = await self._ask(address, request, CREATE_TOPICS_VERSION, CreateTopicsResponse, CREATE_SECONDS)
            return [(one.name, one.error_code, one.error_message) for one in answer.topics]

        await self._until_done(ask, _CREATED)

    async def create_partitions(self, topic: str, count: int) -> None:
        """Raise a topic's number of partitions to `count`. Raises OSError, AdminError."""
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=4000)

        async def ask(address: Address) -> list[_Refusal]:
            answer = await self._ask(
                address, request, CREATE_PARTITIONS_VERSION, CreatePartitionsResponse, CREATE_SECONDS
            )
            return [(one.name, one.error_code, one.error_message) for one in answer.results]

        await self._until_done(ask, _DONE)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic; a missing one is no error. Raises OSError, AdminError.

        Once a broker may have received the request, no other broker is tried: a retry could delete a topic created
        under the same name since. The outcome is unknown then.
        """
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=4000)

        async def ask(address: Address) -> list[_Refusal]:
            answer = await self._ask(address, request, DELETE_TOPICS_VERSION, DeleteTopicsResponse, CREATE_SECONDS)
            return [(one.name or topic, one.error_code, one.error_message) for one in answer.responses]

        await self._until_done(ask, _DELETED, repeats=False)

    async def _until_done(
        self, ask: Callable[[Address], Awaitable[list[_Refusal]]], good: tuple[int, ...], *, repeats: bool = True
    ) -> None:
        """Try one broker after the other until one reports success. Raises the error of the last one.

        Without `repeats` the next one is tried only if the last one certainly did nothing.
        """
        trouble: OSError = ConnectionError("no broker is reachable")
        for address in self.brokers:
            try:
                refused = [one for one in await ask(address) if one[1] not in good]
            except OSError as failed:
                trouble = failed
                if repeats or isinstance(failed, NotAsked):
                    continue
                break
            if not refused:
                return
            name, code, message = refused[0]
            trouble = AdminError(f"topic {name}: {message or error_name(code)}")
            if not repeats and code in _UNKNOWN:
                break
        raise trouble

    async def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()

    async def _metadata(self, topics: Sequence[str] | None) -> list[_Told]:
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        async def one(address: Address) -> _Told | None:
            try:
                return _Told(address, await self._ask(address, request, METADATA_VERSION, MetadataResponse))
            except OSError:
                return None

        found = await asyncio.gather(*(one(address) for address in self.brokers))
        return [told for told in found if told is not None and not self._is_stranger(told)]

    def _is_stranger(self, told: _Told) -> bool:
        named = told.metadata.cluster_id
        if self.cluster_id is None or named is None or named == self.cluster_id:
            return False
        self.strangers[told.address] = named
        return True

    async def _quorum(self) -> tuple[int | None, int | None]:
        """The active controller and its epoch, if a controller knows it."""
        if not self.has_quorum:
            return None, None
        request = DescribeQuorumRequest(
            topics=[TopicDataRequest(topic_name=METADATA_TOPIC, partitions=[PartitionDataRequest(partition_index=0)])]
        )

        async def one(address: Address) -> tuple[int, int] | None:
            try:
                response = await self._ask(address, request, DESCRIBE_QUORUM_VERSION, DescribeQuorumResponse)
            except OSError:
                return None
            found = [part for topic in response.topics for part in topic.partitions]
            leading = [part for part in found if part.error_code == 0 and part.leader_id >= 0]
            return (leading[0].leader_epoch, leading[0].leader_id) if leading else None

        answers = await asyncio.gather(*(one(address) for address in self.controllers or self.brokers))
        known = [answer for answer in answers if answer is not None]
        if not known:
            return None, None
        epoch, leader = max(known)
        return leader, epoch

    async def _ask(
        self,
        address: Address,
        message: Message,
        version: int,
        answer: type[Response],
        seconds: float = ASK_SECONDS,
    ) -> Response:
        connection = self.connections.get(address)
        if connection is None or connection.gone is not None:
            opening = KafkaConnection.connect(self.connector, *address, CLIENT_ID)
            try:
                connection = await asyncio.wait_for(opening, seconds)
            except TimeoutError:
                raise NotAsked(f"{address[0]}:{address[1]} did not accept a connection") from None
            except OSError as failed:
                raise NotAsked(str(failed)) from None
            other = self.connections.get(address)
            if other is not None and other.gone is None:  # a concurrent request has connected meanwhile
                connection.close()
                connection = other
            self.connections[address] = connection
        return await connection.request(message, version, answer, seconds)


_Refusal = tuple[str, int, str | None]
"""Topic, error code (0 is none), message."""

_DONE = (0,)
_UNKNOWN = (int(ErrorCode.REQUEST_TIMED_OUT), int(ErrorCode.UNKNOWN_SERVER_ERROR))
"""Errors after which the outcome is unknown."""
_CREATED = (0, int(ErrorCode.TOPIC_ALREADY_EXISTS))
_DELETED = (0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def _most_named(told: Sequence[_Told]) -> int | None:
    """The broker that most brokers take for the controller; None if they know of none."""
    named = Counter(one.metadata.controller_id for one in told if one.metadata.controller_id >= 0)
    return min(named, key=lambda one: (-named[one], one), default=None)


def _creatable(topic: Topic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.config],
    )


def error_name(code: int) -> str:
    """Kafka's name of an error code, or its number."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def alive_brokers(told: Sequence[_Told]) -> tuple[tuple[int, str, int], ...]:
    """Brokers that responded and that every other response lists."""
    answered = {one.address for one in told}
    lists = [{(broker.node_id, broker.host, broker.port) for broker in one.metadata.brokers} for one in told]
    agreed = set.intersection(*lists)
    return tuple(sorted(broker for broker in agreed if (broker[1], broker[2]) in answered))


def merged(told: Iterable[_Told]) -> tuple[PartitionState, ...]:
    """Every topic-partition according to the highest leader epoch; of equal epochs the one with the smaller ISR."""
    found: dict[tuple[str, int], PartitionState] = {}
    for one in told:
        for topic in one.metadata.topics:
            for part in topic.partitions:
                state = PartitionState(
                    topic=topic.name or "",
                    partition=part.partition_index,
                    leader=part.leader_id if part.leader_id >= 0 else None,
                    leader_epoch=part.leader_epoch,
                    replicas=tuple(part.replica_nodes),
                    in_sync=tuple(part.isr_nodes),
                )
                where = (state.topic, state.partition)
                if where not in found or _better(state, found[where]):
                    found[where] = state
    return tuple(found[where] for where in sorted(found))


def _better(one: PartitionState, other: PartitionState) -> bool:
    if one.leader_epoch != other.leader_epoch:
        return one.leader_epoch > other.leader_epoch
    return len(one.in_sync) < len(other.in_sync)
