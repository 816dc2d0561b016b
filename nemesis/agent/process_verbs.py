"""Collects for the agent the process verbs other than start, stop, kill and pause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import text, whole
from squall.nemesis.agent.core.disk_rules import DiskState
from squall.nemesis.agent.core.journal import Journal
from squall.nemesis.agent.core.manager import FaultVerb
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verbs import KILL_AT_CALL
from squall.nemesis.agent.disk import failpoint
from squall.nemesis.agent.disk.disk_faults import RestartPolicy
from squall.nemesis.agent.disk.failpoint_strike import Deeds
from squall.nemesis.agent.process import limits, reconfigure, throttle
from squall.nemesis.agent.process.commands import CheckCommand, RunCommand, Shell
from squall.nemesis.agent.process.limits import Limit
from squall.nemesis.agent.process.reconfigure import Reconfigure
from squall.nemesis.agent.process.resource_probe import ResourceProbe
from squall.nemesis.agent.process.stress import Stress
from squall.nemesis.agent.process.throttle import Throttle


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
        restart_policy: RestartPolicy,
        *,
        host: str,
        lab: bool,
    ) -> None:
        deeds, shell = Deeds(state), Shell(state, host)
        self.faults: dict[str, FaultVerb] = {
            KILL_AT_CALL: failpoint.KillAtCall(processes, disk, restart_policy, deeds),
            throttle.VERB: Throttle(processes, journal, state, lab=lab),
            limits.VERB: Limit(processes, journal),
            reconfigure.VERB: Reconfigure(processes),
            "host.stress": Stress(state),
            "host.command": RunCommand(state, shell),
        }
        self.others: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "proc.adopt": Adopt(processes, journal).answer,
            "probe.failpoint": failpoint.probe(journal, disk, deeds),
            "probe.command": CheckCommand(journal, shell).answer,
            "probe.resources": ResourceProbe(state, journal, processes).answer,
        }
