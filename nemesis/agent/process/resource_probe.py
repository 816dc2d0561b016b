"""`probe.resources`: what a process uses and may use, and which `stress_worker.py` processes compete with it.

    {"name": "node", "id": "f1", "seconds": 0.5} → {"open", "process": {"cpu_s", "stopped", "limits", …}, "eaters"}

The evidence is independent of the programs that carry the faults out. How often the process was found stopped, its
processor time, its limits and the processes of `stress_worker.py` come from /proc; how often a control group was
throttled comes from the kernel's count.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import number, text
from squall.nemesis.agent.core.journal import Journal
from squall.nemesis.agent.core.processes import Identity, Processes, read_stat, state_of
from squall.nemesis.agent.core.programs import runs
from squall.nemesis.agent.process import cgroups
from squall.nemesis.agent.process.limits import used

LOOK = 0.004
LONGEST = 5.0
TICKS = os.sysconf("SC_CLK_TCK")
LIMIT_NAMES = {"Max address space": "memory", "Max open files": "descriptors"}


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, its threads included. Raises OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def limits_of(pid: int) -> dict[str, int | None]:
    """Soft limits; None: unlimited. Raises OSError."""
    found: dict[str, int | None] = {}
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        for title, name in LIMIT_NAMES.items():
            if line.startswith(title):
                soft = line[len(title) :].split()[0]
                found[name] = None if soft == "unlimited" else int(soft)
    return found


def eaters_of(state: Path, id: str) -> list[int]:
    """The pids of this fault's `stress_worker.py` processes, found by their command lines."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
                ours = runs(words, "process.stress_worker") and str(state) in words
                if ours and any(words[at : at + 2] == ["--id", id] for at in range(len(words))):
                    found.append(int(path.name))
    return sorted(found)


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class ResourceProbe:
    """The verb."""

    def __init__(self, state: Path, journal: Journal, processes: Processes) -> None:
        self._state = state
        self._journal = journal
        self._processes = processes

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name, id = text(arguments, "name"), text(arguments, "id")
        seconds = min(LONGEST, max(0.0, number({"seconds": 0.0, **arguments}, "seconds")))
        self._processes.definition(name)
        identity = self._processes.alive(name)
        eaters = eaters_of(self._state, id)
        had, began = {pid: had_by(pid) for pid in eaters}, time.monotonic()
        process = watched(identity, seconds)
        wall = time.monotonic() - began
        entry = self._journal.find(id)
        return {
            "open": entry is not None,
            "driver": entry.arguments.get("driver") if entry else None,
            "cpus": os.cpu_count(),
            "wall_s": wall,
            "process": process,
            "eaters": {
                "pids": eaters,
                "busy": sum(is_runnable(pid) for pid in eaters if parent_of(pid) in eaters),
                "cpu_s": sum(max(0.0, had_by(pid) - had[pid]) for pid in eaters),
                "resident_bytes": sum(resident_bytes(pid) for pid in eaters),
            },
        }


def watched(identity: Identity | None, seconds: float) -> dict[str, Any] | None:
    """Observe a process for `seconds`; None if it does not exist or ends meanwhile."""
    if identity is None:
        time.sleep(seconds)
        return None
    try:
        had, throttled = cpu_seconds(identity.pid), times_throttled(identity.pid)
        looks = stopped = 0
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            looks += 1
            stopped += state_of(identity) == "stopped"
            time.sleep(LOOK)
        return {
            "pid": identity.pid,
            "cpu_s": cpu_seconds(identity.pid) - had,
            "looks": looks,
            "stopped": stopped,
            "throttled": None if throttled is None else (times_throttled(identity.pid) or throttled) - throttled,
            "limits": limits_of(identity.pid),
            "used": {what: used(identity.pid, what) for what in LIMIT_NAMES.values()},
        }
    except OSError:
        return None


def times_throttled(pid: int) -> int | None:
    """The count of the first version of control groups that has one."""
    counts = (groups.times_throttled(pid) for groups in cgroups.candidates())
    return next((count for count in counts if count is not None), None)


def is_runnable(pid: int) -> bool:
    """Whether it runs or is ready to run."""
    found = read_stat(pid)
    return found is not None and found[0] == "R"


def had_by(pid: int) -> float:
    try:
        return cpu_seconds(pid)
    except OSError:
        return 0.0
