"""ZooKeeper's records on the wire: requests to bytes, responses from bytes.

Numbers are big-endian; a buffer, a string or a list has a length of four bytes before it, -1 for none. A frame has four
more bytes with its length before it, which this module neither writes nor reads. Layouts and numbers are those of
`zookeeper.jute` and `ZooDefs.OpCode` of ZooKeeper 3.8.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from squall.nodes.zookeeper.session import (
    Check,
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Operation,
    SessionResponse,
    SetData,
    Stat,
    Sync,
    WatchFired,
    WatchType,
)

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, SYNC, PING = 1, 2, 3, 4, 5, 9, 11
GET_CHILDREN_AND_STAT, CHECK, MULTI, SET_WATCHES, CLOSE = 12, 13, 14, 101, -11
ERROR_RESULT = -1
EVENT_XID, PING_XID, SET_WATCHES_XID = -1, -2, -8
"""The numbers of responses that belong to no operation; those of operations count from 1."""
EPHEMERAL, SEQUENTIAL = 1, 2
NO_PASSWORD = bytes(16)

_INT = struct.Struct(">i")
_REQUEST = struct.Struct(">ii")
_RESPONSE = struct.Struct(">iqi")
_STAT = struct.Struct(">qqqqiiiqiiq")
_MULTI_HEADER = struct.Struct(">i?i")
_CONNECT = struct.Struct(">iqiq")
_CONNECTED = struct.Struct(">iiq")
_LAST_MULTI_HEADER = _MULTI_HEADER.pack(ERROR_RESULT, True, -1)
_CODES = {int(one): one for one in Code}


class MalformedResponse(ValueError):
    """A server sent something that is not ZooKeeper's protocol; the connection is of no use any more."""


# -- requests ----------------------------------------------------------------------------------------------------------


def _buffer(content: bytes) -> bytes:
    return _INT.pack(len(content)) + content


def _string(text: str) -> bytes:
    return _buffer(text.encode())


_OPEN_TO_ALL = _INT.pack(1) + _INT.pack(31) + _string("world") + _string("anyone")
"""A list of one access rule: everybody may do everything."""


def connect_request(last_zxid: int, timeout_ms: int, session: int, password: bytes) -> bytes:
    """Return the first frame of a connection; `session` is 0 to begin a new one."""
    return _CONNECT.pack(0, last_zxid, timeout_ms, session) + _buffer(password) + b"\0"


def request(xid: int, operation: Operation) -> bytes:
    """Return the frame of an operation."""
    kind, body = _encoded(operation)
    return _REQUEST.pack(xid, kind) + body


def ping() -> bytes:
    return _REQUEST.pack(PING_XID, PING)


def close_session(xid: int) -> bytes:
    return _REQUEST.pack(xid, CLOSE)


def set_watches(last_zxid: int, data: Iterable[str], exist: Iterable[str], children: Iterable[str]) -> bytes:
    """Return the frame that sets watches again on a new connection; those fire at once whose node changed meanwhile."""
    lists = (b"".join(_strings(paths)) for paths in (data, exist, children))
    return _REQUEST.pack(SET_WATCHES_XID, SET_WATCHES) + struct.pack(">q", last_zxid) + b"".join(lists)


def _strings(paths: Iterable[str]) -> Sequence[bytes]:
    written = [_string(path) for path in paths]
    return [_INT.pack(len(written)), *written]


def _encoded(operation: Operation) -> tuple[int, bytes]:
    return _ENCODERS[type(operation)](operation)


def _create(one: Create) -> tuple[int, bytes]:
    flags = EPHEMERAL * one.ephemeral + SEQUENTIAL * one.sequential
    return CREATE, _string(one.path) + _buffer(one.data) + _OPEN_TO_ALL + _INT.pack(flags)


def _multi(one: Multi) -> tuple[int, bytes]:
    parts = []
    for operation in one.operations:
        kind, body = _encoded(operation)
        parts += [_MULTI_HEADER.pack(kind, False, -1), body]
    return MULTI, b"".join([*parts, _LAST_MULTI_HEADER])


def _reading(kind: int) -> Callable[..., tuple[int, bytes]]:
    return lambda one: (kind, _string(one.path) + (b"\1" if one.watch else b"\0"))


_ENCODERS: dict[type, Callable[..., tuple[int, bytes]]] = {
    Create: _create,
    Delete: lambda one: (DELETE, _string(one.path) + _INT.pack(one.version)),
    SetData: lambda one: (SET_DATA, _string(one.path) + _buffer(one.data) + _INT.pack(one.version)),
    Check: lambda one: (CHECK, _string(one.path) + _INT.pack(one.version)),
    Exists: _reading(EXISTS),
    GetData: _reading(GET_DATA),
    GetChildren: _reading(GET_CHILDREN_AND_STAT),
    Sync: lambda one: (SYNC, _string(one.path)),
    Multi: _multi,
}


# -- responses ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """The response to `connect_request`. A time-out of 0 or less says that the session has expired."""

    timeout_ms: int
    session: int
    password: bytes


class Reader:
    """Reads the fields of one frame in order. Raises MalformedResponse where the frame ends before."""

    def __init__(self, frame: bytes | bytearray | memoryview) -> None:
        self._frame = bytes(frame)
        self._at = 0

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        try:
            found = layout.unpack_from(self._frame, self._at)
        except struct.error:
            raise MalformedResponse(f"a frame of {len(self._frame)} bytes ends too early") from None
        self._at += layout.size
        return found

    def int(self) -> int:
        return self.fields(_INT)[0]

    def buffer(self) -> bytes:
        size = self.int()
        begin, self._at = self._at, self._at + max(size, 0)
        if self._at > len(self._frame):
            raise MalformedResponse(f"a field of {size} bytes in a frame of {len(self._frame)}")
        return self._frame[begin : self._at]

    def string(self) -> str:
        try:
            return self.buffer().decode()
        except UnicodeDecodeError:
            raise MalformedResponse("a string is not UTF-8") from None

    def stat(self) -> Stat:
        return Stat(*self.fields(_STAT))


def connected(frame: bytes | bytearray | memoryview) -> Connected:
    reader = Reader(frame)
    _, timeout_ms, session = reader.fields(_CONNECTED)
    return Connected(timeout_ms, session, reader.buffer())


def response_header(reader: Reader) -> tuple[int, int, int]:
    """Return the number of the request, the last transaction that the server carried out, and the error."""
    xid, zxid, error = reader.fields(_RESPONSE)
    return xid, zxid, error


def watch_event(reader: Reader) -> WatchFired | None:
    """Return the event of a watch; None for one of the session, which clients know otherwise."""
    kind, _ = reader.int(), reader.int()
    path = reader.string()
    return WatchFired(WatchType(kind), path) if kind in _WATCH_TYPES else None


_WATCH_TYPES = frozenset(one.value for one in WatchType)


def response(operation: Operation, reader: Reader, zxid: int, error: int) -> SessionResponse:
    """Return the response to an operation; the reader is behind the header."""
    if error != 0:
        return SessionResponse(_code(error), zxid=zxid)
    return _DECODERS[type(operation)](reader, zxid)


def _code(error: int) -> Code:
    return _CODES.get(error, Code.SYSTEM_ERROR)


def _children(reader: Reader, zxid: int) -> SessionResponse:
    names = sorted(reader.string() for _ in range(reader.int()))
    return SessionResponse(Code.OK, children=tuple(names), stat=reader.stat(), zxid=zxid)


def _results(reader: Reader, zxid: int) -> SessionResponse:
    results: list[SessionResponse] = []
    while True:
        kind, done, _ = reader.fields(_MULTI_HEADER)
        if done:
            break
        results.append(_result(kind, reader, zxid))
    failed = (one.code for one in results if one.code not in (Code.OK, Code.RUNTIME_INCONSISTENCY))
    return SessionResponse(next(failed, Code.OK), results=tuple(results), zxid=zxid)


def _result(kind: int, reader: Reader, zxid: int) -> SessionResponse:
    if kind == ERROR_RESULT:
        return SessionResponse(_code(reader.int()), zxid=zxid)
    if kind == CREATE:
        return SessionResponse(Code.OK, path=reader.string(), zxid=zxid)
    if kind == SET_DATA:
        return SessionResponse(Code.OK, stat=reader.stat(), zxid=zxid)
    if kind in (DELETE, CHECK):
        return SessionResponse(Code.OK, zxid=zxid)
    raise MalformedResponse(f"a result of unknown kind {kind} in a transaction")


def _stat(reader: Reader, zxid: int) -> SessionResponse:
    return SessionResponse(Code.OK, stat=reader.stat(), zxid=zxid)


def _data(reader: Reader, zxid: int) -> SessionResponse:
    data = reader.buffer()
    return SessionResponse(Code.OK, data=data, stat=reader.stat(), zxid=zxid)


def _empty(reader: Reader, zxid: int) -> SessionResponse:
    return SessionResponse(Code.OK, zxid=zxid)


_DECODERS: dict[type, Callable[[Reader, int], SessionResponse]] = {
    Create: lambda reader, zxid: SessionResponse(Code.OK, path=reader.string(), zxid=zxid),
    Delete: _empty,
    SetData: _stat,
    Exists: _stat,
    GetData: _data,
    GetChildren: _children,
    Sync: _empty,
    Multi: _results,
}
