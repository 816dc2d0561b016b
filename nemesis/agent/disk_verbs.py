"""Collects for the agent the disk verbs other than errors, delays and power losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from disk_copy import Copies, CopyDisk, RewindDisk, probe_copy
from disk_faults import Revival
from disk_fill import FillDisk, probe_fill
from disk_lies import LieDisk
from disk_load import LoadDisk, LoadProbe
from disk_rules import DiskState
from faults import DISK_FULL, FaultVerb
from file_damage import DamageFile, Kept, probe_file
from journal import Journal
from power import Losses
from processes import Processes


class DiskVerbs:
    """The disk faults, and the probes that verify them."""

    def __init__(
        self,
        state: Path,
        journal: Journal,
        processes: Processes,
        disk: DiskState,
        revival: Revival,
        losses: Losses,
    ) -> None:
        copies = Copies(state)
        self.faults: dict[str, FaultVerb] = {
            DISK_FULL: FillDisk(processes, disk, revival, state),
            "disk.lie": LieDisk(processes, disk, revival),
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
