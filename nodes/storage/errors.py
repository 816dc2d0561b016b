"""Why a log refuses something, and what a disk did to it.

The kind of a refusal is the name of Kafka's error for it, so that a broker can answer with it. A disk that fails is
the end of the node: there is one log directory, and Kafka halts when its last one fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class LogError(Exception):
    """The log refused; nothing was changed. `kind` is the name of a Kafka error, e.g. `CORRUPT_MESSAGE`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class CorruptFile(Exception):
    """A file beside the log cannot be what it should be. Says file, problem and remedy."""


class DiskFailure(OSError):
    """The host refused to do something with a file: where (below the log directory), what, and why with its errno.

    The node must stop: what it holds in memory may no longer be what is on the disk.
    """

    def __init__(self, path: str, action: str, cause: OSError) -> None:
        super().__init__(cause.errno, cause.strerror or str(cause))
        self.path = path
        self.action = action

    def __str__(self) -> str:
        return f"{self.path}: cannot {self.action}: {self.strerror} (errno {self.errno})"


@contextmanager
def on_disk(path: str, action: str) -> Iterator[None]:
    """Name the file and the action of an OSError. Not for hot paths, which write out the `try` themselves."""
    try:
        yield
    except DiskFailure:
        raise
    except OSError as error:
        raise DiskFailure(path, action, error) from error
