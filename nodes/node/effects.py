"""Effects that a node requests of its host: the entries of `Node.outbox`, to be carried out in order.

Connection ids are never reused; the host gives positive ones, the node negative ones. A frame, and so the content of a
`Send`, is one Kafka message without its four-byte length. The host releases an outbox only after the `flush` that
follows its turn, so that nothing is sent before it is durable. What needs no durability may leave before, by
`Node.release_early`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview


class Send(NamedTuple):
    """Send one frame, given as a sequence of buffers; dropped if the connection is closed."""

    connection: int
    chunks: Sequence[Buffer]
    early: bool = False
    """Whether it may leave before the flush."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection; the host then calls `opened(now, connection, None)` or `closed(now, connection)`."""

    connection: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection once its sent frames have left; the host does not call `closed`."""

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
