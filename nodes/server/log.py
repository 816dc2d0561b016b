"""The node's log for operators: one line per event on standard output, with the wall-clock time."""

from __future__ import annotations

import sys
from datetime import datetime


def say(message: str) -> None:
    """Write one line and flush it, so that it survives a kill of the process."""
    stamp = datetime.now().astimezone().isoformat(timespec="milliseconds")
    sys.stdout.write(f"{stamp} {message}\n")
    sys.stdout.flush()
