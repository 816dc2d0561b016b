"""Large files that were removed are let go beside the node's thread: for the kernel to free their pages takes long.

To remove the name of a file is quick. What takes some 20 ms for a segment of 256 MB, whose pages are in memory, is that
the last who holds it lets it go; retention removes several at once, and a topic hundreds. Meanwhile the node's thread
answers nobody, neither a produce request nor the controller. So a large file is opened once more before its name goes,
and a thread that does nothing else closes it. A process that ends lets go of everything: nothing has to be cleaned up.

Kafka removes files a minute later, in a thread, too (`file.delete.delay.ms`); here the name is gone at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

LARGE_BYTES = 1 << 20
MOST_HELD = 256
"""Descriptors that are held at the most; what is removed beyond is let go at once."""


class LettingGo:
    """Holds large files, and closes them in a thread of its own, which begins with the first of them."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._held: SimpleQueue[int] = SimpleQueue()
        self._thread: Thread | None = None

    def hold(self, place: Path) -> int | None:
        """A descriptor that keeps a large file's content for now; None if it is small, not there, or may not be
        opened.
        """
        try:
            if place.stat().st_size < LARGE_BYTES or self._held.qsize() >= self._most:
                return None
            return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None

    def let_go(self, descriptor: int | None) -> None:
        """Close it soon."""
        if descriptor is None:
            return
        if self._thread is None:
            self._thread = Thread(target=self._close, name="letting go of files", daemon=True)
            self._thread.start()
        self._held.put(descriptor)

    def _close(self) -> None:
        while True:
            os.close(self._held.get())
