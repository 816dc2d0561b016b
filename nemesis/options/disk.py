"""Disks that lose, refuse or delay."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from squall.nemesis.durations import Duration
from squall.nemesis.options.base import DiskCall, Probability, Target, Timed


class PowerLoss(Timed):
    """The process dies and its host loses what was not fsynced: all of it, a part (`torn`), or nothing (`none`)."""

    fault: Literal["power-loss"]
    target: Target
    mode: Literal["all", "torn", "none"] = "all"


class WipeDisk(Timed):
    """The process is killed, its log directory emptied, and after `for` it starts with nothing."""

    fault: Literal["wipe-disk"]
    target: Target


class DiskError(Timed):
    """The named disk calls of the target's node fail, each with this probability."""

    fault: Literal["disk-error"]
    target: Target
    errno: Literal["EIO", "ENOSPC"] = "EIO"
    calls: tuple[DiskCall, ...] = Field(default=("write", "fsync"), min_length=1)
    probability: Probability = 1.0


class DiskSlow(Timed):
    """Each of the named disk calls of the target's node takes so much longer."""

    fault: Literal["disk-slow"]
    target: Target
    latency: Duration = 0.05
    calls: tuple[DiskCall, ...] = Field(default=("write", "fsync"), min_length=1)


DiskFault = PowerLoss | WipeDisk | DiskError | DiskSlow
