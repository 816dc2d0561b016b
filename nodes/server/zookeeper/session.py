"""The session on sockets: runs a `SessionClient` in the event loop of the node's shell."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence

from squall.nodes.server.zookeeper.client import Drop, Open, SessionClient
from squall.nodes.server.zookeeper.jute import MalformedResponse
from squall.nodes.zookeeper.session import MAX_REQUEST, SessionEvent, SessionRequest, SessionState

FRAME_MAX = 128 << 20
"""The longest response that is read: the names of a million children have 30 MB."""


class _Connection(asyncio.Protocol):
    """One connection to a server: cuts its stream into frames."""

    def __init__(self, owner: WireSession) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._content = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._content += data
        at = 0
        while len(self._content) - at >= 4:
            end = at + 4 + int.from_bytes(self._content[at : at + 4], "big", signed=True)
            if not at + 4 <= end <= at + FRAME_MAX:
                self._owner.broken(self)
                return
            if end > len(self._content):
                break
            self._owner.received(self, bytes(memoryview(self._content)[at + 4 : end]))
            at = end
        del self._content[:at]
        self._owner.proceed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self)

    def write(self, frames: Sequence[bytes]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(piece for one in frames for piece in (len(one).to_bytes(4, "big"), one)))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class WireSession:
    """A session with a real ensemble, for a node in this event loop.

    `wake` is called when there is something to deliver, `say` with each change that an operator should know; `now` is
    the clock of the node and of the loop.
    """

    def __init__(
        self,
        servers: Sequence[tuple[str, int]],
        timeout_ms: int,
        wake: Callable[[], None],
        now: Callable[[], int],
        *,
        chroot: str = "",
        max_request: int = MAX_REQUEST,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = wake
        self._now = now
        self._connection: _Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._frames: list[bytes] = []
        self._scheduled: asyncio.Handle | None = None
        self._ensemble = ",".join(f"{host}:{port}" for host, port in servers) + chroot
        self._say = say
        self._said: dict[str, None] = {}
        self._reported = SessionState.CONNECTING
        self._client = SessionClient(servers, timeout_ms, self._now(), chroot=chroot, max_request=max_request)
        self._soon()

    # -- the port ------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        return self._client.id

    @property
    def state(self) -> SessionState:
        return self._client.state

    @property
    def timeout_ms(self) -> int:
        return self._client.timeout_ms

    def submit(self, now: int, request: SessionRequest) -> None:
        self._client.submit(now, request)
        self._soon()

    def deliver(self, now: int, on_event: Callable[[int, SessionEvent], None]) -> None:
        self._client.deliver(now, on_event)

    def deadline(self) -> int:
        """The session has a timer of its own, so a turn is due only for something to deliver."""
        return -1 if self._client.has_news else 2**63 - 1

    def renew(self, now: int) -> None:
        self._client.renew(now)
        self._soon()

    def close(self, now: int) -> None:
        self._client.close(now)
        self.proceed()

    # -- connections ---------------------------------------------------------------------------------------------------

    def received(self, connection: _Connection, frame: bytes) -> None:
        if connection is self._connection:
            try:
                self._client.received(self._now(), frame)
            except MalformedResponse:
                self.broken(connection)

    def broken(self, connection: _Connection) -> None:
        """Give up a connection that does not carry ZooKeeper's protocol."""
        connection.close()
        self.lost(connection)

    def lost(self, connection: _Connection) -> None:
        if connection is self._connection:
            self._connection = None
            self._client.lost(self._now())
            self.proceed()

    def proceed(self) -> None:
        """Do what the client wants done: write, open, close, wait; and wake the node if there is news."""
        self._scheduled = None
        effects, self._client.outbox = self._client.outbox, []
        for effect in effects:
            if isinstance(effect, bytes):
                self._frames.append(effect)
            elif isinstance(effect, Drop):
                self._leave()
            else:
                self._open(effect)
        self._flush()
        self._arm()
        if self.state is not self._reported:
            self._reported = self.state
            self._said.clear()
        if self.state is SessionState.CONNECTED:
            self._report(f"connected to ZooKeeper {self._ensemble}, session {self.id:#x}")
        elif self.state is SessionState.EXPIRED:
            self._report(f"the session with ZooKeeper {self._ensemble} has expired")
        if self._client.has_news:
            self._wake()

    def _report(self, line: str) -> None:
        """Say what is new; what is repeated until the state changes is said once."""
        if line not in self._said:
            self._said[line] = None
            self._say(line)

    def _soon(self) -> None:
        """Proceed in the loop's next round, so that requests that are submitted together are written together."""
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self.proceed)

    def _flush(self) -> None:
        if self._frames and self._connection is not None:
            self._connection.write(self._frames)
        self._frames.clear()

    def _leave(self) -> None:
        self._flush()
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self, server: Open) -> None:
        self._leave()
        self._opening = self._loop.create_task(self._connect(server))

    async def _connect(self, server: Open) -> None:
        try:
            _, connection = await self._loop.create_connection(lambda: _Connection(self), server.host, server.port)
        except OSError as error:
            self._opening = None
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            self._report(f"no connection to ZooKeeper at {server.host}:{server.port}: {reason}")
            self._client.lost(self._now())
        else:
            self._opening = None
            self._connection = connection
            self._client.opened(self._now())
        self.proceed()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._client.timer()
        if due < 2**63 - 1:
            self._timer = self._loop.call_at(due / 1_000_000, self._fired)

    def _fired(self) -> None:
        self._timer = None
        self._client.tick(self._now())
        self.proceed()
