"""What a node asks of its host: files, wall-clock time, randomness and a place for its trace.

These protocols are the whole of it. The real ones live in `nodes.server`, the simulated ones in
`harness.simulation`; a node cannot tell which it was given. Monotonic time is no port: it comes in as an
argument, `now`, an integer number of microseconds from an arbitrary origin.
"""

from __future__ import annotations

from typing import Protocol


class File(Protocol):
    """One open file of a `Disk`. Offsets and sizes are in bytes."""

    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file."""
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
        """Names in a directory, sorted; empty if the directory does not exist."""
        ...

    def exists(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it is there."""
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending. Raises FileNotFoundError unless `create`."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces an existing file, or moves a directory."""
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
    """Microseconds on the scale of `now`, for metrics alone: nothing that a node does or says may depend on it."""

    def __call__(self) -> int: ...


class Trace(Protocol):
    """A structured trace of protocol actions (append, fsync, high watermark, truncate, vote, epoch, isr)."""

    def event(self, name: str, **fields: object) -> None: ...


class NullTrace:
    """A trace that keeps nothing."""

    def event(self, name: str, **fields: object) -> None:
        return None
