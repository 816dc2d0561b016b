"""The keeper's heartbeat: a line in a file that changes while the keeper makes progress.

A thread writes it five times a second, so that a slow heal does not look like a dead keeper. The thread writes only if
the keeper's loop has turned within the last `LONGEST_TURN` seconds, so that a keeper that hangs is detected. The line
is written in place and needs no disk space.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from squall.nemesis.agent.core.durable import write_in_place

BEAT = 0.2
LONGEST_TURN = 90.0
"""More seconds than any heal may take: a user's command may take up to 60 s."""
STALE_AFTER = 4.0
LINE = 32


class Heartbeat:
    """The heartbeat of the one keeper of a host."""

    def __init__(self, state: Path) -> None:
        self._path = state / "keeper.beat"
        self._turned = time.monotonic()

    def reserve(self) -> None:
        """Create the file while there is room. Raises OSError."""
        if not self._path.exists():
            self._write("0")

    def turn(self) -> None:
        """Record that the keeper's loop has completed a turn."""
        self._turned = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def age(self) -> float:
        """Seconds since the last beat; 0 if that is unknown, so that no keeper is killed without evidence."""
        try:
            return max(0.0, time.monotonic() - float(self._path.read_text()))
        except (OSError, ValueError):
            return 0.0

    def _beat(self) -> None:
        while True:
            if time.monotonic() - self._turned < LONGEST_TURN:
                with contextlib.suppress(OSError):
                    self._write(f"{time.monotonic():.3f}")
            time.sleep(BEAT)

    def _write(self, text: str) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_in_place(descriptor, text, LINE)
        finally:
            os.close(descriptor)
