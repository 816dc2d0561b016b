"""What a swarm draws: the same for the same seed, over before the load ends, different between seeds."""

from __future__ import annotations

from squall.harness.simulation.swarm import KINDS, draw_swarm

BROKERS = ("b1", "b2", "b3")
CONTROLLERS = ("c1", "c2", "c3")


def test_a_seed_draws_the_same_faults_again() -> None:
    assert draw_swarm(7, BROKERS, CONTROLLERS, 60) == draw_swarm(7, BROKERS, CONTROLLERS, 60)
    assert draw_swarm(7, BROKERS, CONTROLLERS, 60) != draw_swarm(8, BROKERS, CONTROLLERS, 60)


def test_every_fault_is_over_before_the_load_ends() -> None:
    for seed in range(50):
        assert all(fault.at + fault.duration < 60 for fault in draw_swarm(seed, BROKERS, CONTROLLERS, 60))


def test_every_kind_is_drawn_by_some_seed_and_durations_span_four_decades() -> None:
    faults = [fault for seed in range(100) for fault in draw_swarm(seed, BROKERS, CONTROLLERS, 60)]
    assert {fault.kind for fault in faults} == set(KINDS)
    assert min(fault.duration for fault in faults) < 0.002
    assert max(fault.duration for fault in faults) > 5
