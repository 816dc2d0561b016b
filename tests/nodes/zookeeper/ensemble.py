"""An ensemble of one server for tests of components: it carries out everything at once; sessions deliver on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from squall.harness.simulation.world.znodes import ZnodeTree, is_write
from squall.nodes.zookeeper.session import (
    Code,
    Exists,
    GetChildren,
    GetData,
    Operation,
    SessionEvent,
    SessionRequest,
    SessionResponse,
    SessionState,
    StateChanged,
    WatchFired,
    WatchType,
)

NEVER = 2**63 - 1
Deliver = Callable[[int, Callable[[int, SessionEvent], None]], None]


class Ensemble:
    """The tree, the sessions, and every operation in the order in which it was carried out."""

    def __init__(self) -> None:
        self.tree = ZnodeTree()
        self.sessions: list[FakeSession] = []
        self.carried_out: list[tuple[int, Operation]] = []

    def session(self) -> FakeSession:
        session = FakeSession(self, len(self.sessions) + 1)
        self.sessions.append(session)
        return session

    def write(self, operation: Operation, session: int = 0) -> SessionResponse:
        """Carry out a write as another program would, or for a session."""
        response, changes = self.tree.write(operation, session, self.tree.zxid + 1, 0)
        self._tell(changes)
        return response

    def expire(self, session: FakeSession) -> None:
        """End a session; its client learns it with its next delivery."""
        self._tell(self.tree.end_session(session.id, self.tree.zxid + 1))
        session.end()

    def _tell(self, changes: list[WatchFired]) -> None:
        for change in changes:
            for session in self.sessions:
                session.changed(change)

    def children(self, path: str) -> list[str]:
        return sorted(self.tree.nodes[path].children)

    def data(self, path: str) -> bytes:
        return self.tree.nodes[path].data


@dataclass(eq=False)
class FakeSession:
    """Implements `Session`. `loses` is how many of the next answers are lost with their connection."""

    ensemble: Ensemble
    id: int
    state: SessionState = SessionState.CONNECTED
    loses: int = 0
    _due: deque[Deliver] = field(default_factory=deque)
    _data: dict[str, None] = field(default_factory=dict)
    _children: dict[str, None] = field(default_factory=dict)

    def submit(self, now: int, request: SessionRequest) -> None:
        if self.state is SessionState.EXPIRED:
            self._answer(request, SessionResponse(Code.SESSION_EXPIRED))
            return
        operation = request.operation
        self.ensemble.carried_out.append((self.id, operation))
        if is_write(operation):
            response = self.ensemble.write(operation, self.id)
        else:
            response = self.ensemble.tree.read(operation)
            self._watch(operation, response)
        if self.loses:
            self.loses -= 1
            response = SessionResponse(Code.CONNECTION_LOSS)
        self._answer(request, response)

    def _answer(self, request: SessionRequest, response: SessionResponse) -> None:
        self._due.append(lambda now, on_event: request.complete(now, response))

    def _watch(self, operation: Operation, response: SessionResponse) -> None:
        if isinstance(operation, GetChildren) and operation.watch and response.ok:
            self._children[operation.path] = None
        elif isinstance(operation, Exists | GetData) and operation.watch and (response.ok or _sets_always(operation)):
            self._data[operation.path] = None

    def changed(self, change: WatchFired) -> None:
        watches = self._children if change.type is WatchType.NODE_CHILDREN_CHANGED else self._data
        if change.path in watches:
            del watches[change.path]
            self._due.append(lambda now, on_event: on_event(now, change))

    def end(self) -> None:
        self.state = SessionState.EXPIRED
        self._data.clear()
        self._children.clear()
        self._due.append(lambda now, on_event: on_event(now, StateChanged(SessionState.EXPIRED)))

    def deliver(self, now: int, on_event: Callable[[int, SessionEvent], None]) -> None:
        while self._due:
            self._due.popleft()(now, on_event)

    def deliver_one(self, now: int, on_event: Callable[[int, SessionEvent], None]) -> None:
        if self._due:
            self._due.popleft()(now, on_event)

    def deadline(self) -> int:
        return 0 if self._due else NEVER

    def renew(self, now: int) -> None:
        if self.state is SessionState.EXPIRED:
            self.id = len(self.ensemble.sessions) + 1
            self.ensemble.sessions.append(self)
            self.state = SessionState.CONNECTED

    def close(self, now: int) -> None:
        self.ensemble.expire(self)


def _sets_always(operation: Operation) -> bool:
    """Whether a watch is set on a node that does not exist, too."""
    return isinstance(operation, Exists)
