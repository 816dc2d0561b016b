"""A client's session with the simulated ensemble; implements `nodes.zookeeper.session.Session`.

It belongs to one incarnation of a process: it sends when the process takes a turn, and is silent while the process is
paused, so that the ensemble ends its session then. Like ZooKeeper's own client it pings in a third of the timeout,
leaves a server that is silent for two thirds, and tries the servers in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from squall.harness.simulation.world.ensemble import PORT, Ask, Bye, Hello, Ping, Tell, Welcome, frame_of, message_of
from squall.harness.simulation.world.network import ConnectionEnd, SimNetwork
from squall.nodes.zookeeper.session import (
    MAX_REQUEST,
    Code,
    Create,
    Exists,
    GetChildren,
    GetData,
    SessionEvent,
    SessionRequest,
    SessionResponse,
    SessionState,
    SetData,
    StateChanged,
    WatchFired,
    WatchType,
)

NEVER = 2**63 - 1
RETRY_PAUSE = 100_000
Deliver = Callable[[int, Callable[[int, SessionEvent], None]], None]


class SimSession:
    """See the module. `wake` runs a turn of the process."""

    def __init__(
        self,
        address: str,
        servers: tuple[str, ...],
        timeout: int,
        *,
        network: SimNetwork,
        rng: Random,
        wake: Callable[[], None],
        now: int,
    ) -> None:
        self._address = address
        self._servers = list(servers)
        rng.shuffle(self._servers)
        self._timeout = timeout
        self._network = network
        self._wake = wake
        self._state = SessionState.CONNECTING
        self._id = 0
        self._zxid = 0
        self._end: ConnectionEnd | None = None
        self._is_open = False
        self._heard = self._pinged = now
        self._connect_at = now
        self._number = 0
        self._unsent: deque[SessionRequest] = deque()
        self._sent: dict[int, SessionRequest] = {}
        self._arrived: deque[tuple[ConnectionEnd, Welcome | Ping | Tell | WatchFired | None]] = deque()
        self._local: deque[Deliver] = deque()
        """Completions and events that this client has caused itself."""
        self._data_watches: dict[str, None] = {}
        self._existence_watches: dict[str, None] = {}
        self._child_watches: dict[str, None] = {}

    @property
    def id(self) -> int:
        return self._id

    @property
    def state(self) -> SessionState:
        return self._state

    # -- requests -------------------------------------------------------------------------------------------------

    def submit(self, now: int, request: SessionRequest) -> None:
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            self._end_with(request, Code.SESSION_EXPIRED)
        elif _size(request) > MAX_REQUEST:
            self._end_with(request, Code.MARSHALLING_ERROR)
        elif self._state is SessionState.CONNECTED:
            self._send(request)
        else:
            self._unsent.append(request)

    def _end_with(self, request: SessionRequest, code: Code) -> None:
        self._local.append(lambda now, on_event: request.complete(now, SessionResponse(code)))

    def _send(self, request: SessionRequest) -> None:
        self._number += 1
        self._sent[self._number] = request
        if self._end is not None:
            self._network.send(self._end, frame_of(Ask(self._number, request.operation)))

    # -- the network's side (network.Endpoint) --------------------------------------------------------------------

    def connected(self, end: ConnectionEnd) -> None:
        if end is self._end:
            self._is_open = True
            self._network.send(
                end,
                frame_of(
                    Hello(
                        self._id,
                        self._timeout,
                        self._zxid,
                        tuple(self._data_watches),
                        tuple(self._existence_watches),
                        tuple(self._child_watches),
                    )
                ),
            )

    def delivered(self, end: ConnectionEnd, frame: bytes) -> None:
        message = message_of(frame)
        assert isinstance(message, Welcome | Ping | Tell | WatchFired)
        self._arrived.append((end, message))
        self._wake()

    def disconnected(self, end: ConnectionEnd) -> None:
        self._arrived.append((end, None))
        self._wake()

    # -- delivery -------------------------------------------------------------------------------------------------

    def deliver(self, now: int, on_event: Callable[[int, SessionEvent], None]) -> None:
        while self._arrived or self._local:
            while self._local:
                self._local.popleft()(now, on_event)
            if self._arrived:
                end, message = self._arrived.popleft()
                if end is not self._end:
                    continue
                self._heard = now
                if message is None:
                    self._lost(now)
                else:
                    self._hear(now, message, on_event)
        self._keep(now)

    def _hear(
        self,
        now: int,
        message: Welcome | Ping | Tell | WatchFired,
        on_event: Callable[[int, SessionEvent], None],
    ) -> None:
        match message:
            case Welcome(session=0):
                self._expire()
            case Welcome():
                self._id = message.session
                self._change(SessionState.CONNECTED)
                while self._unsent:
                    self._send(self._unsent.popleft())
            case Tell():
                request = self._sent.pop(message.number, None)
                if request is not None:
                    self._zxid = max(self._zxid, message.response.zxid)
                    self._note_watch(request, message.response)
                    request.complete(now, message.response)
            case WatchFired():
                self._forget_watch(message)
                on_event(now, message)

    def _note_watch(self, request: SessionRequest, response: SessionResponse) -> None:
        operation = request.operation
        if isinstance(operation, Exists | GetData | GetChildren) and operation.watch:
            if isinstance(operation, GetChildren):
                watches = self._child_watches if response.ok else None
            elif response.ok:
                watches = self._data_watches
            else:
                watches = self._existence_watches if isinstance(operation, Exists) else None
            if watches is not None:
                watches[operation.path] = None

    def _forget_watch(self, event: WatchFired) -> None:
        if event.type is not WatchType.NODE_CHILDREN_CHANGED:
            self._data_watches.pop(event.path, None)
            self._existence_watches.pop(event.path, None)
        if event.type in (WatchType.NODE_CHILDREN_CHANGED, WatchType.NODE_DELETED):
            self._child_watches.pop(event.path, None)

    def _change(self, state: SessionState) -> None:
        self._state = state
        self._local.append(lambda now, on_event: on_event(now, StateChanged(state)))

    # -- connections ----------------------------------------------------------------------------------------------

    def _keep(self, now: int) -> None:
        """Connect, ping, or leave a server that is silent."""
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            return
        if self._end is None:
            if now >= self._connect_at:
                self._connect(now)
        elif now - self._heard >= self._timeout * 2 // 3:
            self._network.close(self._end)
            self._lost(now)
        elif self._state is SessionState.CONNECTED and now - self._pinged >= self._timeout // 3:
            self._pinged = now
            self._network.send(self._end, frame_of(Ping()))

    def _connect(self, now: int) -> None:
        self._servers.append(self._servers.pop(0))
        self._heard = self._pinged = now
        self._is_open = False
        self._end = self._network.connect(self._address, self._servers[-1], PORT, self)

    def _lost(self, now: int) -> None:
        self._end = None
        self._connect_at = now + RETRY_PAUSE
        sent, self._sent = self._sent, {}
        for request in sent.values():
            self._end_with(request, Code.CONNECTION_LOSS)
        if self._state is SessionState.CONNECTED:
            self._change(SessionState.CONNECTING)

    def _expire(self) -> None:
        if self._end is not None:
            self._network.close(self._end)
        self._end = None
        self._id = 0
        self._data_watches.clear()
        self._existence_watches.clear()
        self._child_watches.clear()
        for request in (*self._sent.values(), *self._unsent):
            self._end_with(request, Code.SESSION_EXPIRED)
        self._sent.clear()
        self._unsent.clear()
        self._change(SessionState.EXPIRED)

    def deadline(self) -> int:
        if self._arrived or self._local:
            return 0
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            return NEVER
        if self._end is None:
            return self._connect_at
        silent = self._heard + self._timeout * 2 // 3
        return min(silent, self._pinged + self._timeout // 3) if self._state is SessionState.CONNECTED else silent

    def renew(self, now: int) -> None:
        if self._state is SessionState.EXPIRED:
            self._state = SessionState.CONNECTING
            self._zxid = 0
            self._connect_at = now

    def close(self, now: int) -> None:
        if self._end is not None and self._state is SessionState.CONNECTED:
            self._network.send(self._end, frame_of(Bye()))
            self._network.close(self._end)
        self._end = None
        self._state = SessionState.CLOSED


def _size(request: SessionRequest) -> int:
    operation = request.operation
    return len(operation.data) if isinstance(operation, Create | SetData) else 0
