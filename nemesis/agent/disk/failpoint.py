"""`proc.kill_at_call`: kill a process before or after the n-th disk call of a kind on a matching file.

The process runs under a watch over its disk calls, as for `disk.error`; the watch kills it (`failpoint_strike.py`).
Until then the fault waits; afterwards the process stays down until the fault is reverted, as after a kill. It happens
once: a process that was restarted meanwhile is not killed again. `probe.failpoint` reports what was done, and the
present state of the files that the call was about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from squall.nemesis.agent.core.arguments import number, required, text
from squall.nemesis.agent.core.disk_rules import DiskState
from squall.nemesis.agent.core.journal import Entry, Journal
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.disk.disk_faults import DisturbDisk, RestartPolicy
from squall.nemesis.agent.disk.failpoint_strike import AFTER, BEFORE, Deeds, size_of

MOST_CALLS = 1_000_000


class KillAtCall(DisturbDisk):
    """`proc.kill_at_call`"""

    def __init__(self, processes: Processes, files: DiskState, restart_policy: RestartPolicy, deeds: Deeds) -> None:
        super().__init__(processes, files, restart_policy)
        self._deeds = deeds

    def _particulars(self, arguments: dict[str, Any]) -> dict[str, Any]:
        when = required({"when": BEFORE, **arguments}, "when", str, f"{BEFORE} or {AFTER}")
        if when not in (BEFORE, AFTER):
            raise VerbError("bad_argument", f"when: {when!r} must be {BEFORE} or {AFTER}")
        nth = number({"nth": 1, **arguments}, "nth")
        if nth != int(nth) or not 1 <= nth <= MOST_CALLS:
            raise VerbError("bad_argument", f"nth: {nth:g} must be a whole number from 1 to {MOST_CALLS}")
        if self._processes.alive(text(arguments, "name")) is None:
            raise VerbError("not_running", f"{text(arguments, 'name')} is not running")
        path = required({"path": "*", **arguments}, "path", str, "a pattern such as *.log")
        self._deeds.forget(text(arguments, "id"))
        return {"kill": when, "nth": int(nth), "path": path if path.startswith("/") else f"*/{path}"}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        super().undo(entry, remaining)
        self._restart_policy.see_it_end(entry.arguments["name"])
        self._restart_policy.revive(entry.arguments["name"], remaining)


def probe(journal: Journal, files: DiskState, deeds: Deeds) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """`probe.failpoint`"""

    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        id = text(arguments, "id")
        deed = deeds.of(id)
        seen: dict[str, Any] = {"open": journal.find(id) is not None, "met": files.met(id), "deed": None}
        if deed is not None:
            now = {path: size_of(path) for path in deed.sizes}
            seen["deed"] = {"call": deed.call, "when": deed.when, "error": deed.error, "before": deed.sizes, "now": now}
        return seen

    return answer
