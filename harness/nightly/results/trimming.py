"""Trim the directories of runs that passed: what a later check, report or comparison reads stays, logs do not.

Kept are manifest, schedule, history, verdict, tables, report and the configuration of nodes. Removed are the logs of
nodes and workers, and captured packets. A simulated run repeats from its seed, so all of it is removed.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

REMOVED = ("nodes/*/*.log", "nodes/*/*.log.*", "nodes/*/*.pcap", "worker-*.log", "nodes/*/*trace*")


def trim(directory: Path, *, whole: bool = False) -> int:
    """Trim a run, or remove the `whole` of it. Return the number of bytes that became free."""
    if not directory.is_dir():
        return 0
    if whole:
        size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
        shutil.rmtree(directory, ignore_errors=True)
        return size
    freed = 0
    for path in list(_removed(directory)):
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            freed += size
    return freed


def _removed(directory: Path) -> Iterator[Path]:
    for pattern in REMOVED:
        yield from (path for path in directory.glob(pattern) if path.is_file() and not path.is_symlink())
