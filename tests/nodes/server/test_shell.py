"""The shell around a node that the test plays: framing, release, failure, and the end, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress

import pytest

from squall.nodes.node.effects import Close, Connect, Effect, Pause, Resume, Send
from squall.nodes.server.shell import SIP, Shell

NEVER = 2**63 - 1
FRAME_MAX = 1000


class PlayedNode:
    """Writes down what it is told. `on_received` is what it does then; `flushing` what it does in `flush`."""

    def __init__(self) -> None:
        self.outbox: list[Effect] = []
        self.notices: list[str] = []
        self.told: list[tuple[object, ...]] = []
        self.early: list[Effect] = []
        self.on_received: Callable[[int, bytes], None] = lambda connection, frame: None
        self.flushing: Callable[[], None] = lambda: None
        self.last_words: list[Effect] = []
        self.may_close = True
        self.memory = 2**63
        self.held: dict[int, int] = {}

    def opened(self, now: int, connection: int, listener: str | None) -> None:
        self.told.append(("opened", connection, listener))

    def received(self, now: int, connection: int, frame: bytearray) -> None:
        self.told.append(("received", connection, bytes(frame)))
        self.on_received(connection, bytes(frame))

    def closed(self, now: int, connection: int) -> None:
        self.told.append(("closed", connection))

    def host_holds(self, now: int, connection: int, size: int) -> None:
        grew = size > self.held.get(connection, 0)
        self.held[connection] = size
        if grew and self.is_short("PLAINTEXT"):
            self.outbox.append(Pause(connection))

    def is_short(self, listener: str) -> bool:
        return sum(self.held.values()) >= self.memory

    def stalled(self, now: int, connection: int, stalled: bool) -> None:
        self.told.append(("stalled", connection, stalled))

    def tick(self, now: int) -> None: ...

    def turn(self, now: int) -> None: ...

    def release_early(self) -> list[Effect]:
        early, self.early = self.early, []
        return early

    def flush(self, now: int) -> None:
        self.flushing()

    def deadline(self) -> int:
        return NEVER

    def begin_shutdown(self, now: int) -> None:
        self.told.append(("begin_shutdown",))

    def close(self, now: int) -> None:
        self.outbox += self.last_words


class Running:
    """A shell at work, and the port that it listens on."""

    def __init__(self, node: PlayedNode) -> None:
        self.node = node
        self.shell = Shell(node, FRAME_MAX)  # type: ignore[arg-type]
        self.port = 0
        self.task: asyncio.Task[None]

    async def start(self) -> None:
        bound = socket.create_server(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        await self.shell.listen("PLAINTEXT", bound)
        self.task = asyncio.create_task(self.shell.run())

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def told(self, *event: object) -> None:
        """Until the node has been told so."""
        while event not in self.node.told:
            assert not self.task.done(), self.task.exception()
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self.shell.stop()
        await self.task


def play(scenario: Callable[[Running], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        running = Running(PlayedNode())
        await running.start()
        await asyncio.wait_for(scenario(running), 10)
        if not running.task.done():
            await running.stop()

    asyncio.run(run())


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def test_frames_are_cut_out_of_the_stream_however_it_is_divided() -> None:
    async def scenario(running: Running) -> None:
        _, writer = await running.connect()
        for byte in framed(b"one") + framed(b"") + framed(b"x" * FRAME_MAX):
            writer.write(bytes([byte]))
            await writer.drain()
        await running.told("received", 1, b"one")
        await running.told("received", 1, b"")
        await running.told("received", 1, b"x" * FRAME_MAX)

    play(scenario)


def test_frames_begun_by_many_at_once_hold_little_more_than_there_is_memory() -> None:
    """All are ready to be read in one round, in which nobody can be paused; later, every frame arrives whole."""
    many, size = 40, 300_000
    content = bytes(range(250)) * (size // 250)

    async def scenario(running: Running) -> None:
        running.shell.frame_bytes_max = size
        running.node.memory = 1 << 20
        ways = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(many)]
        for number in range(many):
            await running.told("opened", number + 1, "PLAINTEXT")
        for way in ways:
            way.setblocking(False)
        sent = [way.send(framed(content)) for way in ways]
        while len(running.node.held) < many:
            await asyncio.sleep(0)
        held = sum(running.node.held.values())
        assert held <= running.node.memory + size + many * 2 * SIP, held
        running.node.memory = 2**63
        running.node.outbox += [Resume(number + 1) for number in range(many)]
        running.shell._ask_for_iteration()
        loop = asyncio.get_running_loop()
        for way, done in zip(ways, sent, strict=True):
            await loop.sock_sendall(way, framed(content)[done:])
        for number in range(many):
            await running.told("received", number + 1, content)
        for way in ways:
            way.close()

    play(scenario)


@pytest.mark.parametrize("length", [FRAME_MAX + 1, -1])
def test_a_frame_of_impossible_length_ends_its_connection_and_is_said(
    length: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario(running: Running) -> None:
        reader, writer = await running.connect()
        await running.told("opened", 1, "PLAINTEXT")
        writer.write(length.to_bytes(4, "big", signed=True))
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        await running.told("closed", 1)

    play(scenario)
    assert f"closing a connection on PLAINTEXT: a frame of {length} bytes; socket.request" in capsys.readouterr().out


def test_what_may_leave_early_leaves_before_the_flush_and_the_rest_after_it() -> None:
    async def scenario(running: Running) -> None:
        node = running.node
        reader, writer = await running.connect()
        at_the_flush: list[bytes] = []

        def answer(connection: int, frame: bytes) -> None:
            node.early = [Send(connection, [b"early"], True)]
            node.outbox.append(Send(connection, [b"late"]))

        def flush() -> None:
            if node.outbox:
                raw = writer.get_extra_info("socket")
                at_the_flush.append(socket.fromfd(raw.fileno(), raw.family, raw.type).recv(100, socket.MSG_PEEK))

        node.on_received, node.flushing = answer, flush
        writer.write(framed(b"ask"))
        assert await reader.readexactly(len(framed(b"early")) + len(framed(b"late"))) == framed(b"early") + framed(
            b"late"
        )
        assert at_the_flush == [framed(b"early")]

    play(scenario)


@pytest.mark.parametrize("where", ["received", "flush", "begin_shutdown"])
def test_an_exception_from_the_node_ends_the_run_wherever_it_was_thrown(where: str) -> None:
    class Broken(Exception): ...

    def throw(*_: object) -> None:
        raise Broken

    async def scenario(running: Running) -> None:
        _, writer = await running.connect()
        await running.told("opened", 1, "PLAINTEXT")
        if where == "received":
            running.node.on_received = throw
            writer.write(framed(b"ask"))
        elif where == "flush":
            running.node.flushing = throw
            writer.write(framed(b"ask"))
        else:
            running.node.begin_shutdown = throw  # type: ignore[method-assign]
            running.shell.ask_to_stop()
        with pytest.raises(Broken):
            await running.task

    play(scenario)


@pytest.mark.parametrize("address", [("127.0.0.1", 1), ("x" * 70 + ".example", 9092), ("127.0.0.1", 70_000)])
def test_a_connection_that_cannot_be_made_is_told_as_closed(address: tuple[str, int]) -> None:
    """Nobody listens; a name that is none; a port that is none. Brokers register with what they like."""

    async def scenario(running: Running) -> None:
        def connect(connection: int, frame: bytes) -> None:
            running.node.outbox.append(Connect(-1, *address))

        running.node.on_received = connect
        _, writer = await running.connect()
        writer.write(framed(b"go"))
        await running.told("closed", -1)

    play(scenario)


def test_a_connection_that_is_closed_while_it_is_being_made_is_never_opened() -> None:
    async def scenario(running: Running) -> None:
        listening = socket.create_server(("127.0.0.1", 0))

        def connect(connection: int, frame: bytes) -> None:
            running.node.outbox += [Connect(-1, "127.0.0.1", listening.getsockname()[1]), Close(-1)]

        running.node.on_received = connect
        _, writer = await running.connect()
        writer.write(framed(b"go"))
        await running.told("received", 1, b"go")
        writer.write(framed(b"still there?"))
        await running.told("received", 1, b"still there?")
        assert ("opened", -1, None) not in running.node.told
        assert running.shell._connecting == {}
        listening.close()

    play(scenario)


def test_the_last_words_of_a_node_that_stops_arrive_and_then_the_connection_ends() -> None:
    async def scenario(running: Running) -> None:
        reader, _ = await running.connect()
        await running.told("opened", 1, "PLAINTEXT")
        running.node.last_words = [Send(1, [b"farewell"])]
        await running.stop()
        assert await reader.read() == framed(b"farewell")
        with pytest.raises(OSError):
            await running.connect()

    play(scenario)


def test_a_peer_that_takes_nothing_does_not_hold_up_the_end_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squall.nodes.server.shell.FLUSH_ON_STOP_S", 0.1)

    async def scenario(running: Running) -> None:
        with socket.create_connection(("127.0.0.1", running.port)):
            await running.told("opened", 1, "PLAINTEXT")
            running.node.last_words = [Send(1, [bytes(64 << 20)])]
            await running.stop()

    play(scenario)


def test_a_stop_waits_for_the_node_to_prepare_and_a_second_does_not() -> None:
    async def scenario(running: Running) -> None:
        running.node.may_close = False
        running.shell.ask_to_stop()
        await running.told("begin_shutdown")
        for _ in range(100):
            await asyncio.sleep(0)
        assert not running.task.done()
        running.shell.ask_to_stop()
        await running.task

    play(scenario)
