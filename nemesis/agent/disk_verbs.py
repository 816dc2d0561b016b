"""Collects for the agent the disk verbs other than errors, delays and power losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.disk_rules import DiskState
from squall.nemesis.agent.core.journal import Journal
from squall.nemesis.agent.core.manager import FaultVerb
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verbs import DISK_FULL
from squall.nemesis.agent.disk.disk_copy import Copies, CopyDisk, RewindDisk, probe_copy
from squall.nemesis.agent.disk.disk_faults import RestartPolicy
from squall.nemesis.agent.disk.disk_fill import FillDisk, probe_fill
from squall.nemesis.agent.disk.disk_lies import LieDisk
from squall.nemesis.agent.disk.disk_load import LoadDisk, LoadProbe
from squall.nemesis.agent.disk.file_damage import DamageFile, Kept, probe_file
from squall.nemesis.agent.disk.power import Losses


class DiskVerbs:
    """The disk faults, and the probes that verify them."""

    def __init__(
        self,
        state: Path,
        journal: Journal,
        processes: Processes,
        disk: DiskState,
        restart_policy: RestartPolicy,
        losses: Losses,
    ) -> None:
        copies = Copies(state)
        self.faults: dict[str, FaultVerb] = {
            DISK_FULL: FillDisk(processes, disk, restart_policy, state),
            "disk.lie": LieDisk(processes, disk, restart_policy),
            "disk.damage": DamageFile(processes, Kept(state)),
            "disk.copy": CopyDisk(processes, copies),
            "disk.rewind": RewindDisk(processes, losses, copies),
            "disk.load": LoadDisk(state, processes),
        }
        self.probes: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "probe.fill": partial(probe_fill, journal, processes, disk),
            "probe.file": partial(probe_file, journal, processes),
            "probe.copy": partial(probe_copy, copies, processes),
            "probe.load": LoadProbe(state, journal, processes).answer,
        }
