"""A ZooKeeper session as a state machine without input and output; it is the port `nodes.zookeeper.session.Session`.

The host opens the connection that `Open` asks for, reports `opened`, `received` and `lost`, writes the frames of
`outbox`, and calls `tick` at `deadline()`. It then has the node run a turn if `has_news`.

Watches are set by the server that the session is connected to; on each new connection the client sets them again with
the last transaction that it has seen, so that a change in between is reported (`SetWatches`). A watch event arrives
before the response to any request that shows the change, since both come from one server over one connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from squall.nodes.server.zookeeper import jute, paths
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
    StateChanged,
    WatchFired,
    WatchType,
)

NEVER = 2**63 - 1
RETRY_US = 200_000
"""The pause after no server of the ensemble could be reached."""
PINGS = 3
"""A ping follows after so large a part of the time-out without a request."""
SILENCE = 2 / 3
"""A server that has sent nothing for so large a part of the time-out is given up."""
WATCHES_AT_ONCE = 128 << 10
"""Bytes of paths in one `SetWatches`; a server refuses a megabyte."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open a connection to a server, in place of the one before."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection once everything is written."""


Effect = Open | Drop | bytes
"""Bytes are a frame without its length."""


class Watches:
    """What this session watches, so that a new connection can watch it again."""

    def __init__(self) -> None:
        self.data: dict[str, None] = {}
        self.exist: dict[str, None] = {}
        self.children: dict[str, None] = {}

    def add(self, request: SessionRequest, code: Code) -> None:
        """Keep the watch that a request has set, if it has set one."""
        operation = request.operation
        if not isinstance(operation, Exists | GetData | GetChildren) or not operation.watch:
            return
        if code is Code.OK:
            (self.children if isinstance(operation, GetChildren) else self.data)[operation.path] = None
        elif code is Code.NO_NODE and isinstance(operation, Exists):
            self.exist[operation.path] = None

    def fired(self, event: WatchFired) -> bool:
        """Forget the watches that an event ends. Returns whether there were any."""
        kept = {
            WatchType.NODE_CREATED: (self.data, self.exist),
            WatchType.NODE_DATA_CHANGED: (self.data, self.exist),
            WatchType.NODE_DELETED: (self.data, self.exist, self.children),
            WatchType.NODE_CHILDREN_CHANGED: (self.children,),
        }[event.type]
        held = [watched for watched in kept if event.path in watched]
        for watched in held:
            del watched[event.path]
        return bool(held)

    def clear(self) -> None:
        for watched in (self.data, self.exist, self.children):
            watched.clear()

    def parts(self) -> Iterator[tuple[list[str], list[str], list[str]]]:
        """Return all watches (data, existence, children) in parts small enough for one request each."""
        kinds = (self.data, self.exist, self.children)
        part: tuple[list[str], list[str], list[str]] = ([], [], [])
        size = 0
        for number, watched in enumerate(kinds):
            for path in watched:
                if size > WATCHES_AT_ONCE:
                    yield part
                    part, size = ([], [], []), 0
                part[number].append(path)
                size += len(path) + 4
        if size:
            yield part


class _Root(SessionRequest):
    """Creates a part of the chroot; it belongs to no component, and is repeated until it has a response."""


def _ignore(now: int, response: SessionResponse) -> None:
    """Do nothing: a part of the chroot that exists already is as good."""


class SessionClient:
    """One session; see the module. `servers` are tried in order, beginning with the first."""

    def __init__(
        self,
        servers: Sequence[tuple[str, int]],
        timeout_ms: int,
        now: int,
        *,
        chroot: str = "",
        max_request: int = MAX_REQUEST,
    ) -> None:
        """`chroot` is the znode that this session takes for the root; it is created if it does not exist."""
        self.outbox: list[Effect] = []
        self._servers = list(servers)
        self._server = -1
        self._timeout_asked = timeout_ms
        self._max_request = max_request
        self._state = SessionState.CONNECTING
        self._news: deque[tuple[SessionRequest, SessionResponse] | SessionEvent] = deque()
        self._unsent: deque[SessionRequest] = deque()
        self._sent: deque[tuple[int, SessionRequest]] = deque()
        self._watches = Watches()
        self._last_zxid = 0
        self._failed_servers = 0
        self._chroot = chroot
        self._begin()
        self._connect(now)

    def _begin(self) -> None:
        """Forget the session; the next connection begins another one."""
        self._id = 0
        self._password = jute.NO_PASSWORD
        self._timeout = self._timeout_asked * 1000
        self._xid = 0
        self._watches.clear()
        ends = [place for place, one in enumerate(f"{self._chroot}/") if one == "/" and place]
        self._unsent.extendleft(_Root(Create(self._chroot[:end]), _ignore) for end in reversed(ends))

    # -- the port ------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        return self._id

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def timeout_ms(self) -> int:
        """The session's time-out; the server's decision once connected."""
        return self._timeout // 1000

    @property
    def has_news(self) -> bool:
        """Whether `deliver` would deliver something."""
        return bool(self._news)

    def submit(self, now: int, request: SessionRequest) -> None:
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            self._news.append((request, SessionResponse(Code.SESSION_EXPIRED)))
        elif self._state is SessionState.CONNECTED and not self._unsent:
            self._send(now, request)
        else:
            self._unsent.append(request)

    def deliver(self, now: int, on_event: Callable[[int, SessionEvent], None]) -> None:
        while self._news:
            news = self._news.popleft()
            if isinstance(news, tuple):
                request, response = news
                request.complete(now, response)
            else:
                on_event(now, news)

    def deadline(self) -> int:
        return -1 if self._news else self.timer()

    def renew(self, now: int) -> None:
        if self._state is SessionState.EXPIRED:
            self._state = SessionState.CONNECTING
            self._failed_servers = 0
            self._connect(now)

    def close(self, now: int) -> None:
        if self._state is SessionState.CONNECTED:
            self._xid += 1
            self.outbox.append(jute.close_session(self._xid))
        if self._state is not SessionState.CLOSED:
            self.outbox.append(Drop())
            self._end(SessionState.CLOSED)

    # -- the host ------------------------------------------------------------------------------------------------------

    def timer(self) -> int:
        """When `tick` must be called next."""
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            return NEVER
        if self._state is SessionState.CONNECTING:
            return self._give_up_at if self._opening else self._retry_at
        return min(self._give_up_at, self._ping_at)

    def tick(self, now: int) -> None:
        """Do what is due: a ping, giving up a silent server, the next attempt to connect."""
        if now < self.timer():
            return
        if self._state is SessionState.CONNECTING and not self._opening:
            self._connect(now)
        elif now >= self._give_up_at:
            self.outbox.append(Drop())
            self.lost(now)
        else:
            self._write(now, jute.ping())

    def opened(self, now: int) -> None:
        """The connection is open: introduce the session."""
        self.outbox.append(jute.connect_request(self._last_zxid, self._timeout_asked, self._id, self._password))

    def received(self, now: int, frame: bytes | bytearray | memoryview) -> None:
        """Take a frame. Raises MalformedResponse, after which the host closes the connection and reports `lost`."""
        if self._state is SessionState.CONNECTED:
            self._give_up_at = now + int(self._timeout * SILENCE)
            self._take(now, frame)
        elif self._opening:
            self._introduced(now, jute.connected(frame))

    def lost(self, now: int) -> None:
        """The connection is closed, or could not be opened."""
        if self._state is SessionState.CONNECTED:
            self._state = SessionState.CONNECTING
            sent = self._sent_requests()
            self._unsent.extendleft(one for one in reversed(sent) if isinstance(one, _Root))
            self._fail([one for one in sent if not isinstance(one, _Root)], Code.CONNECTION_LOSS)
            self._news.append(StateChanged(SessionState.CONNECTING))
            self._connect(now)
        elif self._state is SessionState.CONNECTING:
            self._failed_servers += 1
            self._opening = False
            self._retry_at = now
            if self._failed_servers % len(self._servers) == 0:
                self._retry_at += RETRY_US
            else:
                self._connect(now)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _connect(self, now: int) -> None:
        self._server = (self._server + 1) % len(self._servers)
        self._opening = True
        self._give_up_at = now + max(self._timeout // len(self._servers), RETRY_US)
        self.outbox.append(Open(*self._servers[self._server]))

    def _introduced(self, now: int, answer: jute.Connected) -> None:
        self._opening = False
        if answer.timeout_ms <= 0:
            self.outbox.append(Drop())
            self._end(SessionState.EXPIRED)
            self._begin()
            return
        self._id, self._password, self._timeout = answer.session, answer.password, answer.timeout_ms * 1000
        self._failed_servers = 0
        self._state = SessionState.CONNECTED
        self._give_up_at = now + int(self._timeout * SILENCE)
        self._ping_at = now + self._timeout // PINGS
        for watches in self._watches.parts():
            below = [[paths.below(self._chroot, one) for one in kind] for kind in watches]
            self._write(now, jute.set_watches(self._last_zxid, *below))
        self._news.append(StateChanged(SessionState.CONNECTED))
        while self._unsent:
            self._send(now, self._unsent.popleft())

    def _send(self, now: int, request: SessionRequest) -> None:
        operation = request.operation
        if self._chroot and not isinstance(request, _Root):
            operation = paths.operation_below(self._chroot, operation)
        frame = jute.request(self._xid + 1, operation)
        if len(frame) > self._max_request:
            self._refused(request)
            return
        self._xid += 1
        self._sent.append((self._xid, request))
        self._write(now, frame)

    def _refused(self, request: SessionRequest) -> None:
        """Complete a request that is too large, after those that were submitted before it."""
        if self._sent:
            self._sent.append((0, request))
        else:
            self._news.append((request, SessionResponse(Code.MARSHALLING_ERROR)))

    def _write(self, now: int, frame: bytes) -> None:
        self._ping_at = now + self._timeout // PINGS
        self.outbox.append(frame)

    def _take(self, now: int, frame: bytes | bytearray | memoryview) -> None:
        reader = jute.Reader(frame)
        xid, zxid, error = jute.response_header(reader)
        if xid == jute.EVENT_XID:
            event = jute.watch_event(reader)
            if event is not None and self._chroot:
                event = WatchFired(event.type, paths.above(self._chroot, event.path))
            if event is not None and self._watches.fired(event):
                self._news.append(event)
            return
        self._last_zxid = max(self._last_zxid, zxid)
        if xid in (jute.PING_XID, jute.SET_WATCHES_XID):
            return
        if not self._sent or self._sent[0][0] != xid:
            raise jute.MalformedResponse(f"a response to request {xid}, which is not the oldest")
        response = jute.response(self._sent[0][1].operation, reader, zxid, error)
        _, request = self._sent.popleft()
        if self._chroot:
            response = paths.response_above(self._chroot, response)
        self._watches.add(request, response.code)
        self._news.append((request, response))
        while self._sent and self._sent[0][0] == 0:
            self._news.append((self._sent.popleft()[1], SessionResponse(Code.MARSHALLING_ERROR)))

    def _sent_requests(self) -> list[SessionRequest]:
        requests = [request for _, request in self._sent]
        self._sent.clear()
        return requests

    def _fail(self, requests: Sequence[SessionRequest], code: Code) -> None:
        self._news.extend((one, SessionResponse(code)) for one in requests)

    def _end(self, state: SessionState) -> None:
        self._state = state
        self._fail([*self._sent_requests(), *self._unsent], Code.SESSION_EXPIRED)
        self._unsent.clear()
        if state is SessionState.EXPIRED:
            self._news.append(StateChanged(state))
