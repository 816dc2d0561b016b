"""The keeper's heartbeat: a line in a file that changes five times a second for as long as the keeper gets on.

A thread writes it, so that a heal that takes its time is not taken for death; but only while the keeper's loop has
turned within the last `LONGEST_TURN` seconds, so that one that hangs is. It is written in place and takes no room.
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
"""More than any one heal may take: a command of the user's own has up to 60 s."""
STALE_AFTER = 4.0
LINE = 32


class Heartbeat:
    """Of the one keeper of a host."""

    def __init__(self, state: Path) -> None:
        self._path = state / "keeper.beat"
        self._turned = time.monotonic()

    def reserve(self) -> None:
        """Make the file while there is room. Raises OSError."""
        if not self._path.exists():
            self._write("0")

    def turn(self) -> None:
        """The keeper's loop has got round."""
        self._turned = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def age(self) -> float:
        """Seconds since the last beat; 0 if that cannot be known, for then nobody is to be killed for it."""
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
