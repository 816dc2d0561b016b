"""A broker that is far from the others: which links are slow, how slow, and for how long."""

from __future__ import annotations

from squall.harness.simulation.swarm.situations.distant import LATENCY_SECONDS, draw_distant

BROKERS = ("b1", "b2", "b3")
LOAD = 8.0
DRAWN = {seed: draw_distant(seed, BROKERS, LOAD) for seed in range(300)}


def test_a_seed_draws_the_same_again_and_most_draw_nothing() -> None:
    assert {seed: draw_distant(seed, BROKERS, LOAD) for seed in DRAWN} == DRAWN
    assert 25 < sum(bool(drawn) for drawn in DRAWN.values()) < 70


def test_all_links_of_one_broker_are_equally_slow_for_most_of_the_load() -> None:
    for drawn in filter(None, DRAWN.values()):
        [host] = {fault.hosts[0] for fault in drawn}
        assert {fault.hosts[1] for fault in drawn} == set(BROKERS) - {host}
        [latency] = {fault.words["latency"] for fault in drawn}
        assert isinstance(latency, float) and LATENCY_SECONDS[0] <= latency <= LATENCY_SECONDS[1]
        assert all(fault.duration > 0.7 * LOAD and fault.latest_end < LOAD for fault in drawn)


def test_every_broker_may_be_the_distant_one() -> None:
    assert {fault.hosts[0] for drawn in DRAWN.values() for fault in drawn} == set(BROKERS)


def test_a_broker_alone_is_far_from_nobody() -> None:
    assert not any(draw_distant(seed, ("b1",), LOAD) for seed in range(50))
