"""Lengthen the round trip between clients and a server on loopback; for experiments.

    with LatencyRelay(("127.0.0.1", 2181), round_trip_s=0.001) as relay:
        connect_to(relay.address)

The relay is a process of its own. It accepts connections, opens one to the server for each, and forwards bytes both
ways, each half a round trip after it has received them. Bytes keep their order, the end of a direction is forwarded
like bytes, and no rate is limited. The operating system adds its own delay to each half: some 0.1 ms where processors
are idle, more where they are busy. Who reports figures therefore measures the round trip that results.

The process ends with `close`, and with the process that started it, since it reads the pipe that joins them.
"""

from __future__ import annotations

import contextlib
import ctypes
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator
from types import TracebackType

Address = tuple[str, int]

READ_SIZE = 1 << 18
HELD_AT_MOST = 1 << 25
"""Bytes of one direction; the relay reads no more of it while it holds so many."""
PR_SET_TIMERSLACK = 29
TIMER_SLACK_NS = 1_000


class LatencyRelay:
    """A relay to one server, as a process; see the module."""

    def __init__(self, server: Address, *, round_trip_s: float) -> None:
        command = [sys.executable, "-m", __name__, server[0], str(server[1]), str(round_trip_s / 2)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address: Address = ("127.0.0.1", int(self._process.stdout.readline()))

    def __enter__(self) -> LatencyRelay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Direction:
    """One direction of a connection: what came from `source`, and is due at `target` later."""

    def __init__(self, source: socket.socket, target: socket.socket, delay_s: float) -> None:
        self.source = source
        self.target = target
        self.is_blocked = False
        """`target` takes no more at present."""
        self._delay_s = delay_s
        self._held: deque[tuple[float, memoryview]] = deque()
        self._held_bytes = 0
        self._has_ended = False

    @property
    def reads(self) -> bool:
        return not self._has_ended and self._held_bytes < HELD_AT_MOST

    @property
    def is_over(self) -> bool:
        """The source has ended, and the target knows it."""
        return self._has_ended and not self._held

    @property
    def due_at(self) -> float | None:
        """When the next bytes are due, in seconds of the monotonic clock; None if none are held or can be sent."""
        return self._held[0][0] if self._held and not self.is_blocked else None

    def receive(self, now: float) -> None:
        """Take what has arrived. Raises OSError if the connection is broken."""
        content = self.source.recv(READ_SIZE)
        self._has_ended = not content
        self._held.append((now + self._delay_s, memoryview(content)))
        self._held_bytes += len(content)

    def send(self, now: float) -> None:
        """Forward what is due. Raises OSError if the connection is broken."""
        self.is_blocked = False
        while self._held and self._held[0][0] <= now and not self.is_blocked:
            due_at, content = self._held.popleft()
            if not content:
                self.target.shutdown(socket.SHUT_WR)
                return
            sent = _sent(self.target, content)
            self._held_bytes -= sent
            if sent < len(content):
                self.is_blocked = True
                self._held.appendleft((due_at, content[sent:]))


def _sent(target: socket.socket, content: memoryview) -> int:
    try:
        return target.send(content)
    except BlockingIOError:
        return 0


class Connection:
    """A client's connection and the relay's own one to the server."""

    def __init__(self, client: socket.socket, server: socket.socket, delay_s: float) -> None:
        self._ends = (client, server)
        for one in self._ends:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setblocking(False)
        self.directions = (Direction(client, server, delay_s), Direction(server, client, delay_s))

    def move(self, readable: Collection[object], now: float) -> bool:
        """Receive and forward. Returns whether the connection goes on; else it is closed."""
        try:
            for one in self.directions:
                if one.source in readable:
                    one.receive(now)
                one.send(now)
        except OSError:
            self.close()
            return False
        if all(one.is_over for one in self.directions):
            self.close()
            return False
        return True

    def close(self) -> None:
        for one in self._ends:
            one.close()


def relay(server: Address, delay_s: float) -> None:
    """Print the port that clients connect to, and relay until standard input ends.

    `select` serves this better than `epoll`: its time-outs are finer than a millisecond.
    """
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        print(listener.getsockname()[1], flush=True)
        connections: list[Connection] = []
        while True:
            readable = _wait(listener, connections)
            if sys.stdin in readable:
                return
            now = time.monotonic()
            connections = [one for one in connections if one.move(readable, now)]
            if listener in readable:
                connections += _accepted(listener, server, delay_s)


def _wait(listener: socket.socket, connections: list[Connection]) -> set[object]:
    """Wait until something can be received, or sent, or is due. Returns what can be received from."""
    directions = [direction for one in connections for direction in one.directions]
    reading = [one.source for one in directions if one.reads]
    writing = [one.target for one in directions if one.is_blocked]
    dues = [one.due_at for one in directions if one.due_at is not None]
    timeout_s = max(0.0, min(dues) - time.monotonic()) if dues else None
    return set(select.select([sys.stdin, listener, *reading], writing, [], timeout_s)[0])


def _accepted(listener: socket.socket, server: Address, delay_s: float) -> Iterator[Connection]:
    """Connect a new client with the server; close it if the server refuses."""
    client, _ = listener.accept()
    try:
        yield Connection(client, socket.create_connection(server), delay_s)
    except OSError:
        client.close()


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS)
    relay((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))
