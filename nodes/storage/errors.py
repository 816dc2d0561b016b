"""Errors of a log: refusals, damaged files and disk failures.

The kind of a refusal is the name of Kafka's error for it, so that a broker can respond with it. A disk failure ends the
node: there is one log directory, and Kafka halts when its last one fails.
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
    """A file beside the log has invalid content. The message names file, problem and remedy."""


class DiskFailure(OSError):
    """The host failed an operation on a file: path (under the log directory), action, and cause with its errno.

    The node must stop: its memory may no longer match the disk.
    """

    def __init__(self, path: str, action: str, cause: OSError) -> None:
        super().__init__(cause.errno, cause.strerror or str(cause))
        self.path = path
        self.action = action

    def __str__(self) -> str:
        return f"{self.path}: cannot {self.action}: {self.strerror} (errno {self.errno})"


@contextmanager
def on_disk(path: str, action: str) -> Iterator[None]:
    """Add file and action to an OSError. Hot paths do not use this; they spell out the `try`."""
    try:
        yield
    except DiskFailure:
        raise
    except OSError as error:
        raise DiskFailure(path, action, error) from error
