"""The swarms of suites/swarms.yaml: clusters of other kinds are valid under whatever a seed draws.

One seed each in CI, three in `make test-full`; hundreds by `squall simulate NAME --seeds 500`. Seeds that once found
something are kept here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.simulation.simulate import told
from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.run.run import SimOptions, SimResult, simulate

SUITE = Path(__file__).resolve().parents[4] / "suites" / "swarms.yaml"
SWARMS = {scenario.scenario: scenario for scenario in load_suite(SUITE).own}


def result_of(scenario: Scenario, seed: int) -> SimResult:
    found = simulate(scenario, seed)
    assert found.verdict == "valid", told(found, scenario.scenario, SimOptions())
    return found


@pytest.mark.parametrize("seed", [7, pytest.param(50, marks=pytest.mark.full)])
def test_acknowledged_records_may_be_lost_by_an_observed_unclean_election(seed: int) -> None:
    """EL-04. Seed 7 was invalid once: a follower's checkpointed high watermark of before the election (DP-13)."""
    swarm = SWARMS["swarm-unclean"]
    longer = swarm.model_copy(update={"time": swarm.time.model_copy(update={"load": 60.0})})
    assert result_of(longer, seed).counts["declared losses"] > 0


def test_elr_switched_off_gives_an_empty_isr_its_offline_members_back() -> None:
    """EL-06. Seed 54 was invalid once: the observer accused the controller of letting in a fenced broker (CS-02)."""
    result_of(SWARMS["swarm-elr-switch"], 54)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (2, 3))])
@pytest.mark.parametrize("name", SWARMS)
def test_swarms_are_valid(name: str, seed: int) -> None:
    result_of(SWARMS[name], seed)
