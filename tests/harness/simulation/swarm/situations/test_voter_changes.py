"""Voters that change time after time, beside faults of the quorum: what is drawn, and a run with it (KIP-853)."""

from __future__ import annotations

from pathlib import Path

from squall.harness.simulation.run.run import simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.swarm.drawn.kinds import REMOVE_VOTER, UNITS
from squall.harness.simulation.swarm.situations.voter_changes import ACTIVE, draw_voter_changes

SUITES = Path(__file__).resolve().parents[5] / "suites"
CONTROLLERS = ("c1", "c2", "c3")
LOAD = 16.0
DRAWN = {seed: draw_voter_changes(seed, CONTROLLERS, LOAD) for seed in range(200)}


def test_a_seed_draws_the_same_again_and_some_draw_nothing() -> None:
    assert {seed: draw_voter_changes(seed, CONTROLLERS, LOAD) for seed in DRAWN} == DRAWN
    assert 50 < sum(not drawn for drawn in DRAWN.values()) < 110


def test_voters_are_removed_often_and_all_is_over_before_the_load_ends() -> None:
    for drawn in filter(None, DRAWN.values()):
        assert sum(fault.kind == REMOVE_VOTER for fault in drawn) >= 3
        assert max(fault.latest_end for fault in drawn) < LOAD
        assert {fault.kind for fault in drawn} <= set(UNITS)
    targets = {fault.words["target"] for drawn in DRAWN.values() for fault in drawn if fault.kind == REMOVE_VOTER}
    assert targets == {*CONTROLLERS, ACTIVE}


def test_a_quorum_of_one_or_two_keeps_its_voters() -> None:
    assert not any(
        draw_voter_changes(seed, controllers, LOAD) for seed in range(50) for controllers in (("c1",), ("c1", "c2"))
    )


def test_a_world_with_it_changes_voters_time_after_time() -> None:
    """Seed 5009 is one whose voters are in the metadata log, and change."""
    result = simulate(find_scenario("worlds", SUITES)[0], 5009)
    assert result.verdict == "valid", result.problem
    assert result.counts["changes of the voters"] >= 5
