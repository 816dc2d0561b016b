"""Control groups: the kernel's own way to give a process less, where this machine has it and lets us."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nemesis.agent.conftest import AGENT_DIRECTORY

sys.path.insert(0, str(AGENT_DIRECTORY))

from cgroups import CpuGroups, candidates, usable

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
        time.sleep(1.0)
        assert (processor_time(busy) - had) / (time.monotonic() - began) < 0.2
        assert throttled is not None and (GROUPS.times_throttled(busy) or 0) > throttled
    finally:
        GROUPS.release(group, home)
    assert GROUPS.home_of(busy) == home
    GROUPS.release(group, home)  # harmless


def test_version_two_is_told_quota_and_period_and_takes_the_process_back(tmp_path: Path) -> None:
    groups = CpuGroups("cgroup v2", tmp_path)
    (tmp_path / "home").mkdir()
    groups.hold("squall-x", 4711, 0.25)
    assert (tmp_path / "squall-x" / "cpu.max").read_text() == "25000 100000"
    assert (tmp_path / "squall-x" / "cgroup.procs").read_text() == "4711"


def test_a_machine_without_them_says_why_not(tmp_path: Path) -> None:
    assert "No such file" in str(CpuGroups("cgroup v2", tmp_path / "nowhere").why_not())
