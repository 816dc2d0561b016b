"""The timeline of a real run whose hosts' clocks were an hour ahead meanwhile: nothing that nodes say is shuffled."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.timeline.entry import Entry
from squall.harness.timeline.timeline import Timeline
from squall.results.history.segments import read_faults
from tests.harness.conftest import CommandLine
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.xdist_group("timeline")]

SUITE = """
scenario: an-hour-ahead
cluster:
  controllers: 1
  brokers: 2
  topics: {events: {partitions: 1, replication_factor: 2, min_insync_replicas: 1}}
  config: {broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 300}
workload: {name: log, producers: 2, consumers: 1, rate: 100/s, acks: all}
nemesis:
  - {fault: clock, target: all nodes, offset: 1h, at: 500ms, for: 6s}
  - {fault: kill, target: b1, at: 2s, for: 2s}
time: {load: 9s, settle: 15s}
min_acknowledged: 100
"""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def test_a_start_under_a_clock_one_hour_ahead_stands_between_fault_phases(squall: CommandLine) -> None:
    (squall.directory / "an-hour-ahead.yaml").write_text(SUITE)
    said = squall("run", "an-hour-ahead.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    run = Path(squall.directory / "runs" / "latest").resolve()
    told = list(Timeline.of(run).entries())
    assert [one.time for one in told] == sorted(one.time for one in told)
    assert {"fault", "cluster", "b1", "b2", "c1"} <= {one.source for one in told}

    first, second = (one for one in told if one.source == "b1" and " starts in " in one.text)
    kill = next(window for window in read_faults(run) if window.id == "2-kill")
    assert kill.injected and kill.shown and kill.healed and kill.ended
    assert first.certain and first.time < kill.injected
    assert not second.certain and "(stamped " in second.text, "its clock was set when it said that"
    assert kill.shown < second.time < kill.ended
    assert length_in_seconds(told) < 60, "nobody stands an hour away"

    printed = squall("timeline", "runs/latest")
    assert printed.status == 0, printed.all
    assert printed.out == (run / "timeline.txt").read_text()
    assert f"\n≈{(second.time - Timeline.of(run).begins) / 1e9:10.3f} s  b1 " in printed.out


def length_in_seconds(told: list[Entry]) -> float:
    return (told[-1].time - told[0].time) / 1e9
