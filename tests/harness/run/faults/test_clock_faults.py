"""Clocks that strobe, stand still and hurry on hosts of the lab: one short run, whose elections they must not touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.results.history.segments import FaultWindow, read_faults
from tests.harness.conftest import CommandLine
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.xdist_group("clock-faults")]

SUITE = """
scenario: bad-clocks
cluster:
  controllers: 1
  brokers: 2
  topics: {events: {partitions: 1, replication_factor: 2, min_insync_replicas: 1}}
workload: {name: log, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: clock-strobe, target: all nodes, offset: 1h, every: 100ms, at: 500ms, for: 2s}
  - {fault: clock-freeze, target: leader of events/0, time: 2038-01-19T03:14:07Z, at: 4s, for: 1500ms}
  - {fault: clock-monotonic, target: b1, rate: 1.5, offset: 2s, at: 7s, for: 1500ms}
time: {load: 10s, settle: 5s}
min_acknowledged: 50
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def test_clocks_that_strobe_stand_still_and_hurry_are_seen_to_do_so_and_to_stop(squall: CommandLine) -> None:
    (squall.directory / "bad-clocks.yaml").write_text(SUITE)
    said = squall("run", "bad-clocks.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    windows = {window.fault: window for window in read_faults(Path(squall.directory / "runs" / "latest"))}
    assert all(_took_and_ended(window) for window in windows.values()), windows
    assert "jumps by 3600.0 s" in windows["clock-strobe"].during
    assert windows["clock-freeze"].during.startswith("stopped for 0.3")
    assert windows["clock-monotonic"].during.startswith("monotonic clock at rate 1.5")


def _took_and_ended(window: FaultWindow) -> bool:
    return bool(window.took and window.undone)
