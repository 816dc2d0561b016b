"""Collects for the agent the process verbs other than start, stop, kill and pause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import failpoint
import limits
import throttle
from commands import CheckCommand, RunCommand, Shell
from disk_faults import Revival
from disk_rules import DiskState
from failpoint_strike import Deeds
from faults import KILL_AT_CALL, FaultVerb, text
from journal import Journal
from limits import Limit
from processes import Processes
from resource_probe import ResourceProbe
from stress import Stress, whole
from throttle import Throttle


class Adopt:
    """`proc.adopt`: give a name to a process that was started elsewhere."""

    def __init__(self, processes: Processes, journal: Journal) -> None:
        self._processes = processes
        self._journal = journal

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name, pid = text(arguments, "name"), whole(arguments, "pid", 1 << 30)
        with self._journal.locked():
            identity = self._processes.adopt(name, pid)
        return {"pid": identity.pid, "started": identity.started}


class ProcessVerbs:
    """The process faults, the probes that verify them, and the other process verbs."""

    def __init__(
        self,
        state: Path,
        journal: Journal,
        processes: Processes,
        disk: DiskState,
        revival: Revival,
        *,
        host: str,
        lab: bool,
    ) -> None:
        deeds, shell = Deeds(state), Shell(state, host)
        self.faults: dict[str, FaultVerb] = {
            KILL_AT_CALL: failpoint.KillAtCall(processes, disk, revival, deeds),
            throttle.VERB: Throttle(processes, journal, state, lab=lab),
            limits.VERB: Limit(processes, journal),
            "host.stress": Stress(state),
            "host.command": RunCommand(state, shell),
        }
        self.others: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "proc.adopt": Adopt(processes, journal).answer,
            "probe.failpoint": failpoint.probe(journal, disk, deeds),
            "probe.command": CheckCommand(journal, shell).answer,
            "probe.resources": ResourceProbe(state, journal, processes).answer,
        }
