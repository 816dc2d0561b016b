"""The simulation benchmark counts what a whole, valid seed has done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.benchmarks.simulation import SUITES, measured, new_behaviours, smallest
from squall.harness.simulation.run.run import simulate
from squall.harness.simulation.run.scenarios import find_scenario


def test_figures_are_those_of_the_seeds_and_a_failing_seed_is_no_measurement() -> None:
    scenario, _ = find_scenario("data-plane", SUITES)
    result = replace(simulate(smallest(scenario, 8.0), 1), verdict="valid", wall_s=8.0, processor_s=2.0)
    others = [replace(result, processor_s=4.0), replace(result, processor_s=1.0)]
    speed, by_the_wall, seeds, events, frames, operations = measured([result, *others])
    assert speed.measured == pytest.approx(result.simulated_s / 2)
    assert by_the_wall.measured == pytest.approx(result.simulated_s / 8)
    assert seeds.measured == pytest.approx(30)
    assert (speed.must, speed.stretch) == (20, 100)
    assert events.measured == pytest.approx(result.counts["events"] / 2)
    assert frames.measured == pytest.approx(result.counts["frames"] / 2)
    assert operations.measured >= 20, "the benchmark's cluster asks for 20 client operations per simulated second"
    with pytest.raises(AssertionError, match="seed 1: invalid"):
        measured([replace(result, verdict="invalid")])


def test_a_behaviour_is_new_only_once() -> None:
    scenario, _ = find_scenario("data-plane", SUITES)
    found = new_behaviours(smallest(scenario, 4.0), [1, 1])
    first, again = found.samples
    assert first > 0 and again == 0
    assert 0 < found.measured < first * 2
