"""Close large removed files on a background thread: freeing their pages is slow.

Removing the name of a file is fast. Closing its last descriptor takes some 20 ms for a segment of 256 MB whose pages
are in memory; retention removes several segments at once, deleting a topic hundreds. Meanwhile the node's thread serves
neither produce requests nor the controller. So a large file is opened once more before its name is removed, and a
background thread closes it. A process that ends closes everything: no cleanup is needed.

Kafka removes files a minute later, also in a thread (`file.delete.delay.ms`); here the name disappears at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

LARGE_BYTES = 1 << 20
MOST_HELD = 256
"""The most descriptors held; files removed beyond that are closed at once."""


class DeferredCloser:
    """Holds large files and closes them in a background thread, which starts with the first of them."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._held: SimpleQueue[int] = SimpleQueue()
        self._thread: Thread | None = None

    def hold(self, place: Path) -> int | None:
        """Open a descriptor that keeps a large file's content for now.

        Returns None if the file is small, missing or cannot be opened, or too many are held.
        """
        try:
            if place.stat().st_size < LARGE_BYTES or self._held.qsize() >= self._most:
                return None
            return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None

    def let_go(self, descriptor: int | None) -> None:
        """Close the descriptor soon, on the background thread."""
        if descriptor is None:
            return
        if self._thread is None:
            self._thread = Thread(target=self._close, name="letting go of files", daemon=True)
            self._thread.start()
        self._held.put(descriptor)

    def _close(self) -> None:
        while True:
            os.close(self._held.get())
