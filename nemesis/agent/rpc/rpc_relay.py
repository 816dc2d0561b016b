"""Relays one connection through the proxy: forwards bytes both ways unless a rule affects a message.

A held message stops its direction of this connection, and only that: nothing more is read there, so the sender sees a
receiver that takes nothing (TCP's window). What the kernel has received meanwhile still arrives when the hold ends,
even if the sender has given up. The other direction continues. A rule with `pass_others` takes the message out
instead, and what comes behind it passes (`rpc_aside.py`).

When a side ends the connection, the other side sees what it would have seen directly: an end as an end, a reset as a
reset. A cut resets the client, and the node too, except for a request that must still arrive: there the node reads it,
then the end.

When the last fault is over, a relay leaves at a quiet moment (`leave`): no message under way, no unanswered request,
nothing to read. Both sides see an ordinary end and reconnect without the proxy, and nothing is lost.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import enum
import fcntl
import socket
import struct
import termios
from dataclasses import dataclass, field
from typing import Any

from squall.nemesis.agent.net.addresses import Address
from squall.nemesis.agent.rpc.rpc_aside import Aside, Held
from squall.nemesis.agent.rpc.rpc_frames import Asked, FrameScanner, Header, Piece
from squall.nemesis.agent.rpc.rpc_rules import Rule, Rules
from squall.nemesis.agent.rpc.rpc_stream import Stream

CHUNK = 64 << 10
CONNECT_SECONDS = 5.0
ARRIVAL_SECONDS = 1.0
ARRIVAL_GLANCE = 0.001


class Ending(enum.Enum):
    """How a connection ends: whether it is reset for the client, and for the node."""

    CLOSED = (False, False)
    RESET = (True, True)
    RESET_BUT_ARRIVED = (True, False)


class _Over(Exception):
    """The relay is about to end."""


@dataclass(eq=False)
class _Way:
    """One direction. `moving` while bytes have been read but not passed on."""

    source: socket.socket
    sink: socket.socket
    responses: bool
    scanner: FrameScanner
    moving: bool = False
    ended: bool = False
    cutter: Rule | None = None
    """The rule that may cut when the message under way has arrived."""
    held: Held | None = None
    """The message under way, while it is being taken out."""
    api_key: int | None = None
    """Of the message under way; None if it is unknown."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the first to the last piece of a message, so that a message taken out goes in between two others."""


class Relay:
    """Owns both sockets (non-blocking) from the start of `run`, and closes them."""

    def __init__(self, client: socket.socket, node: socket.socket, source: Address, rules: Rules) -> None:
        self._client = client
        self._node = node
        self._source = source
        self._rules = rules
        self._stream = Stream(source, rules, lambda reset: self._end(Ending.RESET if reset else Ending.CLOSED))
        self._aside = Aside(self._deliver, self._leave_if_quiet)
        self._asked = Asked()
        self._requests = _Way(client, node, False, FrameScanner(responses=False))
        self._responses = _Way(node, client, True, FrameScanner(responses=True))
        self._leaving = False
        self._ending: Ending | None = None
        self._over = asyncio.Event()
        self._tasks: dict[bool, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Relay until the connection has ended on both sides."""
        for one in (self._client, self._node):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = (self._requests, self._responses)
        self._tasks = {way.responses: asyncio.create_task(self._carry(way)) for way in ways}
        try:
            await self._over.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._aside.close()
            self._stream.close()
            client_reset, node_reset = (self._ending or Ending.RESET).value
            close(self._client, reset=client_reset)
            close(self._node, reset=node_reset)

    def leave(self) -> None:
        """End the relay at the first quiet moment from now on."""
        self._leaving = True
        self._leave_if_quiet()

    def reset(self) -> None:
        self._end(Ending.RESET)

    def _end(self, ending: Ending) -> None:
        self._ending = self._ending or ending
        self._over.set()

    def _leave_if_quiet(self) -> None:
        ways = (self._requests, self._responses)
        underway = any(way.moving or not way.scanner.between_messages or something_to_read(way.source) for way in ways)
        if self._leaving and not underway and not self._asked and not self._aside:
            self._end(Ending.CLOSED)

    async def _carry(self, way: _Way) -> None:
        """Carry one direction until its end."""
        try:
            try:
                await self._carry_bytes(way)
            except OSError:
                if way.responses or not self._aside.outliving:
                    raise
                self._aside.sender_left()  # by a reset
            if not way.responses:
                await self._sender_left(way)
            await self._stream.before_end()
            way.sink.shutdown(socket.SHUT_WR)
            way.ended = True
            if self._requests.ended and self._responses.ended:
                self._end(Ending.CLOSED)
        except OSError:
            self._end(Ending.RESET)
        except _Over:
            return

    async def _carry_bytes(self, way: _Way) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(way.source, CHUNK):
            way.moving = True
            for piece in way.scanner.feed(data):
                await self._pass_on(way, piece)
            way.moving = False
            self._leave_if_quiet()
        if way.responses or not self._aside.outliving:  # else a message follows, and these bytes belong to none
            await loop.sock_sendall(way.sink, way.scanner.rest())

    async def _sender_left(self, way: _Way) -> None:
        """The client sends no more. A request that outlives it keeps the node's side open until it is answered."""
        if way.writing.locked():  # its last message is incomplete, so that nothing can follow it
            await self._aside.close()
        outliving = self._aside.outliving
        self._aside.sender_left()
        if outliving:
            await self._aside.settled()
            self._end(Ending.CLOSED)
            raise _Over

    async def _pass_on(self, way: _Way, piece: Piece) -> None:
        if piece.first is not None:
            way.cutter = await self._meet(way, piece.first)
            if way.held is None:
                await way.writing.acquire()
        if way.held is not None:
            self._take_out(way, way.held, piece)
            return
        cut = piece.last and way.cutter is not None and way.cutter.cuts_after()
        if cut:
            self._tasks[not way.responses].cancel()  # first, so that a response sent at once is lost too
        await self._send(way, piece.data)
        if piece.last:
            if way.writing.locked():
                way.writing.release()
            if way.api_key is not None:
                self._rules.note_passed(way.api_key, responses=way.responses)
        if cut:
            if way.responses:
                await arrival(way.sink)
            self._end(Ending.RESET if way.responses else Ending.RESET_BUT_ARRIVED)
            raise _Over

    async def _send(self, way: _Way, data: bytes) -> None:
        try:
            await self._stream.send(way.sink, data)
        except OSError:
            if not way.responses or not self._aside.outliving:
                raise
            self._aside.sender_left()  # nobody receives responses any more; they are read to their end

    def _take_out(self, way: _Way, held: Held, piece: Piece) -> None:
        held.data += piece.data
        if piece.last:
            way.held = None
            self._aside.keep(held)

    async def _deliver(self, held: Held) -> None:
        """Write a message that was taken out, between two others."""
        way = self._responses if held.response else self._requests
        async with way.writing:
            if not held.response:
                self._asked.note(held.header)
            await self._stream.send(way.sink, bytes(held.data))

    async def _meet(self, way: _Way, message: Header) -> Rule | None:
        """Wait while rules hold the message. Returns the rule that will cut after it, if there is one.

        If a rule takes the message out, it is `way.held` from here on.
        """
        if way.responses:
            way.api_key = self._asked.api_key_of(message)
            self._aside.answered(message.correlation)
        else:
            way.api_key = message.api_key
        if way.api_key is None:
            return None
        while (rule := self._rules.find(self._source, way.api_key, responses=way.responses)) and rule.holds:
            if rule.spec.pass_others:
                rule.take()
                way.held = Held(rule, message, way.responses)
                return None
            await rule.hold()
        if rule is not None and rule.cuts_before():
            self._end(Ending.RESET)
            raise _Over
        if not way.responses:
            self._asked.note(message)
        return rule


def something_to_read(one: socket.socket) -> bool:
    """Whether there are bytes to read, or an end of the peer's that the relay must pass on."""
    try:
        one.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


async def arrival(one: socket.socket) -> None:
    """Wait until the peer's kernel has received what was sent, but at most a second.

    Polls, because the kernel has no event for it.
    """
    deadline = asyncio.get_running_loop().time() + ARRIVAL_SECONDS
    unacknowledged = array.array("i", [0])
    while asyncio.get_running_loop().time() < deadline:
        fcntl.ioctl(one, termios.TIOCOUTQ, unacknowledged)
        if not unacknowledged[0]:
            return
        await asyncio.sleep(ARRIVAL_GLANCE)


async def connected(client: socket.socket, there: tuple[Any, ...]) -> socket.socket | None:
    """Return a connection to the node for this client; if there is none in time, reset the client and return None."""
    node = socket.socket(client.family, socket.SOCK_STREAM)
    node.setblocking(False)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(node, there), CONNECT_SECONDS)
    except (OSError, TimeoutError):
        close(client, reset=True)
        close(node, reset=True)
        return None
    return node


def close(one: socket.socket, *, reset: bool) -> None:
    """Close with a reset, or with an ordinary end after all that was sent."""
    with contextlib.suppress(OSError):
        if reset:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()
