"""Disks that fail and disks that are slow on hosts of the lab: one short run, with nodes that fsync every record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.results.history.history import History
from squall.results.history.segments import FaultWindow, read_faults
from tests.harness.conftest import CommandLine
from tests.harness.run.faults.test_power_loss import acknowledged_and_gone
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("power-loss")]

SUITE = """
scenario: bad-disks
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
  config:
    broker.session.timeout.ms: 1500
    broker.heartbeat.interval.ms: 300
    replica.lag.time.max.ms: 1500
    log.flush.interval.messages: 1
workload: {name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: disk-slow, target: leader of events/0, latency: 20ms, calls: [fsync], at: 500ms, for: 1500ms, as: slow}
  - {fault: disk-error, target: leader of events/0, calls: [fsync], at: 3s, for: 2s}
time: {load: 9s, settle: 10s}
min_acknowledged: 50
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def window_of(directory: Path, name: str) -> FaultWindow:
    return next(window for window in read_faults(directory) if window.fault == name)


@pytest.mark.full
def test_slow_and_broken_disks_happen_and_end_and_lose_no_acked_record(squall: CommandLine) -> None:
    (squall.directory / "bad-disks.yaml").write_text(SUITE)
    said = squall("run", "bad-disks.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    slow, broken = window_of(directory, "disk-slow"), window_of(directory, "disk-error")
    assert slow.took and slow.undone and broken.took and broken.undone
    assert re.match(r"[1-9]\d* calls slower by 20 ms", slow.during), slow.during
    assert re.match(r"[1-9]\d* calls failed with EIO", broken.during), broken.during
    assert acknowledged_and_gone(History.load(directory).of("events", 0)) == set()
    (log,) = [path for path in directory.rglob("node.log") if "halts" in path.read_text()]
    written = log.read_text()
    assert "its log directory failed" in written and "Input/output error" in written
    assert written.index("halts, its log directory failed") < written.rindex("starts in"), "it is started again"
