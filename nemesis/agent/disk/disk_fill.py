"""A full disk: `disk.fill`, and `probe.fill`, which measures it from outside.

If the log directory has its own file system, that is filled: a file of zeroes beside (or in) the directory takes all
free space but `leave` bytes, in one `fallocate`. Otherwise the watch over the process's disk calls answers its writes,
and all calls that create names, with ENOSPC, because the machine's disk is shared and must never be filled.

*Its own file system* is one that is mounted as a whole and holds nothing that the host needs: not its root, not its
/home, /usr, /var and /tmp, and not the agent's state, above all the journal. In memory (tmpfs) it must not be larger
than a quarter of the free memory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import number, text
from squall.nemesis.agent.core.disk_rules import DiskState
from squall.nemesis.agent.core.journal import Entry, Journal
from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.core.verbs import DISK_FULL, KILLS
from squall.nemesis.agent.disk.disk_faults import DisturbDisk, RestartPolicy
from squall.nemesis.agent.disk.disk_load import beside, log_directory

CALLS = ["write", "create", "rename"]
NEEDED_BY_THE_HOST = ("/", "/home", "/usr", "/var", "/tmp", "/root", "/run", "/etc")
PROBE_BYTES = 65_536
MOUNTS = Path("/proc/self/mountinfo")
MEMORY = Path("/proc/meminfo")


@dataclass(frozen=True)
class FileSystem:
    """The file system of a directory."""

    device: int
    whole: bool
    """Mounted as a whole; not a part of a file system that is also mounted elsewhere."""
    kind: str


def file_system_of(directory: Path) -> FileSystem | None:
    """Look up the kernel's mount table; None if the file system is not in it."""
    device = directory.stat().st_dev
    named = f"{os.major(device)}:{os.minor(device)}"
    for line in MOUNTS.read_text().splitlines():
        fields = line.split()
        if fields[2] == named:
            others = [other.split()[3] for other in MOUNTS.read_text().splitlines() if other.split()[2] == named]
            kind = fields[fields.index("-") + 1]
            return FileSystem(device, others == ["/"], kind)
    return None


def why_not_to_be_filled(directory: Path, state: Path) -> str | None:
    """Why a directory's file system must not be filled; None if it may."""
    found = file_system_of(directory)
    if found is None or not found.whole:
        return "its file system is not mounted for it alone"
    for needed in (*(Path(one) for one in NEEDED_BY_THE_HOST), state):
        if needed.exists() and needed.stat().st_dev == found.device:
            return f"{needed} lies on the same file system"
    if found.kind == "tmpfs" and free_bytes(directory) > _free_memory() / 4:
        return "it is in memory, and more than a quarter of what is free there"
    return None


def _free_memory() -> int:
    lines = (line.split() for line in MEMORY.read_text().splitlines())
    return next(int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:")


def free_bytes(directory: Path) -> int:
    """Free bytes, including those reserved for root."""
    found = os.statvfs(directory)
    return found.f_bfree * found.f_frsize


class FillDisk(DisturbDisk):
    """`disk.fill`"""

    def __init__(self, processes: Processes, files: DiskState, restart_policy: RestartPolicy, state: Path) -> None:
        super().__init__(processes, files, restart_policy)
        self._state = state

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        data = log_directory(self._processes, name)
        leave = number({"leave": 0, **arguments}, "leave")
        reason = why_not_to_be_filled(data, self._state)
        if reason is None:
            file = filler_for(data, text(arguments, "id"))
            return {"name": name, "calls": [], "filler": str(file), "leave": round(leave)}
        if leave:
            raise VerbError("unsupported", f"leave: {leave:g} needs a file system of the log directory's own: {reason}")
        return super().prepare({**arguments, "calls": CALLS})

    def _particulars(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"error": errno.ENOSPC, "filler": ""}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        filler = entry.arguments["filler"]
        if filler:
            fill(Path(filler), entry.arguments["leave"])
            return {"driver": "filler", "free_bytes": free_bytes(Path(filler).parent)}
        super().inject(entry, open_entries)
        return {"driver": "watch"}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        name, filler = entry.arguments["name"], entry.arguments["filler"]
        if filler:
            Path(filler).unlink(missing_ok=True)
            down = any(other.verb in KILLS and other.arguments["name"] == name for other in remaining)
            if not down and self._processes.wanted(name) and self._processes.alive(name) is None:
                self._processes.start(name)
            return
        super().undo(entry, remaining)
        self._restart_policy.see_it_end(name)
        self._restart_policy.revive(name, remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        for name in self._processes.names():
            data = self._processes.definition(name).data
            if data and Path(data).is_dir():
                filler_for(Path(data), id).unlink(missing_ok=True)
        super().undo_unknown(id, remaining)


def filler_for(data: Path, id: str) -> Path:
    return beside(data) / f".squall-filler-{file_name(id)}"


def fill(file: Path, leave: int) -> None:
    """Allocate all free space but `leave` bytes. What the file system reserves for itself is found by trying."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        step = max(0, free_bytes(file.parent) - leave)
        at = os.fstat(descriptor).st_size
        while step >= 4096:
            try:
                os.posix_fallocate(descriptor, at, step)
            except OSError as trouble:
                if trouble.errno != errno.ENOSPC:
                    raise VerbError("unsupported", f"{file.parent}: cannot be filled: {trouble}") from None
                os.ftruncate(descriptor, at)
                step //= 2
                continue
            at += step
            step = max(0, free_bytes(file.parent) - leave)
    finally:
        os.close(descriptor)


def probe_fill(journal: Journal, processes: Processes, disk: DiskState, arguments: dict[str, Any]) -> dict[str, Any]:
    """`probe.fill`: how much is free, how many calls were refused, and the result of writing 64 KiB beside the log
    directory: the name of the error, or null.
    """
    id, data = text(arguments, "id"), log_directory(processes, text(arguments, "name"))
    entry = journal.find(id)
    filled = bool(entry and entry.verb == DISK_FULL and entry.arguments["filler"])
    return {
        "open": entry is not None,
        "driver": None if entry is None else "filler" if filled else "watch",
        "met": disk.met(id),
        "free_bytes": free_bytes(data),
        "refused": try_to_write(beside(data)),
    }


def try_to_write(directory: Path) -> str | None:
    """Write a temporary file. Returns the name of the error, or None; leaves nothing behind."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile(dir=directory, buffering=0))
            file.write(os.urandom(PROBE_BYTES))
            os.fsync(file.fileno())
        except OSError as trouble:
            return errno.errorcode.get(trouble.errno or 0, str(trouble))
    return None
