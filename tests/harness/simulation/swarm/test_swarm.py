"""What a swarm draws: the same for the same seed, over before the load ends, different between seeds, and in words
that suites know."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from squall.harness.simulation.swarm.drawn.drawing import draw_swarm
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import KINDS, LINK_KINDS, OPERATIONS
from squall.nemesis.entries import NemesisEntry

BROKERS = ("b1", "b2", "b3")
CONTROLLERS = ("c1", "c2", "c3")
ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


def test_a_seed_draws_the_same_faults_again() -> None:
    assert draw_swarm(7, BROKERS, CONTROLLERS, 60) == draw_swarm(7, BROKERS, CONTROLLERS, 60)
    assert draw_swarm(7, BROKERS, CONTROLLERS, 60) != draw_swarm(8, BROKERS, CONTROLLERS, 60)


def test_every_fault_is_over_before_the_load_ends() -> None:
    for seed in range(200):
        assert all(fault.at + fault.duration < 60 for fault in draw_swarm(seed, BROKERS, CONTROLLERS, 60))


def test_every_kind_is_drawn_by_some_seed_and_durations_span_four_decades() -> None:
    faults = [fault for seed in range(200) for fault in draw_swarm(seed, BROKERS, CONTROLLERS, 60)]
    assert {fault.kind for fault in faults} == set(KINDS)
    assert min(fault.duration for fault in faults) < 0.002
    assert max(fault.duration for fault in faults) > 5


def test_seeds_differ_in_which_kinds_they_use_and_how_many() -> None:
    mixes = [frozenset(fault.kind for fault in draw_swarm(seed, BROKERS, CONTROLLERS, 60)) for seed in range(100)]
    assert len(set(mixes)) > 80
    assert min(map(len, mixes)) <= 3 and max(map(len, mixes)) >= 10


@pytest.mark.parametrize("seed", [*range(50), 1805])
def test_every_drawn_fault_can_be_written_as_an_entry_of_a_suite(seed: int) -> None:
    for fault in draw_swarm(seed, BROKERS, CONTROLLERS, 60):
        ENTRY.validate_python({**fault.written(), "at": fault.at, "for": max(0.001, fault.duration)})


def test_what_may_lose_data_is_only_drawn_for_its_own_kind_of_host() -> None:
    for seed in range(200):
        for fault in draw_swarm(seed, BROKERS, CONTROLLERS, 60):
            if fault.kind == "wipe-disk":
                assert fault.hosts[0] in BROKERS, "a voter's disk is never emptied: it could vote twice"


def test_a_cluster_of_one_node_has_no_link_faults() -> None:
    for seed in range(50):
        assert not {fault.kind for fault in draw_swarm(seed, ("b1",), ("b1",), 60)} & {*LINK_KINDS}


# --- what operators do ---------------------------------------------------------------------------------------------

TOPICS = {"events": 2, "wide": 3}
FIVE = ("b1", "b2", "b3", "b4", "b5")


def drawn_with_operations(seed: int) -> list[SwarmFault]:
    return draw_swarm(seed, FIVE, CONTROLLERS, 60, TOPICS)


def test_operations_leave_the_faults_of_a_seed_as_they_are() -> None:
    for seed in range(20):
        faults = [fault for fault in drawn_with_operations(seed) if fault.kind in KINDS]
        assert faults == draw_swarm(seed, FIVE, CONTROLLERS, 60)


def test_every_operation_is_drawn_by_some_seed_and_over_before_the_load_ends() -> None:
    drawn = [fault for seed in range(50) for fault in drawn_with_operations(seed)]
    assert {fault.kind for fault in drawn} == set(KINDS | OPERATIONS)
    assert all(fault.at + fault.duration < 60 for fault in drawn)
    assert [fault.at for fault in drawn_with_operations(3)] == sorted(fault.at for fault in drawn_with_operations(3))


def test_operations_are_written_in_the_words_of_suites() -> None:
    for fault in [one for seed in range(20) for one in drawn_with_operations(seed) if one.kind in OPERATIONS]:
        ENTRY.validate_python({**fault.written(), "at": fault.at, "for": max(0.001, fault.duration)})


def test_no_reassignment_leaves_fewer_replicas_than_acknowledged_records_need() -> None:
    """Kafka takes min ISR to be at most the number of replicas: with fewer of them the promise is a smaller one."""
    for fault in [one for seed in range(50) for one in drawn_with_operations(seed) if one.kind.startswith("reassign")]:
        topic = str(fault.words["target"]).partition("/")[0]
        replicas = fault.words["replicas"]
        assert isinstance(replicas, int) and TOPICS[topic] <= replicas <= len(FIVE)
