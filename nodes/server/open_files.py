"""Keeps few files open out of many: a broker has a file for each segment of a topic-partition, and few descriptors.

A file that is asked for something is opened if it is not. Beyond `most` open ones, one is closed that has not been
asked for anything since it was last looked at (second chance: being asked costs one assignment). What was written to a
file and not synced is synced before it is closed: an error of writing it back must not be lost with its descriptor.
"""

from __future__ import annotations

from typing import Protocol


class Openable(Protocol):
    """A file that can be closed and opened again behind its owner's back."""

    used: bool
    """Set by the file whenever it is asked for something."""

    def rest(self) -> None:
        """Give up the descriptor. Raises OSError if what was written cannot be synced."""
        ...


class OpenFiles:
    """See the module. `rested` counts the files closed to make room."""

    def __init__(self, most: int) -> None:
        if most < 2:
            raise ValueError(f"at least two files must be allowed to be open, not {most}")
        self._most = most
        self._open: dict[Openable, None] = {}
        self.rested = 0

    def __len__(self) -> int:
        """Files that have a descriptor."""
        return len(self._open)

    def opened(self, file: Openable) -> None:
        """A file has a descriptor now; another may have to give up its own. Raises OSError."""
        while len(self._open) >= self._most:
            self._close_one()
        self._open[file] = None

    def closed(self, file: Openable) -> None:
        """A file was closed by its owner."""
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
