"""Combinators in simulation: what is in parallel, mixed and quiet there is what hosts would be given (HX-09)."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.scenario.plan import plan_suite
from squall.harness.scenario.suite import load_suite
from squall.harness.simulation.run.run import SimOptions, Simulation, simulate
from squall.results.history.manifest import Manifest
from squall.results.history.segments import FaultWindow, read_faults

SUITE = """
scenario: combined
cluster:
  topics: {events: {partitions: 2}}
  config: {broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 300, replica.lag.time.max.ms: 1500}
workload: {name: log, producers: 1, consumers: 1, rate: 50/s}
nemesis:
  - at: 1s
    parallel:
      - {fault: pause, target: b1, for: 1s}
      - {fault: kill, target: c1, for: 1s, after: 200ms}
  - at: 5s
    mix:
      - {fault: kill, target: one broker, for: {from: 500ms, to: 1s}}
      - {fault: isolate, target: leader of events/*, for: 1s}
      - sequence:
          - {fault: pause, target: b2, for: 500ms}
          - {fault: pause, target: b3, for: 500ms}
    stable: {from: 1s, to: 2s}
time: {load: 30s, quiet: 5s, settle: 20s}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "combined.yaml"
    path.write_text(SUITE)
    return path


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_is_the_same_schedule_on_hosts_and_in_simulation(suite: Path, seed: int, tmp_path: Path) -> None:
    planned = next(plan_suite(load_suite(suite), seed, tmp_path)).schedule
    simulated = Simulation(load_suite(suite).scenarios[0], seed, SimOptions(), tmp_path).schedule
    assert planned.content_hash() == simulated.content_hash()


def test_all_of_them_take_place_and_end_before_the_quiet_period(suite: Path, tmp_path: Path) -> None:
    result = simulate(load_suite(suite).scenarios[0], 3, SimOptions(keep=tmp_path))
    assert result.verdict == "valid", result.problem
    planned = next(plan_suite(load_suite(suite), 3, tmp_path)).schedule
    assert Manifest.load(tmp_path / "seed-3").schedule_hash == planned.content_hash()
    faults: list[FaultWindow] = list(read_faults(tmp_path / "seed-3"))
    assert len(faults) > 6
    assert all(window.took and window.undone for window in faults)
    assert {window.fault for window in faults} >= {"pause", "kill -9", "isolate"}
    began = min(window.injected or 0 for window in faults) - 1_000_000_000
    assert max(window.healed or 0 for window in faults) <= began + 26_000_000_000
