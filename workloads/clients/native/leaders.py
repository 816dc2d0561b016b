"""One native client's view of the leaders: learned from Metadata, dropped when a response shows that it is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.nodes.protocol.schema import Message
from squall.workloads.clients.common.client import ClientPlan, TopicPartition
from squall.workloads.clients.native.connection import CLOSED, Closed, KafkaConnection, Response
from squall.workloads.core.ports import Connector

METADATA_VERSION = 9
METADATA_SECONDS = 1.5

Address = tuple[str, int]


class Replica(msgspec.Struct, frozen=True, gc=False):
    """Where to send requests for a topic-partition: a broker's address and node id, and the known leader epoch.

    It stays with the request, so that the record names the broker actually used, even if the view changes meanwhile.
    """

    address: Address
    node: int
    epoch: int


def client_id(plan: ClientPlan, number: int) -> str:
    """A client's id in its requests."""
    return f"squall-{plan.role}-{number}"


class Leaders:
    """A client's view of the cluster, and its connections: one for each purpose and broker.

    Purposes separate requests that must not wait for each other: responses come in order, so a parked fetch of one
    topic-partition would delay all later requests.
    """

    def __init__(self, connector: Connector, bootstrap: Sequence[Address], client_id: str) -> None:
        self.connector = connector
        self.bootstrap = tuple(bootstrap)
        self.client_id = client_id
        self.brokers: dict[int, Address] = {}
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        self.connections: dict[tuple[Address, object], KafkaConnection] = {}
        self.made: list[KafkaConnection] = []
        self.connecting: dict[asyncio.Task[object], None] = {}
        self.closed = False
        self.next_bootstrap = 0
        self.refreshing: asyncio.Task[None] | None = None

    async def leader(self, topic_partition: TopicPartition) -> Replica | None:
        """The last known leader; None if no broker knows one now."""
        if topic_partition not in self.leaders:
            await self.refresh(topic_partition[0])
        known = self.leaders.get(topic_partition)
        if known is None or known[0] not in self.brokers:
            return None
        return Replica(self.brokers[known[0]], *known)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drop a leader that turned out wrong; it is requested again before the next use."""
        self.leaders.pop(topic_partition, None)

    async def refresh(self, topic: str) -> None:
        """Request Metadata from the next broker in turn. Concurrent callers wait for the same response."""
        if self.refreshing is None or self.refreshing.done():
            self.refreshing = asyncio.get_running_loop().create_task(self._refresh(topic))
        await self.refreshing

    async def _refresh(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        for _ in range(len(self.bootstrap)):
            address = self.bootstrap[self.next_bootstrap % len(self.bootstrap)]
            self.next_bootstrap += 1
            try:
                answer = await self.ask(
                    address, "metadata", request, METADATA_VERSION, MetadataResponse, METADATA_SECONDS
                )
            except OSError:
                continue
            self._learn(answer)
            return

    def _learn(self, answer: MetadataResponse) -> None:
        self.brokers.update({broker.node_id: (broker.host, broker.port) for broker in answer.brokers})
        for topic in answer.topics:
            for part in topic.partitions:
                where = (topic.name or "", part.partition_index)
                known = self.leaders.get(where)
                if part.leader_id >= 0 and (known is None or part.leader_epoch >= known[1]):
                    self.leaders[where] = (part.leader_id, part.leader_epoch)

    async def ask(
        self,
        address: Address,
        purpose: object,
        message: Message,
        version: int,
        answer: type[Response],
        seconds: float,
    ) -> Response:
        """Send one request on the connection for this purpose and return its response. Raises OSError."""
        connection = await self.connection(address, purpose)
        return await connection.request(message, version, answer, seconds)

    async def connection(self, address: Address, purpose: object) -> KafkaConnection:
        """The connection for this purpose, opened if necessary. Raises OSError; then nothing was transmitted."""
        key = (address, purpose)
        connection = self.connections.get(key)
        if connection is None or connection.gone is not None:
            connection = await self._connect(address)
            self.connections[key] = connection
        return connection

    async def _connect(self, address: Address) -> KafkaConnection:
        if self.closed:
            raise Closed(CLOSED)
        task = asyncio.current_task()
        assert task is not None
        self.connecting[task] = None
        try:
            connection = await KafkaConnection.connect(self.connector, *address, self.client_id)
        except asyncio.CancelledError:
            if self.closed and not task.uncancel():
                raise Closed(CLOSED) from None
            raise
        finally:
            del self.connecting[task]
        # Several tasks may have connected for one purpose at once, and each uses its own connection.
        self.made = [one for one in self.made if one.gone is None] + [connection]
        if self.closed:
            connection.abort()
            raise Closed(CLOSED)
        return connection

    def anew(self, client_id: str) -> Leaders:
        """A new view of the same cluster, for another client."""
        return Leaders(self.connector, self.bootstrap, client_id)

    def close(self) -> None:
        self.end(abandoned=False)

    def end(self, *, abandoned: bool) -> None:
        """Close everything. Tasks that wait for a response or a connection, now or later, get Closed.

        With `abandoned` it ends as if the program had crashed: nothing is flushed.
        """
        self.closed = True
        if abandoned:
            for connection in self.made:
                connection.abort()
        # Surplus connections for one purpose stay open until the program ends: seeds depend on it.
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()
        self.made.clear()
        for task in self.connecting:
            task.cancel()
