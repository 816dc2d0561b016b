"""`disk.load`: keeps a disk busy by a helper (`disk_writer.py`). `probe.load` measures the effect.

Each fault has its own helper, which writes beside the log directory, on the same file system, to a file of a fixed size
without a name. The probe reports how much the helper has written, by the kernel's count for that process, and how long
an fsync of 4 KiB takes there for other processes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import number, text, whole
from squall.nemesis.agent.core.helpers import Helpers
from squall.nemesis.agent.core.journal import Entry, Journal
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verb_error import VerbError

LEAST_BYTES = 4096
MOST_BYTES = 1 << 30
MOST_WRITERS = 16
SPARE_BYTES = 1 << 30
"""So many bytes stay free: the disk must become busy, not full."""
PROBES = 7
LONGEST_LOOK = 5.0


def log_directory(processes: Processes, name: str) -> Path:
    """The log directory of a process. Raises VerbError if it was defined without one."""
    definition = processes.definition(name)
    if not definition.data:
        raise VerbError("unsupported", f"{name} was defined without `data`: where it writes is not known")
    return Path(definition.data)


def beside(data: Path) -> Path:
    """The parent of the log directory, or the log directory itself if it is a mount point."""
    return data.parent if data.parent.stat().st_dev == data.stat().st_dev else data


class LoadDisk:
    """`disk.load`"""

    def __init__(self, state: Path, processes: Processes) -> None:
        self._processes = processes
        self._helpers = Helpers(state, "disk.disk_writer")

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        directory = beside(log_directory(self._processes, name))
        size = whole(arguments, "bytes", MOST_BYTES)
        writers = whole({"writers": 1, **arguments}, "writers", MOST_WRITERS)
        if not writers or size < LEAST_BYTES * writers:
            raise VerbError(
                "bad_argument", f"bytes: {size} must be at least {LEAST_BYTES} for each of {writers} writers"
            )
        free = shutil.disk_usage(directory).free
        if free < size + SPARE_BYTES:
            raise VerbError("unsupported", f"bytes: {size} are too many where {free} are free, of which 1 GiB stays so")
        return {"name": name, "directory": str(directory), "bytes": size, "writers": writers}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        told = entry.arguments
        options = ["--id", entry.id, "--directory", told["directory"]]
        options += ["--bytes", str(told["bytes"]), "--writers", str(told["writers"])]
        return {"pid": self._helpers.start(helper_of(entry.id), *options).pid}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._helpers.end(helper_of(entry.id))

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        self._helpers.end(helper_of(id))

    def broken(self, entry: Entry) -> bool:
        return self._helpers.alive(helper_of(entry.id)) is None

    def note_broken(self, entry: Entry) -> None:
        """Does nothing: `probe.load` reports that the fault is not open any more."""


def helper_of(id: str) -> str:
    return f"writer-{id}"


class LoadProbe:
    """`probe.load`"""

    def __init__(self, state: Path, journal: Journal, processes: Processes) -> None:
        self._helpers = Helpers(state, "disk.disk_writer")
        self._journal = journal
        self._processes = processes

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        id, directory = text(arguments, "id"), beside(log_directory(self._processes, text(arguments, "name")))
        seconds = min(number({"seconds": 0.3, **arguments}, "seconds"), LONGEST_LOOK)
        writer = self._helpers.alive(helper_of(id))
        first, began = bytes_written(writer.pid) if writer else 0, time.monotonic()
        latency = fsync_seconds(directory)
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        return {
            "open": self._journal.find(id) is not None,
            "pid": writer.pid if writer else None,
            "written_bytes": max(0, bytes_written(writer.pid) - first) if writer else 0,
            "seconds": round(time.monotonic() - began, 3),
            "fsync_s": latency,
        }


def bytes_written(pid: int) -> int:
    """How many bytes a process has written to disks so far, by the kernel's count; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def fsync_seconds(directory: Path) -> float:
    """How long it takes to make 4 KiB durable there: the median of `PROBES` tries."""
    took = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(PROBES):
            began = time.monotonic()
            file.write(os.urandom(4096))
            os.fsync(file.fileno())
            took.append(time.monotonic() - began)
    return round(statistics.median(took), 6)
