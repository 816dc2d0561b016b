"""The asyncio shell: sockets, framing and timers around one `Node`, on one thread.

One iteration is the host's loop of docs/architecture.md: deliver inputs, `tick` if due, `turn`, `flush`, drain the
outbox. Inputs are delivered as the event loop reads them and request an iteration in the loop's next round, so that
everything that was ready together is handled in one turn (and one fsync). There is one timer, for the node's deadline;
it is moved forward when needed and re-armed lazily when it fires early, since deadlines change far more often than they
expire.

Framing copies as little as it can. All connections read into one shared buffer; small frames are copied out of it. A
frame that does not fit gets a separate buffer, into which the socket reads directly. The buffer grows with the received
bytes, never with the claimed length: `FRAME_BEGIN` at first, `FRAME_GROWTH` times as much when that is full. While the
node has no memory left for a listener's connections, each is read by `SIP` bytes, which is reported at once, so that
thousands of frames begun in the same instant hold little more than the node's budget. Each frame is its own bytearray,
so that a batch can be patched in place. A frame longer than `socket.request.max.bytes`, or of negative length, ends its
connection.

Backpressure works both ways: a node pauses a connection whose channel is full. When a peer does not take its responses,
the shell stops reading from it and notifies the node, which serves it no further request. The shell reports to the
node's budget (KIP-72) what it holds for a connection: the bytes of an incomplete frame and of responses not taken.

Connections beyond the limits (`connection_limits.py`) are closed on arrival.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from squall.nodes.node.base import BaseNode
from squall.nodes.node.effects import Buffer, Close, Connect, Effect, Pause, Resume, Send
from squall.nodes.node.notice_limit import NoticeLimit
from squall.nodes.node.timings import Recent
from squall.nodes.server.clock import monotonic_us
from squall.nodes.server.connection_limits import ConnectionLimits
from squall.nodes.server.log import say

READ_BUFFER = 256 << 10
FRAME_BEGIN = 64 << 10
FRAME_GROWTH = 4
"""A batch of a megabyte, of which the first read brings a quarter, is then copied at most once."""
SIP = 4 << 10
REPORT_FROM = 64 << 10
"""The least held bytes of a connection, and the least change of them, that are reported to the node."""
REFUSALS_TOLD_EVERY_S = 1.0
WRITE_HIGH = 4 << 20
WRITE_LOW = 1 << 20
JOIN_BELOW = 32 << 10
"""Chunks shorter than this are joined into one write; longer ones are written alone, uncopied."""
FLUSH_ON_STOP_S = 2.0


class _Connection(asyncio.BufferedProtocol):
    """One TCP connection: cuts its stream into frames and passes them to the node."""

    def __init__(self, shell: Shell, identity: int, listener: str | None) -> None:
        self.identity = identity
        self._shell = shell
        self.listener = listener
        """None for a connection that the node opened."""
        self._transport: asyncio.Transport | None = None
        self._frame: bytearray | None = None
        self._frame_length = 0
        self._filled = 0
        self.held = 0
        """The held bytes last reported to the node."""
        self.heard_at = 0.0
        self._head = b""
        self._paused_by_node = False
        self._paused_by_peer = False

    # -- asyncio's side -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        peer = transport.get_extra_info("peername")
        self._shell.connected(self, self.listener, str(peer[0]) if isinstance(peer, tuple) else "")

    def connection_lost(self, exc: Exception | None) -> None:
        self._shell.disconnected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        return self._shell.read_buffer[:SIP] if self._is_short else self._shell.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard_at = self._shell.time()
        if self._frame is None:
            self._cut(self._shell.read_buffer[:nbytes])
            return
        self._filled += nbytes
        if self._filled == self._frame_length:
            frame, self._frame = self._frame, None
            self.report()
            self._shell.deliver(self, frame)
        elif self._filled == len(self._frame):
            grown = bytearray(min(self._frame_length, self._room_for(self._filled)))
            grown[: self._filled] = self._frame
            self._frame = grown
            self.report()

    @property
    def _is_short(self) -> bool:
        """Whether the node has no memory left for connections of this listener."""
        return self.listener is not None and self._shell.is_short(self.listener)

    def _room_for(self, filled: int) -> int:
        """The new size of a buffer of which `filled` bytes are filled."""
        return filled + SIP if self._is_short else max(FRAME_BEGIN, filled * FRAME_GROWTH)

    def _cut(self, data: memoryview) -> None:
        """Deliver the whole frames of `data`, and keep the beginning of the next one."""
        if self._head:
            data = memoryview(self._head + bytes(data))
            self._head = b""
        position, end = 0, len(data)
        while end - position >= 4:
            length = int.from_bytes(data[position : position + 4], "big", signed=True)
            if not 0 <= length <= self._shell.frame_bytes_max:
                most = self._shell.frame_bytes_max
                self._shell.refuse(self, f"a frame of {length} bytes; socket.request.max.bytes allows 0 to {most}")
                return
            position += 4
            if end - position < length:
                self._filled = end - position
                self._frame_length = length
                self._frame = bytearray(min(length, self._room_for(self._filled)))
                self._frame[: self._filled] = data[position:]
                self.report()
                return
            self._shell.deliver(self, bytearray(data[position : position + length]))
            position += length
        self._head = bytes(data[position:])

    def pause_writing(self) -> None:
        self._paused_by_peer = True
        self._shell.stalled(self, True)
        self._apply_pauses()

    def report(self) -> None:
        """Report to the node how much is held here, if that has changed."""
        held = 0 if self._frame is None else len(self._frame)
        if self._transport is not None:
            held += self._transport.get_write_buffer_size()
        if held < REPORT_FROM and not (held and self._is_short):
            held = 0
        moved = abs(held - self.held)
        if self.listener is not None and moved and (moved >= REPORT_FROM or held < REPORT_FROM):
            self.held = held
            self._shell.holds(self, held)

    def resume_writing(self) -> None:
        self._paused_by_peer = False
        self.report()
        self._shell.stalled(self, False)
        self._apply_pauses()

    # -- the node's side ------------------------------------------------------------------------------------------

    def pause(self, paused: bool) -> None:
        self._paused_by_node = paused
        self._apply_pauses()

    def _apply_pauses(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        wanted = not (self._paused_by_node or self._paused_by_peer)
        if wanted and not transport.is_reading():
            transport.resume_reading()
        elif not wanted and transport.is_reading():
            transport.pause_reading()

    def send(self, chunks: Sequence[Buffer]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        size = sum(map(len, chunks))
        small: list[Buffer] = [size.to_bytes(4, "big")]
        if size < JOIN_BELOW:
            small.extend(chunks)
            transport.write(b"".join(small))
            return
        for chunk in chunks:
            if len(chunk) < JOIN_BELOW:
                small.append(chunk)
                continue
            transport.write(b"".join(small))
            transport.write(chunk)
            small.clear()
        if small:
            transport.write(b"".join(small))

    def close(self) -> None:
        """Close once what was sent has left; at once if the peer does not take it."""
        if self._paused_by_peer:
            self.abort()
        elif self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Shell:
    """Runs one node until `stop`. An exception from the node ends the run: a broken invariant must not continue."""

    def __init__(
        self,
        node: BaseNode,
        frame_bytes_max: int,
        *,
        idle: Callable[[], None] | None = None,
        iterated: Callable[[], None] | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._limits = limits or ConnectionLimits(2**31 - 1, 2**31 - 1)
        self._told_refusal_at = -REFUSALS_TOLD_EVERY_S
        self._bad_lengths = NoticeLimit()
        self._writing: dict[_Connection, None] = {}
        """Connections reported to hold something; checked again in each iteration."""
        self.read_buffer = memoryview(bytearray(READ_BUFFER))
        self.iterations = Recent()
        """How long iterations take; input that arrives meanwhile waits for so long."""
        self._node = node
        self._idle = idle
        self._iterated = iterated
        self._loop = asyncio.get_running_loop()
        self._connections: dict[int, _Connection] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._servers: list[asyncio.Server] = []
        self._last_accepted = 0
        self._iteration: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._all_gone = asyncio.Event()
        self._asked_to_stop = False

    async def listen(self, listener: str, bound: socket.socket) -> None:
        """Accept connections for a listener on a socket that is bound already."""
        self._servers.append(await self._loop.create_server(lambda: self._accept(listener), sock=bound, backlog=1024))

    async def run(self) -> None:
        """Run until `stop` is called; then close the node and send what is left in its outbox."""
        self._ask_for_iteration()
        await self._stopped
        for server in self._servers:
            server.close()
        self._node.close(monotonic_us())
        self._drain()
        for task in self._connecting.values():
            task.cancel()
        for connection in list(self._connections.values()):
            connection.close()
        if self._connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), FLUSH_ON_STOP_S)
        for connection in list(self._connections.values()):
            connection.abort()

    def ask_to_stop(self) -> None:
        """Stop when the node is prepared, which it bounds in time; a second call stops now."""
        if self._asked_to_stop:
            self.stop()
        elif not self._stopped.done():
            self._asked_to_stop = True
            self._input(self._node.begin_shutdown)

    def stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    def wake(self) -> None:
        """Run an iteration soon: a port of the node has something to deliver."""
        if not self._stopped.done():
            self._ask_for_iteration()

    # -- inputs ---------------------------------------------------------------------------------------------------

    def _accept(self, listener: str) -> _Connection:
        self._last_accepted += 1
        return _Connection(self, self._last_accepted, listener)

    def time(self) -> float:
        return self._loop.time()

    def connected(self, connection: _Connection, listener: str | None, address: str) -> None:
        if listener is not None and not self._admit(connection, listener, address):
            connection.abort()
            return
        self._connections[connection.identity] = connection
        self._all_gone.clear()
        if listener is not None:
            self._input(self._node.opened, connection.identity, listener)

    def _admit(self, connection: _Connection, listener: str, address: str) -> bool:
        """Count an accepted connection. Returns whether it may stay."""
        limits = self._limits
        why = limits.refusal(listener, address)
        if why is not None:
            limits.refused += 1
            if self.time() >= self._told_refusal_at + REFUSALS_TOLD_EVERY_S:
                self._told_refusal_at = self.time()
                say(f"closing new connections on {listener}: {why} ({limits.refused} were refused since the start)")
            return False
        limits.add(connection.identity, address)
        connection.heard_at = self.time()
        if limits.is_overfull:
            accepted = (one for one in self._connections.values() if one.listener is not None)
            silent = min(accepted, key=lambda one: one.heard_at, default=None)
            if silent is not None:
                self.disconnected(silent)
                silent.abort()
        return True

    def is_short(self, listener: str) -> bool:
        return self._node.is_short(listener)

    def holds(self, connection: _Connection, size: int) -> None:
        """Report a change of what is held for a connection; checked again as long as anything is held."""
        if size:
            self._writing[connection] = None
        else:
            self._writing.pop(connection, None)
        if connection.identity in self._connections:
            self._input(self._node.host_holds, connection.identity, size)

    def disconnected(self, connection: _Connection) -> None:
        self._limits.remove(connection.identity)
        self._writing.pop(connection, None)
        if self._connections.pop(connection.identity, None) is not None:
            self._input(self._node.closed, connection.identity)
        if not self._connections:
            self._all_gone.set()

    def deliver(self, connection: _Connection, frame: bytearray) -> None:
        if connection.identity in self._connections:
            self._input(self._node.received, connection.identity, frame)

    def stalled(self, connection: _Connection, stalled: bool) -> None:
        """Report whether a peer takes its responses, so that untaken responses do not fill the node's memory."""
        if connection.identity > 0 and connection.identity in self._connections:
            self._input(self._node.stalled, connection.identity, stalled)

    def refuse(self, connection: _Connection, why: str) -> None:
        """Close a connection whose peer broke the framing: nothing after it can be read."""
        where = connection.listener or "the way to another node"
        notice = self._bad_lengths.pass_on(monotonic_us(), f"closing a connection on {where}: {why}")
        if notice is not None:
            say(notice)
        self.disconnected(connection)
        connection.abort()

    def _input(self, method: Callable[..., None], *arguments: object) -> None:
        if self._stopped.done():
            return
        try:
            method(monotonic_us(), *arguments)
            self._ask_for_iteration()
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the run because the node has raised an exception, in any of its methods."""
        if not self._stopped.done():
            self._stopped.set_exception(error)

    # -- iterations -----------------------------------------------------------------------------------------------

    def _ask_for_iteration(self) -> None:
        if self._iteration is None:
            self._iteration = self._loop.call_soon(self._iterate)

    def _iterate(self) -> None:
        self._iteration = None
        if self._stopped.done():
            return
        try:
            self._iterate_once()
        except BaseException as error:
            self._fail(error)

    def _iterate_once(self) -> None:
        node = self._node
        now = monotonic_us()
        if node.deadline() <= now:
            node.tick(now)
        node.turn(now)
        self._release(node.release_early())
        node.flush(now)
        self._drain()
        for connection in list(self._writing):
            connection.report()
        for line in node.notices:
            say(line)
        node.notices.clear()
        if self._iterated is not None:
            self._iterated()
        if self._asked_to_stop and node.may_close:
            self.stop()
        deadline = node.deadline()
        ended = monotonic_us()
        self.iterations.add(ended - now)
        if deadline <= ended:
            self._ask_for_iteration()
        else:
            self._arm(deadline / 1_000_000)

    def _arm(self, when: float) -> None:
        """`when` is in seconds of the loop's clock, which is also the node's."""
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        if when > 2**53 / 1_000_000:
            self._timer = None
            return
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        if self._idle is not None:
            self._idle()
        self._ask_for_iteration()

    # -- effects --------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        outbox = self._node.outbox
        self._release(outbox)
        outbox.clear()

    def _release(self, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Send:
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    connection.send(effect.chunks)
                    connection.report()
            else:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Connect):
            task = self._loop.create_task(self._connect(effect))
            self._connecting[effect.connection] = task
        elif isinstance(effect, Close):
            self._close(effect.connection)
        elif isinstance(effect, Pause | Resume):
            connection = self._connections.get(effect.connection)
            if connection is not None:
                connection.pause(isinstance(effect, Pause))

    def _close(self, identity: int) -> None:
        connecting = self._connecting.pop(identity, None)
        if connecting is not None:
            connecting.cancel()
        connection = self._connections.pop(identity, None)
        if connection is not None:
            self._writing.pop(connection, None)
            connection.close()

    async def _connect(self, effect: Connect) -> None:
        try:
            transport, _ = await self._loop.create_connection(
                lambda: _Connection(self, effect.connection, None), effect.host, effect.port
            )
        except (OSError, ValueError, OverflowError):  # the latter for impossible addresses
            if self._connecting.pop(effect.connection, None) is not None:
                self._input(self._node.closed, effect.connection)
            return
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._connecting.pop(effect.connection, None) is not None:
            self._input(self._node.opened, effect.connection, None)
        else:
            self._connections.pop(effect.connection, None)
            transport.abort()
