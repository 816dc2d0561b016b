"""`proc.limit`: less memory or fewer descriptors for a running process (`prlimit`), restored afterwards.

A limit is given as *headroom* above what the process uses now: bytes of address space, number of descriptors. Only the
soft limit changes, so that restoring it needs no privilege. With several open faults the smallest limit applies. A
process that ended under its limit is restarted when the last such fault of it ends, unless another fault keeps it down.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import whole
from squall.nemesis.agent.core.journal import Entry, Journal
from squall.nemesis.agent.core.processes import Identity, Processes, state_of
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.core.verbs import KILLS
from squall.nemesis.agent.process.signals import ProcessFault, identity_in

VERB = "proc.limit"
RESOURCES = {"memory": resource.RLIMIT_AS, "descriptors": resource.RLIMIT_NOFILE}
MOST = {"memory": 1 << 50, "descriptors": 1 << 20}
UNLIMITED = resource.RLIM_INFINITY


def used(pid: int, what: str) -> int:
    """Bytes of address space, or one more than the highest open descriptor. Raises OSError."""
    if what == "memory":
        return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 1 + max((int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()), default=0)


def smaller(one: int, other: int) -> int:
    """The smaller of two limits; -1 means unlimited."""
    if UNLIMITED in (one, other):
        return max(one, other) if one == other else (other if one == UNLIMITED else one)
    return min(one, other)


class Limit(ProcessFault):
    """The fault verb."""

    def __init__(self, processes: Processes, journal: Journal) -> None:
        super().__init__(processes)
        self._journal = journal

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = [what for what in RESOURCES if arguments.get(what) is not None]
        if not asked:
            raise VerbError("bad_argument", f"{', '.join(RESOURCES)}: none says what is to be limited")
        headroom = {what: whole(arguments, what, MOST[what]) for what in asked}
        prepared = super().prepare(arguments)
        identity = Identity(prepared["pid"], prepared["started"])
        return prepared | {"limits": {what: self._limit(identity, what, headroom[what]) for what in asked}}

    def _limit(self, identity: Identity, what: str, headroom: int) -> dict[str, int]:
        soft, hard = resource.prlimit(identity.pid, RESOURCES[what])
        now = smaller(used(identity.pid, what) + headroom, hard)
        for entry in self._of(identity):
            soft = entry.arguments["limits"].get(what, {"was": soft})["was"]
        return {"was": soft, "now": smaller(now, soft)}

    def _of(self, identity: Identity) -> list[Entry]:
        return [one for one in self._journal.entries() if one.verb == VERB and identity_in(one) == identity]

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        self._apply(entry, open_entries)
        return {"pid": entry.arguments["pid"], "limits": entry.arguments["limits"]}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._apply(entry, remaining)
        name = entry.arguments["name"]
        still = any(one.arguments["name"] == name for one in remaining)
        if not still and self._processes.wanted(name) and not self._is_kept_down(name):
            self._processes.start(name)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """The original limits are lost with the entry: raise them to the hard limits."""
        limited = {identity_in(one) for one in remaining}
        for identity in filter(None, map(self._processes.alive, self._processes.names())):
            for what in RESOURCES.values() if identity not in limited else ():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    hard = resource.prlimit(identity.pid, what)[1]
                    resource.prlimit(identity.pid, what, (hard, hard))

    def _is_kept_down(self, name: str) -> bool:
        return any(one.verb in KILLS and one.arguments["name"] == name for one in self._journal.entries())

    def _apply(self, entry: Entry, entries: Sequence[Entry]) -> None:
        identity = identity_in(entry)
        others = [one.arguments["limits"] for one in entries if identity_in(one) == identity]
        for what, limit in entry.arguments["limits"].items():
            soft = limit["was"]
            for other in others:
                if what in other:
                    soft = smaller(soft, other[what]["now"])
            with contextlib.suppress(ProcessLookupError):
                if state_of(identity) != "absent":
                    hard = resource.prlimit(identity.pid, RESOURCES[what])[1]
                    resource.prlimit(identity.pid, RESOURCES[what], (soft, hard))
