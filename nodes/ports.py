"""What a node needs from its host: files, wall-clock time, randomness and a trace.

These protocols are complete. The real implementations are in `nodes.server`, the simulated ones in
`harness.simulation`; a node cannot distinguish them. Monotonic time is not a port: it is passed as the argument `now`,
an integer number of microseconds from an arbitrary origin.
"""

from __future__ import annotations

from typing import Protocol


class File(Protocol):
    """One open file of a `Disk`. Offsets and sizes are in bytes."""

    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only at the end of the file."""
        ...

    def append(self, *chunks: bytes | bytearray | memoryview) -> None:
        """Write the chunks at the end, in one vectored call where the host has one. Raises OSError."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return once the content is durable (fdatasync). Raises OSError."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree. Paths are relative, separated by `/`, without `..`. Errors are OSError."""

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; empty if the directory does not exist."""
        ...

    def exists(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending. Raises FileNotFoundError unless `create`."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename atomically; replaces an existing file, or moves a directory."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in this directory durable."""
        ...


class WallClock(Protocol):
    """The time of day. It may jump; nothing but record timestamps may depend on it."""

    def now_ms(self) -> int: ...


class Rng(Protocol):
    """The subset of `random.Random` that nodes use, seeded by the host."""

    def random(self) -> float: ...

    def randrange(self, start: int, stop: int) -> int: ...

    def getrandbits(self, k: int) -> int: ...


class Stopwatch(Protocol):
    """Microseconds on the scale of `now`, for metrics only: no action or response of a node may depend on it."""

    def __call__(self) -> int: ...


class Trace(Protocol):
    """A structured trace of protocol actions (append, fsync, high watermark, truncate, vote, epoch, isr)."""

    def event(self, name: str, **fields: object) -> None: ...


class NullTrace:
    """A trace that discards all events."""

    def event(self, name: str, **fields: object) -> None:
        return None
