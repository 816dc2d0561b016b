"""Limits a process to a share of a processor, by moving it into a control group made for the fault.

Uses version 2 of the kernel's control groups (`cpu.max`) where the root group delegates processor time, else version 1
(`cpu.cfs_quota_us`). Afterwards the process returns to its original group, and the fault's group is deleted. Whether
this works is tried with an empty group.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from squall.nemesis.agent.core.verb_error import VerbError

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
SHORTEST_US = 1_000
"""The kernel accepts no smaller quota."""


class CpuGroups:
    """Groups of one version of control groups. `place` is the directory in which groups are created."""

    def __init__(self, name: str, place: Path) -> None:
        self.name = name
        self._place = place

    def why_not(self) -> str | None:
        """Why no group can be created here, found by creating one; None if it can."""
        trial = self._place / f"squall-trial-{os.getpid()}"
        try:
            trial.mkdir()
            try:
                self._limit(trial, 0.5)
            finally:
                trial.rmdir()
        except OSError as trouble:
            return f"{self.name}: {trouble}"
        return None

    def home_of(self, pid: int) -> str:
        """The current group of a process, as a path below `place`. Raises VerbError."""
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if (number == "0") if self.name == "cgroup v2" else ("cpu" in controllers.split(",")):
                return path
        raise VerbError("failed", f"pid {pid} is in no group of {self.name}")

    def directory_of(self, pid: int) -> Path:
        """The directory of a process's current group. Raises VerbError."""
        return self._place / self.home_of(pid).lstrip("/")

    def hold(self, group: str, pid: int, share: float) -> None:
        """Limit the process to `share` of one processor from now on."""
        directory = self._place / group
        directory.mkdir(exist_ok=True)
        self._limit(directory, share)
        (directory / "cgroup.procs").write_text(str(pid))

    def release(self, group: str, home: str) -> None:
        """Move members to their original cgroup, then delete this one. Harmless if it does not exist."""
        directory = self._place / group
        if not directory.exists():
            return
        for pid in (directory / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                self._move(pid, home)
        directory.rmdir()

    def made_by_us(self) -> list[str]:
        """The names of groups that faults have created here."""
        return [path.name for path in self._place.glob("squall-*") if not path.name.startswith("squall-trial-")]

    def _move(self, pid: str, home: str) -> None:
        target = self._place / home.lstrip("/") / "cgroup.procs"
        try:
            target.write_text(pid)
        except FileNotFoundError:  # its old group was deleted meanwhile
            (self._place / "cgroup.procs").write_text(pid)

    def times_throttled(self, pid: int) -> int | None:
        """In how many periods the kernel throttled the process's group; None if it does not count them."""
        with contextlib.suppress(OSError, VerbError):
            for line in (self.directory_of(pid) / "cpu.stat").read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "nr_throttled":
                    return int(value)
        return None

    def _limit(self, directory: Path, share: float) -> None:
        quota = max(SHORTEST_US, round(share * PERIOD_US))
        if self.name == "cgroup v2":
            (directory / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (directory / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (directory / "cpu.cfs_quota_us").write_text(str(quota))


def candidates(root: Path = ROOT) -> list[CpuGroups]:
    """Where groups might be created, the best first."""
    return [CpuGroups("cgroup v2", root), *(CpuGroups("cgroup v1", root / name) for name in ("cpu", "cpu,cpuacct"))]


def usable(root: Path = ROOT) -> CpuGroups | None:
    """The first version that works."""
    return next((one for one in candidates(root) if one.why_not() is None), None)
