"""A voter moves only while the others can elect a leader without it (KIP-853, PP-02)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squall.harness.hosts.system import CONTROLLER_PORT
from squall.harness.simulation.swarm.drawn.kinds import MOVE_VOTER, REMOVE_VOTER
from squall.harness.simulation.swarm.voter_budget import VoterBudget
from squall.harness.simulation.world.voter_places import misplaced_voter
from squall.harness.simulation.world.world import ClusterShape, SimWorld

SECOND = 1_000_000


@pytest.fixture
def world() -> Iterator[SimWorld]:
    """A quorum of c1, c2 and c3 with its voters in the log, and a leader."""
    made = SimWorld(ClusterShape(brokers=1, dynamic_voters=True), seed=3, topics={})
    made.start()
    made.kernel.run_for(3 * SECOND)
    yield made
    made.switch_off()


@pytest.fixture
def budget(world: SimWorld) -> VoterBudget:
    return VoterBudget(world)


def stop(world: SimWorld, host: str, port: int | None = None) -> None:
    if port is not None:
        world.move_controller(host, port)
    world.processes[host].stop()
    world.kernel.run_for(SECOND // 2)


def start(world: SimWorld, host: str) -> None:
    world.processes[host].start()
    world.kernel.run_for(2 * SECOND)


def test_a_voter_moves_while_all_are_voters_and_nobody_removes_one(budget: VoterBudget) -> None:
    assert budget.allows(MOVE_VOTER, "c2")


def test_no_voter_is_removed_and_none_moves_before_the_log_has_the_new_place(
    world: SimWorld, budget: VoterBudget
) -> None:
    assert budget.allows(MOVE_VOTER, "c2")
    assert not budget.allows(REMOVE_VOTER, "c1"), "it has not even stopped yet"
    stop(world, "c2", CONTROLLER_PORT + 100)
    assert not budget.allows(REMOVE_VOTER, "c1") and not budget.allows(MOVE_VOTER, "c2")
    start(world, "c2")
    assert budget.allows(MOVE_VOTER, "c2")


def test_a_voter_is_removed_again_once_the_log_has_the_new_place(world: SimWorld, budget: VoterBudget) -> None:
    assert budget.allows(MOVE_VOTER, "c2")
    stop(world, "c2", CONTROLLER_PORT + 100)
    start(world, "c2")
    assert budget.allows(REMOVE_VOTER, "c1")


def test_no_voter_moves_while_one_is_being_removed(budget: VoterBudget) -> None:
    assert budget.allows(REMOVE_VOTER, "c1") and budget.allows(REMOVE_VOTER, "c1")
    budget.ended(REMOVE_VOTER)
    assert not budget.allows(MOVE_VOTER, "c2"), "the other is not over"
    budget.ended(REMOVE_VOTER)
    assert budget.allows(MOVE_VOTER, "c2")


def test_without_a_leader_nobody_knows_who_votes_and_no_voter_moves(world: SimWorld, budget: VoterBudget) -> None:
    for host in ("c1", "c2", "c3"):
        world.processes[host].stop()
    assert not budget.allows(MOVE_VOTER, "c1")


def test_other_kinds_are_no_changes_of_the_voters(world: SimWorld, budget: VoterBudget) -> None:
    assert budget.allows(MOVE_VOTER, "c2")
    assert budget.allows("crash-controller", "c1")
    budget.ended("crash-controller")
    start(world, "c2")
    assert not budget.allows(MOVE_VOTER, "c1"), "c2 has not stopped yet: the end of another kind is none of its move"


def test_an_operator_adds_a_voter_where_it_listens_and_not_where_it_once_did(world: SimWorld) -> None:
    """Seed 995389 of worlds: a removed voter came back at its former place, and no quorum could ask it for a vote."""
    operator = world.operator()
    stop(world, "c2", CONTROLLER_PORT + 100)
    start(world, "c2")
    world.kernel.run_until_complete(operator.remove_voter("c2"))
    world.kernel.run_until_complete(operator.add_voter("c2"))
    assert misplaced_voter({name: process.node for name, process in world.processes.items()}) is None
