"""Links that are slow, lossy and narrow, on hosts of the lab: one short run. A split vote, on request."""

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

SUITES = Path(__file__).parents[4] / "suites"

SHORT = """
scenario: bad-links
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
workload: {name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: slow-link, target: leader of events/0, latency: 30ms, jitter: 10ms, at: 500ms, for: 2s}
  - {fault: slow-link, target: leader of events/0, to: followers of events/0, latency: 0, loss: 0.3, at: 4s, for: 2s}
  - {fault: bandwidth, target: one follower of events/0, direction: in, rate: 64KiB/s, at: 7s, for: 2s}
time: {load: 10s, settle: 10s}
min_acknowledged: 50
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def windows(directory: Path) -> list[FaultWindow]:
    return sorted(read_faults(directory), key=lambda window: window.injected or 0)


def milliseconds(window: FaultWindow) -> float:
    """Of the longest round trip that the evidence tells of."""
    told = re.fullmatch(r"round trips of up to ([\d.]+) ms", window.during)
    assert told, window.during
    return float(told[1])


@pytest.mark.full
def test_slow_lossy_and_narrow_links_happen_and_end_losing_no_acked_record(squall: CommandLine) -> None:
    (squall.directory / "bad-links.yaml").write_text(SHORT)
    said = squall("run", "bad-links.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    faults = windows(directory)
    assert [window.fault for window in faults] == ["slow-link", "slow-link", "bandwidth"]
    assert all(window.took and window.undone for window in faults), faults
    slow, lossy, narrow = map(milliseconds, faults)
    assert slow >= 60 and lossy >= 200 and narrow >= 200
    assert acknowledged_and_gone(History.load(directory).of("events", 0)) == set()


@pytest.mark.full
def test_two_voters_a_slow_link_apart_stand_at_the_same_time(squall: CommandLine) -> None:
    """QC-08: the vote is split while requests take 300 ms each way, in real time."""
    suite = SUITES / "voter-crash-storm.yaml"
    said = squall("run", suite, "--only", "split-vote-crash", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    slow = next(window for window in windows(squall.directory / "runs" / "latest") if window.fault == "slow-link")
    assert slow.took and slow.undone and milliseconds(slow) >= 600
