"""The native admin client: what is the cluster's state; topics made, enlarged, deleted. It serves both worlds.

Every broker and every controller is asked, side by side, because each may be cut off and tell an old story. Of
their answers the one with the highest epoch counts; between equal epochs the gloomier one, so that a cluster is only
called whole when nobody disagrees. The active controller is asked of the controllers themselves (DescribeQuorum):
brokers only forward.
"""

from __future__ import annotations

import asyncio
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
from squall.workloads.clients.client import ClusterState, PartitionState, Topic
from squall.workloads.clients.connection import KafkaConnection, Response
from squall.workloads.ports import Connector

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
    """The cluster refused what was asked; the message says what and why. Asking again may help."""


class NotAsked(TimeoutError):
    """There was no connection, so that nothing was asked."""


@dataclass(frozen=True)
class _Told:
    """One broker's answer to Metadata."""

    address: Address
    metadata: MetadataResponse


class NativeAdmin:
    """Fulfils `Admin` over a Connector. Connections are kept and made anew when they break.

    With a `cluster_id`, brokers that say they are of another cluster count as silent, and are kept in `strangers` with
    the cluster that they named.
    """

    def __init__(
        self,
        connector: Connector,
        brokers: Sequence[Address],
        controllers: Sequence[Address] = (),
        cluster_id: str | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.strangers: dict[Address, str] = {}
        self.connector = connector
        self.brokers = tuple(brokers)
        self.controllers = tuple(controllers)
        self.connections: dict[Address, KafkaConnection] = {}

    async def describe(self, topics: Sequence[str] | None = None) -> ClusterState:
        """Raises OSError if no broker answers at all."""
        told, quorum = await asyncio.gather(self._metadata(topics), self._quorum())
        if not told:
            raise ConnectionError(f"none of {len(self.brokers)} brokers answered")
        controller, epoch = quorum
        return ClusterState(
            brokers=alive_brokers(told), partitions=merged(told), controller=controller, controller_epoch=epoch
        )

    async def create_topics(self, topics: Sequence[Topic]) -> None:
        """Create them; one that is there already is no error. Raises OSError, AdminError."""
        request = CreateTopicsRequest(topics=[_creatable(topic) for topic in topics], timeout_ms=4000)

        async def ask(address: Address) -> list[_Refusal]:
            answer = await self._ask(address, request, CREATE_TOPICS_VERSION, CreateTopicsResponse, CREATE_SECONDS)
            return [(one.name, one.error_code, one.error_message) for one in answer.topics]

        await self._until_done(ask, _CREATED)

    async def create_partitions(self, topic: str, count: int) -> None:
        """Give a topic so many topic-partitions in all. Raises OSError, AdminError."""
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=4000)

        async def ask(address: Address) -> list[_Refusal]:
            answer = await self._ask(
                address, request, CREATE_PARTITIONS_VERSION, CreatePartitionsResponse, CREATE_SECONDS
            )
            return [(one.name, one.error_code, one.error_message) for one in answer.results]

        await self._until_done(ask, _DONE)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic; one that is not there is no error. Raises OSError, AdminError.

        Once a broker may have heard of it, no other is asked: repeated, it could delete what was made under that name
        since. The outcome is unknown then.
        """
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=4000)

        async def ask(address: Address) -> list[_Refusal]:
            answer = await self._ask(address, request, DELETE_TOPICS_VERSION, DeleteTopicsResponse, CREATE_SECONDS)
            return [(one.name or topic, one.error_code, one.error_message) for one in answer.responses]

        await self._until_done(ask, _DELETED, repeats=False)

    async def _until_done(
        self, ask: Callable[[Address], Awaitable[list[_Refusal]]], good: tuple[int, ...], *, repeats: bool = True
    ) -> None:
        """Ask one broker after the other until one says that it is done. Raises the last one's trouble.

        Without `repeats` the next one is asked only if the last one certainly did nothing.
        """
        trouble: OSError = ConnectionError("there is no broker to ask")
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
        """The active controller and its epoch, as far as a controller knows of one."""
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
            if other is not None and other.gone is None:  # somebody else who asks has connected meanwhile
                connection.close()
                connection = other
            self.connections[address] = connection
        return await connection.request(message, version, answer, seconds)


_Refusal = tuple[str, int, str | None]
"""Topic, error code (0 is none), message."""

_DONE = (0,)
_UNKNOWN = (int(ErrorCode.REQUEST_TIMED_OUT), int(ErrorCode.UNKNOWN_SERVER_ERROR))
"""Errors that leave it open whether it was done."""
_CREATED = (0, int(ErrorCode.TOPIC_ALREADY_EXISTS))
_DELETED = (0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


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
    """Brokers that answered and that every other answer knows of."""
    answered = {one.address for one in told}
    lists = [{(broker.node_id, broker.host, broker.port) for broker in one.metadata.brokers} for one in told]
    agreed = set.intersection(*lists)
    return tuple(sorted(broker for broker in agreed if (broker[1], broker[2]) in answered))


def merged(told: Iterable[_Told]) -> tuple[PartitionState, ...]:
    """Every topic-partition as the highest leader epoch has it; of equal epochs the one with fewer in sync."""
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
