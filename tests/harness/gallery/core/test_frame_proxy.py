"""The proxy in front of a broker of this machine: as `rpc-hold`, without root."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from squall.harness.gallery.core.frame_proxy import FrameProxy, HoldRule
from squall.harness.loopback.loopback import free_ports
from squall.nemesis.core.apis import API_KEYS
from tests.nemesis.agent.rpc.test_rpc_frames import request
from tests.waiting import wait_until

PRODUCE, METADATA = API_KEYS["Produce"], API_KEYS["Metadata"]


class EchoNode:
    """Answers every request with its correlation id, and remembers the order in which they came."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while len(length := stream.read(4)) == 4:
                message = stream.read(struct.unpack(">i", length)[0])
                self.seen.append(struct.unpack(">i", message[4:8])[0])
                connection.sendall(struct.pack(">i", 4) + message[4:8])

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def node() -> Iterator[EchoNode]:
    one = EchoNode()
    yield one
    one.close()


@pytest.fixture
def proxy(node: EchoNode, tmp_path: Path) -> Iterator[FrameProxy]:
    with FrameProxy(free_ports(1)[0], node.port, tmp_path) as one:
        yield one


@pytest.fixture
def connect(proxy: FrameProxy) -> Iterator[Callable[[], socket.socket]]:
    made: list[socket.socket] = []

    def connected() -> socket.socket:
        made.append(socket.create_connection(("127.0.0.1", proxy.port), timeout=5))
        return made[-1]

    yield connected
    for one in made:
        one.close()


def answer(connection: socket.socket) -> int:
    """The correlation id of the next response."""
    return int(struct.unpack(">ii", connection.recv(8, socket.MSG_WAITALL))[1])


def test_one_request_is_held_and_delivered_after_its_connection_died(
    node: EchoNode, proxy: FrameProxy, connect: Callable[[], socket.socket]
) -> None:
    proxy.hold(HoldRule("late", "Produce", count=1, pass_others=True, outlive=True))
    first = connect()
    first.sendall(request(PRODUCE, 1) + request(PRODUCE, 2) + request(METADATA, 3))
    assert [answer(first), answer(first)] == [2, 3]
    wait_until(lambda: proxy.effect("late").met == 1, "it is held")
    assert proxy.waiting("late") == 1
    first.close()
    second = connect()
    second.sendall(request(PRODUCE, 4))
    assert answer(second) == 4
    proxy.release("late")
    wait_until(lambda: proxy.effect("late").answered == 1, "it is delivered and answered in vain")
    assert node.seen == [2, 3, 4, 1]
    assert (proxy.effect("late").late, proxy.waiting("late")) == (1, 0)


def test_what_is_held_without_outliving_is_lost_with_its_connection(
    node: EchoNode, proxy: FrameProxy, connect: Callable[[], socket.socket]
) -> None:
    proxy.hold(HoldRule("lost", "Produce", count=1, pass_others=True))
    first = connect()
    first.sendall(request(PRODUCE, 1) + request(METADATA, 2))
    assert answer(first) == 2
    first.close()
    wait_until(lambda: proxy.effect("lost").dropped == 1, "it is lost")
    proxy.release("lost")
    assert node.seen == [2]


def test_a_held_request_is_released_at_an_event(
    node: EchoNode, proxy: FrameProxy, connect: Callable[[], socket.socket]
) -> None:
    proxy.hold(HoldRule("h", "Produce", count=1, pass_others=True, until=("Metadata", "response", 1)))
    one = connect()
    one.sendall(request(PRODUCE, 1) + request(METADATA, 2))
    assert {answer(one), answer(one)} == {1, 2}
    assert node.seen == [2, 1]


def test_a_small_buffer_stops_a_sender_in_the_middle_of_a_request(node: EchoNode, tmp_path: Path) -> None:
    with FrameProxy(free_ports(1)[0], node.port, tmp_path, receive_buffer=4096) as proxy:
        proxy.hold(HoldRule("stall", "Produce", count=1))
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
            client.connect(("127.0.0.1", proxy.port))
            client.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.sendall(request(PRODUCE, 1, bytes(1 << 20)))
            assert proxy.effect("stall").met == 1 and node.seen == []


def test_a_broker_that_is_down_resets_the_connection(tmp_path: Path) -> None:
    listening, dead = free_ports(2)
    with (
        FrameProxy(listening, dead, tmp_path),
        pytest.raises(ConnectionResetError),  # on a busy machine as early as in connect()
        socket.create_connection(("127.0.0.1", listening), timeout=5) as client,
    ):
        client.recv(1)


def test_it_ends_with_its_connections(node: EchoNode, tmp_path: Path) -> None:
    proxy = FrameProxy(free_ports(1)[0], node.port, tmp_path)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as client:
        client.sendall(request(METADATA, 1))
        assert answer(client) == 1
        proxy.close()
        proxy.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=1)
