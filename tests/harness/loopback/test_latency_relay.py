"""A relay that lengthens round trips: late by so much, nothing lost or reordered, ended as its ends end."""

from __future__ import annotations

import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from squall.harness.loopback import latency_relay
from squall.harness.loopback.latency_relay import Direction, LatencyRelay
from squall.harness.loopback.loopback import free_ports
from tests.waiting import wait_until

LATE_S = 0.02
ORPHAN = """
import signal
from squall.harness.loopback.latency_relay import LatencyRelay
relay = LatencyRelay(("127.0.0.1", 1), round_trip_s=0.01)
print(relay._process.pid, flush=True)
signal.pause()
"""


class EchoServer:
    """Sends back what it is sent, and ends a connection when its client has ended it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.ended = threading.Semaphore(0)
        """Released for each connection that has ended."""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(client,), daemon=True).start()

    def _echo(self, client: socket.socket) -> None:
        with client:
            try:
                while content := client.recv(1 << 16):
                    client.sendall(content)
            except OSError:
                pass
        self.ended.release()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def server() -> Iterator[EchoServer]:
    server = EchoServer()
    yield server
    server.close()


@pytest.fixture
def client(server: EchoServer) -> Iterator[socket.socket]:
    with LatencyRelay(server.address, round_trip_s=LATE_S) as relay, connect(relay.address) as client:
        yield client


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=20)


def received(client: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size and (piece := client.recv(1 << 16)):
        content += piece
    return content


def test_every_round_trip_takes_at_least_so_much_longer_and_the_best_hardly_more(client: socket.socket) -> None:
    taken = []
    for _ in range(20):
        began = time.monotonic()
        client.sendall(b"ping")
        assert received(client, 4) == b"ping"
        taken.append(time.monotonic() - began)
    assert LATE_S <= min(taken) < LATE_S + 0.01, taken


def test_what_is_sent_meanwhile_is_late_once_and_not_once_each(client: socket.socket) -> None:
    """Ten requests under way share a round trip, which is what experiments with ZooKeeper measure."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = time.monotonic()
    for _ in range(10):
        client.sendall(b"ping")
    assert len(received(client, 40)) == 40
    assert time.monotonic() - began < 5 * LATE_S


def test_megabytes_arrive_whole_and_in_order(client: socket.socket) -> None:
    content = random.Random(7).randbytes(20_000_000)
    threading.Thread(target=client.sendall, args=(content,), daemon=True).start()
    assert received(client, len(content)) == content


def test_the_end_of_one_direction_leaves_the_other_open(client: socket.socket) -> None:
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert received(client, 100) == b"last"


def test_a_connection_that_is_reset_ends_at_the_server(server: EchoServer) -> None:
    """The socket of a process that was killed with data unread."""
    with LatencyRelay(server.address, round_trip_s=LATE_S) as relay:
        one, other = connect(relay.address), connect(relay.address)
        one.sendall(b"ping")
        assert received(one, 4) == b"ping"
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
        assert server.ended.acquire(timeout=20)
        other.sendall(b"pong")
        assert received(other, 4) == b"pong", "the other connection goes on"
        other.close()


def test_where_no_server_listens_a_client_is_told_by_the_end() -> None:
    (port,) = free_ports(1)
    with LatencyRelay(("127.0.0.1", port), round_trip_s=LATE_S) as relay, connect(relay.address) as client:
        assert received(client, 1) == b""


def test_it_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        relay = psutil.Process(int(parent.stdout.readline()))
        assert relay.is_running()
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not relay.is_running() or relay.status() == psutil.STATUS_ZOMBIE, "its standard input has ended")


def test_it_holds_no_more_than_a_limit_for_a_reader_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency_relay, "HELD_AT_MOST", 1000)
    (sender, source), (target, reader) = socket.socketpair(), socket.socketpair()
    with sender, source, target, reader:
        direction = Direction(source, target, delay_s=5.0)
        sender.sendall(bytes(1000))
        direction.receive(now=10.0)
        assert not direction.reads and direction.due_at == 15.0
        direction.send(now=14.9)
        assert not direction.reads
        direction.send(now=15.0)
        assert direction.reads and direction.due_at is None
        assert len(reader.recv(2000)) == 1000


def test_what_a_reader_does_not_take_is_sent_when_it_does() -> None:
    (sender, source), (target, reader) = socket.socketpair(), socket.socketpair()
    with sender, source, target, reader:
        target.setblocking(False)
        direction, size = Direction(source, target, delay_s=0.0), 0
        while not direction.is_blocked:
            sender.sendall(bytes(50_000))
            direction.receive(now=1.0)
            size += 50_000
            direction.send(now=1.0)
        assert direction.due_at is None, "it waits for the reader, not for a time"
        taken = 0
        while direction.is_blocked:
            taken += len(reader.recv(1 << 20))
            direction.send(now=1.0)
        reader.setblocking(False)
        while taken < size:
            taken += len(reader.recv(1 << 20))
        assert taken == size and direction.due_at is None
