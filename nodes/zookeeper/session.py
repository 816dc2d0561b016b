"""The port to a ZooKeeper ensemble: requests, responses, events, and the session that carries them.

A component submits a `SessionRequest`. Requests are pipelined: the ensemble carries them out in the order in which they
were submitted, and `complete(now, response)` is called exactly once for each, in the same order. The session delivers
completions and events as one sequence, from `deliver` only, so that a component is notified of a change by its watch
before it reads a value that includes the change or a later one.

What ends a connection or a session:

* **The connection is lost.** Requests that were sent end with CONNECTION_LOSS: the ensemble may or may not have carried
  them out. DISCONNECTED follows these completions. Requests that were not sent wait for the next connection, which the
  session looks for by itself; CONNECTED reports it. Watches stay: a change in between is reported after reconnecting.
* **The session expires.** The ensemble decides this and deletes the session's ephemeral nodes; a client learns it when
  it reconnects. All requests end with SESSION_EXPIRED, then EXPIRED is delivered. Watches are gone. Until `renew`
  begins a new session, with another id, every request ends with SESSION_EXPIRED.

A client without a connection does not know whether its session still exists. So a controller that is DISCONNECTED may
have a successor already; controller epochs fence it (`nodes.zookeeper`).

Semantics, names and numbers are those of ZooKeeper 3.8 (`zookeeper.jute`, `KeeperException`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Protocol

ANY_VERSION = -1
"""The expected version of a write or a deletion that is unconditional."""
MAX_REQUEST = (1 << 20) - 1
"""`jute.maxbuffer`: a server closes the connection that sends more bytes in one request."""


# -- requests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node. NODE_EXISTS if it exists, NO_NODE without its parent.

    An ephemeral node is deleted when the session ends. The name of a sequential node gets a number of ten digits that
    grows with each child of its parent; the response names the path.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node. NO_NODE, NOT_EMPTY if it has children, BAD_VERSION if its version is not the expected one."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace the data of a node. NO_NODE, BAD_VERSION."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Check the version of a node, within a `Multi`. NO_NODE, BAD_VERSION."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Exists:
    """Read the stat of a node; NO_NODE if there is none.

    A watch fires on the node's creation, deletion or change of data. It is set whether the node exists or not.
    """

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class GetData:
    """Read data and stat of a node. A watch fires on change of data or deletion; it is not set after NO_NODE."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class GetChildren:
    """Read the names of a node's children, sorted, and its stat.

    A watch fires when a child is created or deleted, or the node is deleted; it is not set after NO_NODE.
    """

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """Wait until the server to which the session is connected has everything that was committed before."""

    path: str = "/"


@dataclass(frozen=True, slots=True)
class Multi:
    """Carry out all operations or none, as one transaction."""

    operations: tuple[Create | Delete | SetData | Check, ...]


Operation = Create | Delete | SetData | Check | Exists | GetData | GetChildren | Sync | Multi


# -- responses -------------------------------------------------------------------------------------------------------


class Code(IntEnum):
    """The result of an operation, as numbered by ZooKeeper."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    """An operation of a failed `Multi` that was not the cause and came after it; those before it have OK."""
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    """The request has more than `MAX_REQUEST` bytes; the session did not send it."""
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118


@dataclass(frozen=True, slots=True)
class Stat:
    """A node's metadata. Times are in milliseconds of the ensemble's clock."""

    czxid: int = 0
    """The transaction that created the node."""
    mzxid: int = 0
    """The transaction that last changed its data."""
    ctime: int = 0
    mtime: int = 0
    version: int = 0
    """The number of changes of its data."""
    cversion: int = 0
    aversion: int = 0
    ephemeral_owner: int = 0
    """The id of the session that created an ephemeral node; else 0."""
    data_length: int = 0
    num_children: int = 0
    pzxid: int = 0


@dataclass(frozen=True, slots=True)
class SessionResponse:
    """The result of one operation. Fields that the operation does not have, or that failed with it, are empty."""

    code: Code
    path: str = ""
    """Of `Create`: the path of the created node."""
    data: bytes = b""
    """Of `GetData`."""
    children: tuple[str, ...] = ()
    """Of `GetChildren`."""
    stat: Stat | None = None
    """Of `Exists`, `GetData`, `GetChildren`, `SetData`."""
    results: tuple[SessionResponse, ...] = ()
    """Of `Multi`: one result per operation, also if it failed; `code` is then that of the first that failed."""
    zxid: int = 0
    """The last transaction that the server had carried out when it responded; a write's own."""

    @property
    def ok(self) -> bool:
        return self.code is Code.OK


CompleteSession = Callable[[int, SessionResponse], None]
"""Called once with (now, response)."""


@dataclass(slots=True, eq=False)
class SessionRequest:
    """An operation of a component; `complete(now, response)` is called exactly once."""

    operation: Operation
    complete: CompleteSession


# -- events ----------------------------------------------------------------------------------------------------------


class WatchType(Enum):
    """What happened at a watched node; the values are ZooKeeper's numbers."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


@dataclass(frozen=True, slots=True)
class WatchFired:
    """A watch has fired and is gone; a component that wants to learn of later changes sets it again.

    Watches of one kind (data, children) at one path are one watch, however often they were set.
    """

    type: WatchType
    path: str


class SessionState(Enum):
    """CONNECTING also stands for DISCONNECTED: the session looks for a server."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    EXPIRED = "expired"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The session has become CONNECTED, has lost its connection (CONNECTING), or has EXPIRED."""

    state: SessionState


SessionEvent = WatchFired | StateChanged


# -- the session -----------------------------------------------------------------------------------------------------


class Session(Protocol):
    """A client's session with an ensemble; see the module.

    The host of the node begins it and runs a turn of the node whenever there is something to deliver. No method but
    `deliver` calls back.
    """

    @property
    def id(self) -> int:
        """The id that the ensemble gave to this session, as in `Stat.ephemeral_owner`; 0 before the first connection
        and after expiry.
        """
        ...

    @property
    def state(self) -> SessionState: ...

    def submit(self, now: int, request: SessionRequest) -> None:
        """Send an operation, or keep it until there is a connection."""
        ...

    def deliver(self, now: int, on_event: Callable[[int, SessionEvent], None]) -> None:
        """Deliver what has arrived, in order: call `complete` for responses and `on_event(now, event)` for events.

        A callback may call `submit` and `renew`; what these cause is delivered later, in the same call or in the next.
        """
        ...

    def deadline(self) -> int:
        """When `deliver` must be called next; in the past if something waits, 2**63-1 if nothing is due."""
        ...

    def renew(self, now: int) -> None:
        """Begin a new session after EXPIRED; ignored in any other state."""
        ...

    def close(self, now: int) -> None:
        """End the session: the ensemble deletes its ephemeral nodes at once. Outstanding requests end."""
        ...
