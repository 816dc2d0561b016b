"""Forged frames in bulk, from processes of their own: thousands a second, on many connections at once.

Each process has `WAYS` connections to each plane. It puts a burst of `BURST` frames on one, goes on to the next, and
comes back when all are answered, when the node has closed the connection, or when nothing has come for `LINGER_S`,
since some frames ask to be parked for minutes. So the node always has frames to look at, and the sender never waits for
one of them.

Every `MALFORMED`th frame to a controller is a BrokerHeartbeat or BrokerRegistration that nobody may obey: cut short,
of a broker that does not exist, of an epoch that never was, of another cluster.
"""

from __future__ import annotations

import multiprocessing
import random
import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from squall.nodes.node.dispatch import BROKER_VERSIONS, CONTROLLER_VERSIONS
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from squall.nodes.protocol.messages.produce import ProduceRequest
from squall.nodes.protocol.requests.headers import encode_request
from squall.nodes.protocol.requests.session import Versions
from squall.nodes.protocol.schema import Message
from tests.nodes.forged import Forger

COMMANDS = frozenset(
    {
        int(ApiKey.UNREGISTER_BROKER),
        int(ApiKey.BROKER_REGISTRATION),
        int(ApiKey.BROKER_HEARTBEAT),
        int(ApiKey.ALTER_PARTITION_REASSIGNMENTS),
    }
)
"""What is obeyed if it names the right broker; authentication is what keeps strangers from that."""
NAMES = ["__cluster_metadata", "squall-cluster-00000-A", "forged", "wide"]
WAYS = 12
BURST = 48
"""Fewer than a connection may have in flight, so that none waits in a socket for a parked one's answer."""
LINGER_S = 0.5
MALFORMED = 20
PROCESSES = 2
STUCK_S = 60.0
CONNECT_S = 20.0
NOBODY = 2**30
"""No broker has this id."""


@dataclass(frozen=True)
class Plane:
    """A listener, and what is served there."""

    port: int
    versions: Versions
    is_control: bool


def planes(broker: int, controller: int) -> list[Plane]:
    """Both, by port, without `COMMANDS`."""

    def harmless(versions: Versions) -> Versions:
        return {key: served for key, served in versions.items() if key not in COMMANDS}

    return [
        Plane(broker, harmless(BROKER_VERSIONS), False),
        Plane(controller, harmless(CONTROLLER_VERSIONS), True),
    ]


@dataclass
class Frames:
    """Draws frames; a seed gives the same ones again."""

    rng: random.Random
    forger: Forger = field(init=False)
    sent: int = 0

    def __post_init__(self) -> None:
        self.forger = Forger(self.rng, names=NAMES)

    def burst(self, plane: Plane, most: int) -> tuple[bytes, int, int]:
        """Up to `most` frames with their lengths; how many, and how many answers they ask for. What is certain to
        close the connection ends the burst."""
        parts: list[bytes] = []
        count = silent = 0
        while count < most:
            count += 1
            frame, goes_on, answered = self._frame(plane, self.sent + count)
            parts += (struct.pack(">i", len(frame)), frame)
            silent += not answered
            if not goes_on:
                break
        self.sent += count
        return b"".join(parts), count, count - silent

    def _frame(self, plane: Plane, number: int) -> tuple[bytes, bool, bool]:
        """A frame; whether others may follow it, and whether it is answered."""
        correlation = number & 0x7FFFFFFF
        if plane.is_control and number % MALFORMED == 0:
            return self._malformed(correlation)
        key = self.rng.choice(list(plane.versions))
        message, version = self.forger.request(plane.versions, key)
        frame = b"".join(encode_request(key, version, correlation, "forger", message))
        answered = not isinstance(message, ProduceRequest) or message.acks != 0
        return frame, answered, answered

    def _malformed(self, correlation: int) -> tuple[bytes, bool, bool]:
        """What claims to be a broker's, and can be no broker's."""
        message = self._refused()
        frame = b"".join(encode_request(message.API_KEY, message.VERSIONS[1], correlation, "forger", message))
        if self.rng.random() < 0.2:
            return frame[: self.rng.randrange(10, len(frame))], False, False
        return frame, True, True

    def _refused(self) -> Message:
        rng, forger = self.rng, self.forger
        heartbeat = forger.message(BrokerHeartbeatRequest, 1)
        registration = forger.message(BrokerRegistrationRequest, 4)
        assert isinstance(heartbeat, BrokerHeartbeatRequest) and isinstance(registration, BrokerRegistrationRequest)
        kind = rng.randrange(4)
        if kind == 0:
            heartbeat.broker_id = rng.choice((NOBODY, -1, -(2**31), 2**31 - 1))
            return heartbeat
        if kind == 1:
            heartbeat.broker_epoch = rng.choice((-1, -(2**63), 2**63 - 1))
            return heartbeat
        if kind == 2:
            registration.cluster_id = rng.choice(("", "another cluster", "\x00" * 300))
            registration.listeners = [Listener("PLAINTEXT", "127.0.0.1", 1, 0)]
            return registration
        registration.listeners = []
        return registration


class _Way:
    """One connection, and the burst on it."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.socket: socket.socket | None = None
        self.unsent = memoryview(b"")
        self.unanswered = 0
        self.began = 0.0
        self._head = b""
        self._skip = 0

    def connect(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.plane.port), timeout=CONNECT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._head, self._skip = b"", 0

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        self.unsent, self.unanswered = memoryview(b""), 0

    def begin(self, burst: bytes, answers: int, now: float) -> None:
        self.unsent, self.unanswered, self.began = memoryview(burst), answers, now
        self.push()

    @property
    def is_free(self) -> bool:
        return not self.unsent and self.unanswered <= 0

    def push(self) -> None:
        assert self.socket is not None
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def drain(self) -> None:
        assert self.socket is not None
        try:
            while chunk := self.socket.recv(1 << 18):
                self._count(chunk)
        except BlockingIOError:
            return
        except OSError:
            pass
        self.close()

    def _count(self, chunk: bytes) -> None:
        """Count the answers that a chunk completes."""
        data = self._head + chunk if self._head else chunk
        position = self._skip
        while len(data) - position >= 4:
            position += 4 + int.from_bytes(data[position : position + 4], "big")
            self.unanswered -= 1
        self._skip = max(0, position - len(data))
        self._head = data[position:] if position < len(data) else b""


def storm(broker: int, controller: int, count: int, seed: int) -> None:
    """Send `count` frames, and end when the last of them are answered or given up."""
    rng = random.Random(seed)
    frames = Frames(rng)
    ways = [_Way(plane) for _ in range(WAYS) for plane in planes(broker, controller)]
    moved = time.monotonic()
    while True:
        now = time.monotonic()
        for way in ways:
            if way.socket is not None and now - way.began > LINGER_S:
                way.close()
            if way.is_free and frames.sent < count:
                if way.socket is None:
                    _connect(way)
                burst, _, answers = frames.burst(way.plane, min(BURST, count - frames.sent))
                way.begin(burst, answers, now)
                moved = now
        busy = {way.socket.fileno(): way for way in ways if way.socket is not None and not way.is_free}
        if not busy and frames.sent >= count:
            break
        assert now - moved < STUCK_S, f"seed {seed}: nothing can be sent since {STUCK_S} s; {frames.sent} were"
        for number in _ready(busy):
            way = busy[number]
            if way.socket is not None and way.unsent:
                way.push()
            if way.socket is not None:
                way.drain()
            way.began = time.monotonic()
    for way in ways:
        way.close()


def _connect(way: _Way) -> None:
    """A node that has as many connections as it takes refuses some: that is no death."""
    until = time.monotonic() + STUCK_S
    while True:
        try:
            way.connect()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _ready(busy: Mapping[int, _Way]) -> Iterator[int]:
    poll = select.poll()
    for number, way in busy.items():
        poll.register(number, select.POLLIN | (select.POLLOUT if way.unsent else 0))
    return (number for number, _ in poll.poll(50))


def run(broker: int, controller: int, count: int, seed: int, processes: int = PROCESSES) -> None:
    """Let `processes` send `count` frames in all. Raises AssertionError naming the seed of one that failed."""
    context = multiprocessing.get_context("spawn")
    shares = [count // processes + (number < count % processes) for number in range(processes)]
    running = {
        seed * 1000 + number: context.Process(target=storm, args=(broker, controller, share, seed * 1000 + number))
        for number, share in enumerate(shares)
    }
    try:
        for process in running.values():
            process.start()
        for one, process in running.items():
            process.join()
            assert process.exitcode == 0, f"the sender of seed {one} ended with {process.exitcode}"
    finally:
        for process in running.values():
            if process.is_alive():
                process.kill()
                process.join()
