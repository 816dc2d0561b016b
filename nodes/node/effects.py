"""What a node asks of its host: the entries of `Node.outbox`, in the order in which they must be carried out.

Connection ids are never reused; positive ones were given by the host, negative ones by the node. A frame, and so the
content of a `Send`, is one Kafka message without its four-byte length. The host releases an outbox only after the
`flush` that follows the turn it was filled in, so that nothing is said before it is durable. What says nothing of that
kind may leave before, by `Node.release_early`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Send:
    """Send one frame, given as a sequence of buffers; dropped if the connection is gone."""

    connection: int
    chunks: Sequence[Buffer]
    early: bool = False
    """Whether it may leave before the flush."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection; the host answers `opened(now, connection, None)` or `closed(now, connection)`."""

    connection: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection once what was sent on it has left; the host does not answer `closed`."""

    connection: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop reading from a connection. Frames read already may still be delivered."""

    connection: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Read from a paused connection again."""

    connection: int


Effect = Send | Connect | Close | Pause | Resume
