"""Keep few of many files open: a broker has a file per segment of a topic-partition, and few descriptors.

A file is opened when it is used. Beyond `most` open files, one is closed that has not been used since it was last
examined (second chance: a use costs one assignment). Unsynced content of a file is synced before it is closed: an error
of writing it back must not be lost with its descriptor.
"""

from __future__ import annotations

from typing import Protocol


class Openable(Protocol):
    """A file that can be closed and opened again without its owner's knowledge."""

    used: bool
    """Set by the file on every use."""

    def rest(self) -> None:
        """Close the descriptor. Raises OSError if unsynced content cannot be synced."""
        ...


class OpenFiles:
    """Limits the number of open files. `rested` counts the files closed to make room."""

    def __init__(self, most: int) -> None:
        if most < 2:
            raise ValueError(f"at least two files must be allowed to be open, not {most}")
        self._most = most
        self._open: dict[Openable, None] = {}
        self.rested = 0

    def __len__(self) -> int:
        """The number of files that have a descriptor."""
        return len(self._open)

    def opened(self, file: Openable) -> None:
        """Register a file that has opened a descriptor; another file may have to close its own. Raises OSError."""
        while len(self._open) >= self._most:
            self._close_one()
        self._open[file] = None

    def closed(self, file: Openable) -> None:
        """Unregister a file that its owner has closed."""
        self._open.pop(file, None)

    def _close_one(self) -> None:
        while True:
            oldest = next(iter(self._open))
            del self._open[oldest]
            if not oldest.used:
                self.rested += 1
                oldest.rest()
                return
            oldest.used = False
            self._open[oldest] = None
