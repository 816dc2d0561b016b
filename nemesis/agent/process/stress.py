"""`host.stress`: busy processes and used memory beside the node, by a helper per fault (`stress_worker.py`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import text, whole
from squall.nemesis.agent.core.helpers import Helpers
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.verb_error import VerbError

MOST_PROCESSES = 1024
LEFT_TO_OTHERS = 0.1
"""This share of the available memory stays free: the fault must not crash the host."""


class Stress:
    """The fault verb."""

    def __init__(self, state: Path) -> None:
        self._helpers = Helpers(state, "process.stress_worker")

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        text(arguments, "id")
        processes = whole({"processes": 0, **arguments}, "processes", MOST_PROCESSES)
        memory = whole({"memory": 0, **arguments}, "memory", 1 << 50)
        if not processes and not memory:
            raise VerbError("bad_argument", "processes, memory: neither says how much is to be eaten")
        available = available_bytes()
        if memory > available * (1 - LEFT_TO_OTHERS):
            raise VerbError("unsupported", f"memory: {memory} bytes are too much where {available} are available")
        return {"processes": processes, "memory": memory}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        told = entry.arguments
        options = ["--id", entry.id, "--processes", str(told["processes"]), "--memory", str(told["memory"])]
        return {"pid": self._helpers.start(helper_of(entry.id), *options).pid, "cpus": os.cpu_count()}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._helpers.end(helper_of(entry.id))

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        self._helpers.end(helper_of(id))

    def broken(self, entry: Entry) -> bool:
        return self._helpers.alive(helper_of(entry.id)) is None

    def note_broken(self, entry: Entry) -> None:
        """Does nothing: `probe.resources` reports that the fault is not open any more."""


def helper_of(id: str) -> str:
    return f"eater-{id}"


def available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise VerbError("unsupported", "the kernel does not say how much memory is available")
