"""Finds the holders of a lock file in the kernel's lock table, and kills holders that are stopped.

A lock (flock) ends with the process that holds it, however that process ends. But a stopped process keeps the lock, and
healing would wait for it for ever. The table (/proc/locks) has pid and inode; the holder's open descriptors prove that
it is this file.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

LOCKS = Path("/proc/locks")
STOPPED = "Tt"


def holders(path: Path) -> list[int]:
    """The pids of the other processes that hold a lock on a file."""
    found = []
    with contextlib.suppress(OSError):
        inode = path.stat().st_ino
        for line in LOCKS.read_text().splitlines():
            fields = line.split()
            if "->" in fields or len(fields) < 6 or fields[1] != "FLOCK":
                continue  # `->` marks a waiting process
            pid, place = int(fields[4]), fields[5].rpartition(":")[2]
            if place == str(inode) and pid > 0 and pid != os.getpid() and _has_open(pid, path):
                found.append(pid)
    return found


def is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in STOPPED
    return False


def end_stopped_holders(path: Path) -> list[int]:
    """Kill the holders that are stopped. Returns their pids."""
    ended = []
    for pid in holders(path):
        if is_stopped(pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
    return ended


def end_stopped_keepers(state: Path) -> list[int]:
    """Kill keepers of this state that were stopped before they took the lock that identifies them. Returns
    their pids.
    """
    ended = []
    for directory in Path("/proc").glob("[0-9]*"):
        pid = int(directory.name)
        with contextlib.suppress(OSError):
            words = (directory / "cmdline").read_bytes().split(b"\0")
            if b"--keeper" in words and os.fsencode(state) in words and pid != os.getpid() and is_stopped(pid):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
    return ended


def _has_open(pid: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        there = path.stat()
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found = one.stat()
                if (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino):
                    return True
    return False
