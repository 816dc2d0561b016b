"""Control groups: the kernel's own way to give a process less, where this machine has it and lets us."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.nemesis.agent.core.journal import Journal
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.process.cgroups import CpuGroups, candidates, usable
from squall.nemesis.agent.process.throttle import VERB, Throttle
from tests.waiting import wait_until

GROUPS = usable()
working = pytest.mark.skipif(
    GROUPS is None, reason="; ".join(str(one.why_not()) for one in candidates() if GROUPS is None)
)


@pytest.fixture
def busy() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"])
    yield process.pid
    process.kill()
    process.wait()


PERIODS = 5
"""Of a tenth of a second, in each of which a busy process is throttled once."""


def processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@working
def test_a_busy_process_gets_its_share_and_goes_home_afterwards(busy: int) -> None:
    assert GROUPS is not None
    group, home = f"squall-test-{os.getpid()}", GROUPS.home_of(busy)
    GROUPS.hold(group, busy, 0.1)
    try:
        throttled = GROUPS.times_throttled(busy)
        had, began = processor_time(busy), time.monotonic()
        wait_until(
            lambda: (GROUPS.times_throttled(busy) or 0) >= (throttled or 0) + PERIODS, "it is throttled again and again"
        )
        assert (processor_time(busy) - had) / (time.monotonic() - began) < 0.2
    finally:
        GROUPS.release(group, home)
    assert GROUPS.home_of(busy) == home
    GROUPS.release(group, home)  # harmless


@working
def test_throttles_of_one_host_share_a_group_where_the_smallest_rules(tmp_path: Path, busy: int) -> None:
    """In any order of healing; and undoing twice does no harm."""
    assert GROUPS is not None
    journal, processes = Journal(tmp_path), Processes(tmp_path)
    processes.adopt("node", busy)
    throttle, home = Throttle(processes, journal, tmp_path, lab=False), GROUPS.home_of(busy)
    entries = []
    for id, share in (("small", 0.1), ("large", 0.5)):
        prepared = throttle.prepare({"name": "node", "share": share})
        entries.append(journal.open_entry(id, VERB, 60, prepared))
        assert throttle.inject(entries[-1], entries)["driver"] == GROUPS.name
    small, large = entries
    assert small.arguments["group"] == large.arguments["group"]
    assert small.arguments["home"] == large.arguments["home"] == home
    try:
        assert quota_of(busy) == 10_000
        throttle.undo(small, [large])
        assert quota_of(busy) == 50_000
    finally:
        for entry in entries:
            throttle.undo(entry, [])
            throttle.undo(entry, [])
    assert GROUPS.home_of(busy) == home


def quota_of(pid: int) -> int:
    """Microseconds in each tenth of a second, as the group of the process has it."""
    assert GROUPS is not None
    directory = GROUPS.directory_of(pid)
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        if (directory / name).exists():
            return int((directory / name).read_text().split()[0])
    raise AssertionError(f"no quota in {directory}")


def test_version_two_is_told_quota_and_period_and_takes_the_process_back(tmp_path: Path) -> None:
    groups = CpuGroups("cgroup v2", tmp_path)
    (tmp_path / "home").mkdir()
    groups.hold("squall-x", 4711, 0.25)
    assert (tmp_path / "squall-x" / "cpu.max").read_text() == "25000 100000"
    assert (tmp_path / "squall-x" / "cgroup.procs").read_text() == "4711"


def test_a_machine_without_them_says_why_not(tmp_path: Path) -> None:
    assert "No such file" in str(CpuGroups("cgroup v2", tmp_path / "nowhere").why_not())
