"""Stub brokers of a cluster with a ZooKeeper controller: registered in ZooKeeper, they respond to the controller.

They have no logs. Each is an ephemeral znode and a port. The controller sends LeaderAndIsr, UpdateMetadata and
StopReplica; a stub counts the bytes, notes when, and responds that all is well. Topics exist as znodes, written as
Kafka writes them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from squall.benchmarks.experiments.parts import ephemeral
from squall.benchmarks.experiments.parts.zookeeper_client import Client
from squall.nodes.zookeeper.session import Create, Delete, Multi

REPLICAS = 3
PARTITIONS_AT_ONCE = 500
LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN = 4, 5, 6, 7
_ALL_WELL = {LEADER_AND_ISR: b"\0\0\1\0", STOP_REPLICA: b"\0\0\1\0", UPDATE_METADATA: b"\0\0\0"}
"""Bodies of the responses in the newest versions: no error, an empty array where there is one, no tagged fields."""
READ_LIMIT = 1 << 20
LOOK_EVERY_S, FEW_PACKETS = 0.1, 10
"""How often it is looked whether the controller works, and how many packets to ZooKeeper are no work."""


# -- topics ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Topic-partitions over brokers: the one with number n is on the brokers n, n+1 and n+2, and led by the first."""

    partitions: int
    of_a_topic: int
    brokers: int

    def replicas(self, number: int) -> list[int]:
        return [(number + place) % self.brokers for place in range(REPLICAS)]

    def topics(self) -> Iterator[tuple[str, range]]:
        for first in range(0, self.partitions, self.of_a_topic):
            yield f"topic-{first // self.of_a_topic}", range(first, min(first + self.of_a_topic, self.partitions))


async def write_topics(client: Client, layout: Layout) -> None:
    """Write all topics as znodes, many in a transaction and several transactions under way."""
    await client.make("/brokers/topics")
    under_way = asyncio.Semaphore(8)

    async def written(topic: str, numbers: range) -> None:
        async with under_way:
            for part in _parts(topic, numbers, layout):
                await client.do(Multi(tuple(part)))

    await asyncio.gather(*(written(topic, numbers) for topic, numbers in layout.topics()))


def _parts(topic: str, numbers: range, layout: Layout) -> Iterator[list[Create]]:
    path = f"/brokers/topics/{topic}"
    part = [Create(path, _topic(topic, numbers, layout)), Create(f"{path}/partitions")]
    for place, number in enumerate(numbers):
        replicas = layout.replicas(number)
        state = {"controller_epoch": 1, "leader": replicas[0], "version": 1, "leader_epoch": 0, "isr": replicas}
        part += [
            Create(f"{path}/partitions/{place}"),
            Create(f"{path}/partitions/{place}/state", json.dumps(state, separators=(",", ":")).encode()),
        ]
        if len(part) >= 2 * PARTITIONS_AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _topic(topic: str, numbers: range, layout: Layout) -> bytes:
    identity = base64.urlsafe_b64encode(topic.encode().rjust(16, b"-")).rstrip(b"=").decode()
    content = {
        "version": 3,
        "topic_id": identity,
        "partitions": {str(place): layout.replicas(number) for place, number in enumerate(numbers)},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    return json.dumps(content, separators=(",", ":")).encode()


# -- brokers -----------------------------------------------------------------------------------------------------------


@dataclass
class ZookeeperStub:
    """One stub broker. `epoch` is the transaction that created its znode."""

    broker: int
    client: Client
    epoch: int = -1
    received_bytes: int = 0
    heard_at: float = 0.0
    """When the last request of a controller had arrived in whole and was responded to."""
    _owner: subprocess.Popen[str] | None = field(default=None, repr=False)
    _server: asyncio.Server | None = field(default=None, repr=False)
    _connected: list[asyncio.StreamWriter] = field(default_factory=list, repr=False)

    async def start(self) -> None:
        """Listen, and register in ZooKeeper."""
        content = await self._listen()
        created = await self.client.do(Create(self._path, content.encode(), ephemeral=True))
        self.epoch = created.zxid

    async def start_killable(self, servers: Sequence[tuple[str, int]], session_ms: int) -> None:
        """Listen, and let a process of its own register, which `kill` kills."""
        command = ephemeral.command(servers, session_ms, self._path, await self._listen())
        self._owner = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self._owner.stdout is not None
        self.epoch = int(await asyncio.to_thread(self._owner.stdout.readline))

    async def kill(self) -> float:
        """Kill the process that registered, and listen no more. Returns when, in seconds of the monotonic clock."""
        assert self._owner is not None, "the stub was not started by start_killable"
        at = time.monotonic()
        self._owner.kill()
        await self.close()
        return at

    async def _listen(self) -> str:
        """Listen on a port. Returns the content of the broker's znode."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=READ_LIMIT)
        port = self._server.sockets[0].getsockname()[1]
        content = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
            "jmx_port": -1,
            "features": {},
            "host": "127.0.0.1",
            "timestamp": "1",
            "port": port,
            "version": 5,
        }
        return json.dumps(content)

    @property
    def _path(self) -> str:
        return f"/brokers/ids/{self.broker}"

    async def leave(self) -> None:
        """Disappear from ZooKeeper, as a broker does whose session ends."""
        await self.client.do(Delete(self._path))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connected.append(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                head = await reader.readexactly(8)
                await _skip(reader, size - 8)
                body = head[4:8] + b"\0" + _ALL_WELL[int.from_bytes(head[:2], "big")]
                writer.write(len(body).to_bytes(4, "big") + body)
                self.received_bytes += size + 4
                self.heard_at = time.monotonic()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def close(self) -> None:
        if self._owner is not None:
            self._owner.kill()
            self._owner.wait()
        if self._server is not None:
            self._server.close()
        for writer in self._connected:
            writer.close()


async def _skip(reader: asyncio.StreamReader, size: int) -> None:
    while size:
        content = await reader.read(min(size, READ_LIMIT))
        if not content:
            raise ConnectionResetError
        size -= len(content)


async def request_shutdown(controller: tuple[str, int], stub: ZookeeperStub, timeout_s: float) -> int:
    """Ask the controller for a controlled shutdown of a broker. Returns how many topic-partitions it still leads."""
    header = CONTROLLED_SHUTDOWN.to_bytes(2, "big") + (3).to_bytes(2, "big") + bytes(4) + (4).to_bytes(2, "big")
    body = stub.broker.to_bytes(4, "big") + stub.epoch.to_bytes(8, "big") + b"\0"
    frame = header + b"stub" + b"\0" + body
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(*controller, limit=READ_LIMIT)
        try:
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            writer.write(len(frame).to_bytes(4, "big") + frame)
            content = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        finally:
            writer.close()
    error = int.from_bytes(content[5:7], "big", signed=True)
    assert error == 0, f"controlled shutdown of broker {stub.broker}: error {error}"
    return _varint(content[7:]) - 1


def _varint(content: bytes) -> int:
    value = 0
    for place, byte in enumerate(content):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return value


async def quiet(stubs: Sequence[ZookeeperStub], received: Callable[[], int], seconds: float, timeout_s: float) -> float:
    """Wait until the controller has sent nothing for so long, from now on. Returns when a stub was last sent something.

    `received` counts what ZooKeeper has received: a controller that reads many states sends nothing to brokers
    meanwhile. Pings, and what this process itself asks, are few.
    """
    began = busy_at = time.monotonic()
    before = await asyncio.to_thread(received)
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        now, after = time.monotonic(), await asyncio.to_thread(received)
        if after - before > FEW_PACKETS:
            busy_at = now
        before = after
        last = max(one.heard_at for one in stubs)
        if now > max(last, busy_at) + seconds:
            return last
        assert now < began + timeout_s, f"the controller still sends requests after {timeout_s:.0f} s"
