"""The node's log for people: one line per event on standard output, with the time of day."""

from __future__ import annotations

import sys
from datetime import datetime


def say(message: str) -> None:
    """Write one line and hand it to the system at once, so that a killed process has said it."""
    stamp = datetime.now().astimezone().isoformat(timespec="milliseconds")
    sys.stdout.write(f"{stamp} {message}\n")
    sys.stdout.flush()
