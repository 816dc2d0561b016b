"""Stub brokers: they register, heartbeat and follow the metadata log like brokers, but have no logs.

Two million topic-partitions of three replicas are six million logs, too many for a small machine; controllers do not
notice whether they exist. All stubs run in one event loop. One of them decodes and applies committed records to its
image; the others walk over the batches and count their bytes.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.dispatch import peer_version
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.session import ClientSession
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_PARTITION, METADATA_TOPIC_ID
from squall.nodes.protocol.value_batches import parse_values

CLUSTER_ID = "squall-cluster-00000-A"
HEARTBEAT_S = 2.0
RETRY_S = 0.005
BROKERS_RETRY_S = 0.05
"""Thirty brokers that retried as often as the benchmark does would be a load of their own while there is no leader."""
REQUEST_TIMEOUT_S = 120.0
FETCH_BYTES = 8 << 20
APPLIED_AT_ONCE = 10_000
Answer = TypeVar("Answer", bound=Message)
Address = tuple[str, int]


class ControllerConnection:
    """One connection at a time to the controller that responds as the active one."""

    def __init__(self, controllers: Sequence[Address], name: str, retry_s: float = RETRY_S) -> None:
        self._retry_s = retry_s
        self._controllers = list(controllers)
        self._name = name
        self.at = 0
        """The index of the controller in use."""
        self._connection: socket.socket | None = None
        self._session = ClientSession(name)
        self._one_at_a_time = asyncio.Lock()

    async def once(self, message: Message) -> Message | None:
        """Send to the current controller. Returns None if it is unreachable; the next call uses the next controller."""
        async with self._one_at_a_time:
            return await self._ask(message)

    async def _ask(self, message: Message) -> Message | None:
        try:
            loop = asyncio.get_running_loop()
            if self._connection is None:
                self._session = ClientSession(self._name)
                self._connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.sock_connect(self._connection, self._controllers[self.at])
            connection = self._connection
            found: list[Message | None] = []
            version = peer_version(message, to_controller=True)
            chunks = self._session.send(message, version, 0, 2**62, lambda now, answer: found.append(answer))
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await loop.sock_sendall(connection, sum(map(len, chunks)).to_bytes(4, "big") + b"".join(chunks))
                size = int.from_bytes(await _exactly(connection, 4), "big")
                self._session.received(0, await _exactly(connection, size))
            return found[0]
        except (OSError, EOFError, ProtocolError, TimeoutError):
            self.turn_away()
            return None

    def turn_away(self) -> None:
        """Use the next controller from now on."""
        self.close()
        self.at = (self.at + 1) % len(self._controllers)

    async def until(self, message: Callable[[], Message], good: Callable[[Message], bool]) -> Message:
        """Send until a response is good, controller after controller."""
        while True:
            answer = await self.once(message())
            if answer is not None and good(answer):
                return answer
            if answer is not None:
                self.turn_away()
            await asyncio.sleep(self._retry_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def _exactly(connection: socket.socket, size: int) -> memoryview:
    """Receive so many bytes with one copy, since thirty stubs receive at once. Raises EOFError."""
    content = memoryview(bytearray(size))
    loop, got = asyncio.get_running_loop(), 0
    while got < size:
        received = await loop.sock_recv_into(connection, content[got:])
        if not received:
            raise EOFError("the controller closed the connection")
        got += received
    return content


class Stub:
    """One stub broker. `image` is set if it applies records."""

    def __init__(self, broker: int, controllers: Sequence[Address], *, applies: bool) -> None:
        self.broker = broker
        self.epoch = -1
        self.leaving = False
        self.received_bytes = 0
        self.next_offset = 0
        self.high_watermark = 0
        self.image = MetadataImage() if applies else None
        self._last_epoch = 0
        self._leader_epoch = 0
        self._lifecycle = ControllerConnection(controllers, f"stub-{broker}", BROKERS_RETRY_S)
        self._fetch = ControllerConnection(controllers, f"stub-{broker}-fetch", BROKERS_RETRY_S)
        self._waiting: list[tuple[int, float, memoryview]] = []

    # -- lifecycle ------------------------------------------------------------------------------------------------

    def registration(self) -> BrokerRegistrationRequest:
        """What the broker says of itself when it registers."""
        return BrokerRegistrationRequest(
            broker_id=self.broker,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.broker.to_bytes(16, "big"),
            listeners=[Listener("PLAINTEXT", "127.0.0.1", 9092, 0)],
            log_dirs=[self.broker.to_bytes(16, "big")],
        )

    async def register(self) -> None:
        request = self.registration()
        answer = await self._lifecycle.until(
            lambda: request, lambda one: cast(BrokerRegistrationResponse, one).error_code == ErrorCode.NONE
        )
        self.epoch = cast(BrokerRegistrationResponse, answer).broker_epoch

    def heartbeat(self, *, leave: bool = False) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self.broker,
            broker_epoch=self.epoch,
            current_metadata_offset=self.next_offset - 1,
            want_shut_down=leave,
        )

    async def beat(self) -> None:
        """Send heartbeats until the broker leaves."""
        while not self.leaving:
            await self._lifecycle.until(self.heartbeat, _heard)
            await asyncio.sleep(HEARTBEAT_S if self.next_offset > self.epoch else 0.05)

    async def leave(self, committed: Callable[[], None]) -> None:
        """Run a controlled shutdown until the controller grants it.

        The controller responds to the first heartbeat that requests it when all its changes are committed; `committed`
        is called then. It grants the shutdown when the heartbeats of all other brokers show that they know of it
        (CS-04).
        """
        self.leaving = True
        first = True
        while True:
            answer = await self._lifecycle.until(lambda: self.heartbeat(leave=True), _heard)
            if first:
                committed()
                first = False
            if cast(BrokerHeartbeatResponse, answer).should_shut_down:
                return
            await asyncio.sleep(BROKERS_RETRY_S)

    # -- the metadata log -----------------------------------------------------------------------------------------

    @property
    def position(self) -> tuple[int, int, int]:
        """The high watermark, the next offset to fetch, and the epoch of the record before it."""
        return self.high_watermark, self.next_offset, self._last_epoch

    async def follow(self) -> None:
        while True:
            answer = await self._fetch.until(self._fetch_request, self._take)
            assert isinstance(answer, FetchResponse)
            if self.image is not None:
                await self._apply(self.image)

    def _fetch_request(self) -> FetchRequest:
        part = FetchPartition(
            partition=0,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=self.next_offset,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=FETCH_BYTES,
        )
        return FetchRequest(
            cluster_id=CLUSTER_ID,
            replica_state=ReplicaState(replica_id=self.broker, replica_epoch=-1),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, topic=METADATA_PARTITION.topic, partitions=[part])],
        )

    def _take(self, answer: Message) -> bool:
        """Count what a response brought. Returns whether it came from the leader."""
        response = cast(FetchResponse, answer)
        if response.error_code != ErrorCode.NONE or not response.responses:
            return False
        data = response.responses[0].partitions[0]
        self._leader_epoch = max(self._leader_epoch, data.current_leader.leader_epoch)
        if data.error_code != ErrorCode.NONE:
            return False
        if data.diverging_epoch.end_offset >= 0:
            self.next_offset = min(self.next_offset, data.diverging_epoch.end_offset)
            self._last_epoch = data.diverging_epoch.epoch
            self._waiting = [one for one in self._waiting if one[0] < self.next_offset]
            return True
        for header, batch in iterate_batches(data.records or b"", torn_tail=True):
            if self.image is not None:
                self._waiting.append((header.last_offset, time.monotonic(), batch))
            self.next_offset, self._last_epoch = header.next_offset, header.leader_epoch
            self.received_bytes += header.size
        self.high_watermark = max(self.high_watermark, data.high_watermark)
        return True

    async def _apply(self, image: MetadataImage) -> None:
        applied = 0
        while self._waiting and self._waiting[0][0] < self.high_watermark:
            last_offset, _, batch = self._waiting.pop(0)
            for header, one in iterate_batches(batch):
                if not header.is_control:
                    self.replay(image, parse_values(one), header.base_offset, header.leader_epoch)
                applied += header.count
            image.passed(last_offset)
            if applied >= APPLIED_AT_ONCE:
                applied = 0
                await asyncio.sleep(0)

    def replay(self, image: MetadataImage, values: Sequence[bytes], offset: int, epoch: int) -> None:
        """Apply the records of one batch; the first has this offset."""
        image.replay_values(values, offset, epoch)

    def close(self) -> None:
        self._lifecycle.close()
        self._fetch.close()


def _heard(answer: Message) -> bool:
    return cast(BrokerHeartbeatResponse, answer).error_code == ErrorCode.NONE


async def until(what: str, condition: Callable[[], bool], timeout_s: float = 600.0, *, every_s: float = 0.002) -> None:
    """Check every few milliseconds until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}")
        await asyncio.sleep(every_s)


async def all_of(works: Sequence[Awaitable[None]]) -> None:
    await asyncio.gather(*works)
