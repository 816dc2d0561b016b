"""A simulated ZooKeeper ensemble: servers that apply one history, sessions that expire, watches in order.

It shows what a real ensemble can show (ZooKeeper Programmer's Guide, "Consistency Guarantees") and no more:

* All writes are one linear history. Each server applies it in order, some time after it was decided, and answers reads
  from what it has applied: a client may read what is no longer true, but never goes back, also not on another server.
* A client's operations are carried out in its order; a read sees the client's own writes.
* A server tells a client of a change by its watch before it answers a read that shows the change.
* A session whose client was not heard for its timeout is ended by the ensemble: a write of the history, which deletes
  its ephemeral nodes. The client learns it when it is back.
* A connection that breaks leaves the outcome of what was under way unknown: a write that a server has received happens,
  whether or not its answer arrives.

Servers have addresses in the simulated network and share its partitions and losses. An ensemble that has lost its
quorum (`lose_quorum`) refuses connections; afterwards all sessions have their whole timeout again, as after the
election of a leader.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from squall.harness.simulation.world.kernel import Kernel, Scheduled
from squall.harness.simulation.world.network import ConnectionEnd, SimNetwork
from squall.harness.simulation.world.znodes import ZnodeTree, is_write
from squall.nodes.zookeeper.session import (
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Operation,
    SessionResponse,
    WatchFired,
    WatchType,
)

PORT = 2181
MILLISECOND = 1_000
DECIDED_WITHIN = (500, 4 * MILLISECOND)
"""How long a write takes to be decided, once a server has it."""
APPLIED_WITHIN = (200, 10 * MILLISECOND)
"""How long a server takes to apply what is decided."""
EXPIRY_TICK = 200 * MILLISECOND
OPERATOR = -1
"""The session of a program that is no node."""


# -- messages between a client and a server, as pickled objects ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """A client's first message: the session to go on with, 0 for a new one; and the newest transaction it has seen."""

    session: int
    timeout: int
    zxid: int
    data_watches: tuple[str, ...] = ()
    existence_watches: tuple[str, ...] = ()
    child_watches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer: the session's id, 0 if the session has expired."""

    session: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Both ways: the sender lives."""


@dataclass(frozen=True, slots=True)
class Bye:
    """The client ends its session."""


@dataclass(frozen=True, slots=True)
class Ask:
    """An operation."""

    number: int
    operation: Operation


@dataclass(frozen=True, slots=True)
class Tell:
    """The response to an operation."""

    number: int
    response: SessionResponse


ToServer = Hello | Ping | Bye | Ask
ToClient = Welcome | Ping | Tell | WatchFired
_NO_API = b"\xff\xff"
"""What frames begin with, so that rules on Kafka's messages do not concern them."""


def frame_of(message: ToServer | ToClient) -> bytes:
    return _NO_API + pickle.dumps(message)


def message_of(frame: bytes) -> ToServer | ToClient:
    message: ToServer | ToClient = pickle.loads(frame[len(_NO_API) :])
    return message


# -- the ensemble ----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Session:
    id: int
    timeout: int
    heard: int
    ended: bool = False
    connection: _Connection | None = None
    asked: int = 0
    """Operations, of whatever outcome."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One entry of the history. `operation` is None for the end of a session."""

    zxid: int
    session: int
    operation: Operation | None
    now_ms: int
    asker: _Connection | None = None
    number: int = 0


@dataclass(slots=True, eq=False)
class _Pending:
    """An operation of a connection that is not answered yet."""

    number: int
    operation: Operation
    response: SessionResponse | None = None


@dataclass(slots=True, eq=False)
class _Connection:
    """One client at one server, with its watches; also the endpoint of the network."""

    server: _Server
    end: ConnectionEnd
    session: _Session | None = None
    pending: deque[_Pending] = field(default_factory=deque)
    data_watches: dict[str, None] = field(default_factory=dict)
    child_watches: dict[str, None] = field(default_factory=dict)
    decided_at: int = 0
    waits_for: int = 0
    """The transaction that this server must have applied before it welcomes the client."""
    hello: Hello | None = None

    def connected(self, end: ConnectionEnd) -> None:
        return None

    def delivered(self, end: ConnectionEnd, frame: bytes) -> None:
        self.server.received(self, message_of(frame))

    def disconnected(self, end: ConnectionEnd) -> None:
        self.server.lost(self)


class SimEnsemble:
    """All servers of one ensemble; see the module.

    `tree` is what is decided. `on_decided` is called with every entry of the history and the tree after it.
    """

    def __init__(
        self, addresses: tuple[str, ...], kernel: Kernel, network: SimNetwork, rng: Random, port: int = PORT
    ) -> None:
        self.addresses = addresses
        self.port = port
        self.tree = ZnodeTree()
        self.history: list[Decided] = []
        self.on_decided: Callable[[Decided, ZnodeTree], None] = lambda decided, tree: None
        self.expired = 0
        """How many sessions the ensemble has ended."""
        self.kernel = kernel
        self.network = network
        self.rng = rng
        self.sessions: dict[int, _Session] = {}
        self._has_quorum = True
        self._servers = [_Server(self, address) for address in addresses]
        self._tick: Scheduled = kernel.after(EXPIRY_TICK, self._expire)

    def now_ms(self) -> int:
        return self.kernel.now // 1000

    # -- sessions -------------------------------------------------------------------------------------------------

    def begin_session(self, timeout: int) -> _Session:
        session = _Session(len(self.sessions) + 1, timeout, self.kernel.now)
        self.sessions[session.id] = session
        return session

    def _expire(self) -> None:
        self._tick = self.kernel.after(EXPIRY_TICK, self._expire)
        if not self._has_quorum:
            return
        for session in list(self.sessions.values()):
            if not session.ended and self.kernel.now - session.heard > session.timeout:
                self.expired += 1
                self.end_session(session)

    def expire_session_at(self, address: str) -> int:
        """End the session of the client with this address at once, as if it had not been heard. Return how many."""
        before = self.expired
        for session in list(self.sessions.values()):
            connection = session.connection
            if not session.ended and connection is not None and connection.end.peer_address == address:
                self.expired += 1
                self.end_session(session)
        return self.expired - before

    def delete(self, path: str) -> int:
        """Delete a node as an operator would, by a session of another program. Return 1 if it was there."""
        found = path in self.tree.nodes
        if found:
            self.decide(OPERATOR, Delete(path))
        return int(found)

    def create(self, path: str, data: bytes) -> None:
        """Create a node as an operator's tool would, by a session of another program."""
        self.decide(OPERATOR, Create(path, data))

    def end_session(self, session: _Session) -> None:
        if not session.ended:
            session.ended = True
            self.decide(session.id, None)

    # -- the history ----------------------------------------------------------------------------------------------

    def decide(
        self, session: int, operation: Operation | None, asker: _Connection | None = None, number: int = 0
    ) -> None:
        """Append to the history; every server applies it later."""
        decided = Decided(len(self.history) + 1, session, operation, self.now_ms(), asker, number)
        self.history.append(decided)
        apply(self.tree, decided)
        self.on_decided(decided, self.tree)
        for server in self._servers:
            server.will_apply()

    def stop(self) -> None:
        """End everything, at the end of a run."""
        self._tick.cancel()

    # -- faults ---------------------------------------------------------------------------------------------------

    def lose_quorum(self, duration: int) -> int:
        """Stop serving for so long. Return 1, 0 if the quorum is lost already."""
        if not self._has_quorum:
            return 0
        self._has_quorum = False
        for server in self._servers:
            server.stop()
        self.kernel.after(duration, self._regain_quorum)
        return 1

    def _regain_quorum(self) -> None:
        self._has_quorum = True
        for session in self.sessions.values():
            session.heard = self.kernel.now
        for server in self._servers:
            server.start()


def apply(tree: ZnodeTree, decided: Decided) -> tuple[SessionResponse, list[WatchFired]]:
    """Apply one entry of the history to a tree."""
    if decided.operation is None:
        return SessionResponse(Code.OK), tree.end_session(decided.session, decided.zxid)
    return tree.write(decided.operation, decided.session, decided.zxid, decided.now_ms)


class _Server:
    """One server: a tree that follows the history, and connections of clients."""

    def __init__(self, ensemble: SimEnsemble, address: str) -> None:
        self._ensemble = ensemble
        self._address = address
        self._tree = ZnodeTree()
        self._due: deque[int] = deque()
        self._applied = 0
        self._connections: dict[int, _Connection] = {}
        self.start()

    def start(self) -> None:
        self._ensemble.network.listen(self._address, self._ensemble.port, self._accept)

    def stop(self) -> None:
        """Refuse new connections, and close all others."""
        self._ensemble.network.stop_listening(self._address)
        for connection in list(self._connections.values()):
            self._drop(connection)

    def _accept(self, end: ConnectionEnd) -> _Connection:
        connection = self._connections[end.identity] = _Connection(self, end)
        return connection

    def _send(self, connection: _Connection, message: ToClient) -> None:
        self._ensemble.network.send(connection.end, frame_of(message))

    def lost(self, connection: _Connection) -> None:
        self._connections.pop(connection.end.identity, None)
        if connection.session is not None and connection.session.connection is connection:
            connection.session.connection = None

    def _drop(self, connection: _Connection) -> None:
        self.lost(connection)
        self._ensemble.network.close(connection.end)

    # -- clients --------------------------------------------------------------------------------------------------

    def received(self, connection: _Connection, message: ToServer | ToClient) -> None:
        if connection.session is not None:
            connection.session.heard = self._ensemble.kernel.now
        match message:
            case Hello():
                connection.hello = message
                connection.waits_for = message.zxid
                self._welcome(connection)
            case Ping():
                self._send(connection, message)
            case Bye():
                if connection.session is not None:
                    self._ensemble.end_session(connection.session)
                self._drop(connection)
            case Ask():
                self._ask(connection, message)

    def _welcome(self, connection: _Connection) -> None:
        """Go on with the client's session, or begin one, once this server has seen what the client has seen."""
        hello = connection.hello
        if hello is None or self._applied < connection.waits_for:
            return
        connection.hello = None
        ensemble = self._ensemble
        session = ensemble.sessions.get(hello.session) if hello.session else ensemble.begin_session(hello.timeout)
        if session is None or session.ended:
            self._send(connection, Welcome(0))
            self._drop(connection)
            return
        if session.connection is not None:
            former, session.connection = session.connection, None
            former.server._drop(former)
        session.connection, session.heard = connection, ensemble.kernel.now
        connection.session = session
        self._send(connection, Welcome(session.id))
        self._set_watches(connection, hello)

    def _set_watches(self, connection: _Connection, hello: Hello) -> None:
        """Set the watches of a client that was connected elsewhere; tell it of those that have fired meanwhile."""
        nodes = self._tree.nodes
        for path in hello.existence_watches:
            if path in nodes:
                self._send(connection, WatchFired(WatchType.NODE_CREATED, path))
            else:
                connection.data_watches[path] = None
        for path in hello.data_watches:
            if path not in nodes:
                self._send(connection, WatchFired(WatchType.NODE_DELETED, path))
            elif nodes[path].mzxid > hello.zxid:
                self._send(connection, WatchFired(WatchType.NODE_DATA_CHANGED, path))
            else:
                connection.data_watches[path] = None
        for path in hello.child_watches:
            if path not in nodes:
                self._send(connection, WatchFired(WatchType.NODE_DELETED, path))
            elif nodes[path].pzxid > hello.zxid:
                self._send(connection, WatchFired(WatchType.NODE_CHILDREN_CHANGED, path))
            else:
                connection.child_watches[path] = None

    def _ask(self, connection: _Connection, message: Ask) -> None:
        session = connection.session
        if session is None or session.ended:
            self._drop(connection)
            return
        session.asked += 1
        connection.pending.append(_Pending(message.number, message.operation))
        if is_write(message.operation):
            ensemble = self._ensemble
            at = max(connection.decided_at + 1, ensemble.kernel.now + ensemble.rng.randint(*DECIDED_WITHIN))
            connection.decided_at = at
            ensemble.kernel.at(at, self._decide, connection, session, message)
        self._answer(connection)

    def _decide(self, connection: _Connection, session: _Session, message: Ask) -> None:
        """The ensemble decides a write, unless the session has ended; the connection may be gone."""
        if not session.ended and self._ensemble._has_quorum:
            self._ensemble.decide(session.id, message.operation, connection, message.number)

    def _answer(self, connection: _Connection) -> None:
        """Answer the oldest operations, up to a write that is not applied here yet."""
        while connection.pending:
            head = connection.pending[0]
            if is_write(head.operation):
                if head.response is None:
                    return
                response = head.response
            else:
                response = self._tree.read(head.operation)
                self._watch(connection, head.operation, response)
            connection.pending.popleft()
            self._send(connection, Tell(head.number, response))

    @staticmethod
    def _watch(connection: _Connection, operation: Operation, response: SessionResponse) -> None:
        assert isinstance(operation, Exists | GetData | GetChildren)
        if not operation.watch:
            return
        if isinstance(operation, Exists) or (isinstance(operation, GetData) and response.ok):
            connection.data_watches[operation.path] = None
        elif isinstance(operation, GetChildren) and response.ok:
            connection.child_watches[operation.path] = None

    # -- the history ----------------------------------------------------------------------------------------------

    def will_apply(self) -> None:
        """Something was decided; this server applies it some time later, in order."""
        ensemble = self._ensemble
        now = ensemble.kernel.now
        at = now + ensemble.rng.randint(*APPLIED_WITHIN)
        if self._due:
            at = max(at, self._due[-1])
        self._due.append(at)
        ensemble.kernel.at(at, self._apply_next)

    def _apply_next(self) -> None:
        self._due.popleft()
        decided = self._ensemble.history[self._applied]
        self._applied += 1
        response, changes = apply(self._tree, decided)
        for change in changes:
            self._fire(change)
        asker = decided.asker
        if asker is not None and asker.server is self:
            for one in asker.pending:
                if one.number == decided.number:
                    one.response = response
            self._answer(asker)
        for connection in list(self._connections.values()):
            if connection.hello is not None:
                self._welcome(connection)
            elif decided.operation is None and connection.session is not None and connection.session.ended:
                self._drop(connection)

    def _fire(self, change: WatchFired) -> None:
        for connection in list(self._connections.values()):
            data, child = connection.data_watches, connection.child_watches
            fired = False
            if change.type is not WatchType.NODE_CHILDREN_CHANGED:
                fired = change.path in data
                data.pop(change.path, None)
            if change.type in (WatchType.NODE_CHILDREN_CHANGED, WatchType.NODE_DELETED):
                fired = fired or change.path in child
                child.pop(change.path, None)
            if fired:
                self._send(connection, change)
