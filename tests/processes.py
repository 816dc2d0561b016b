"""What tests read of other processes, which may end at any moment."""

from __future__ import annotations

import psutil


def words_of(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
