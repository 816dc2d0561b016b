"""The verbs about processes beyond starting, stopping, killing and pausing, put together for the agent."""

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
from faults import KILL_AT_CALL, FaultVerb
from journal import Journal
from limits import Limit
from processes import Processes
from resource_probe import ResourceProbe
from stress import Stress
from throttle import Throttle


class ProcessVerbs:
    """Faults, and the looks that prove them."""

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
        self.probes: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "probe.failpoint": failpoint.probe(journal, disk, deeds),
            "probe.command": CheckCommand(journal, shell).answer,
            "probe.resources": ResourceProbe(state, journal, processes).answer,
        }
