"""Brokers that lead one after the other: alone, for how long, and that the others return."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.situations.brokers_in_turn import (
    SESSIONS,
    SHARE_OF_LOAD,
    STOPS,
    draw_brokers_in_turn,
)

BROKERS, CONTROLLERS = ("b1", "b2", "b3", "b4"), ("c1", "c2", "c3")
LOAD, SESSION = 24.0, 2.0
DRAWN = {seed: draw_brokers_in_turn(seed, BROKERS, CONTROLLERS, LOAD, SESSION) for seed in range(300)}
IN_TURN = {seed: drawn for seed, drawn in DRAWN.items() if drawn}


def periods(drawn: list[SwarmFault]) -> list[list[SwarmFault]]:
    return [list(stops) for _, stops in groupby(drawn, key=lambda fault: fault.at)]


def alone(stops: list[SwarmFault]) -> str:
    (host,) = {*BROKERS} - {fault.hosts[0] for fault in stops}
    return host


def test_a_seed_draws_the_same_again_and_most_draw_nothing() -> None:
    again = {seed: draw_brokers_in_turn(seed, BROKERS, CONTROLLERS, LOAD, SESSION) for seed in DRAWN}
    assert again == DRAWN
    assert 25 < len(IN_TURN) < 70


def test_one_broker_is_up_in_each_period_and_another_one_in_the_next() -> None:
    for drawn in IN_TURN.values():
        assert all(one != other for one, other in pairwise(alone(stops) for stops in periods(drawn)))
    assert {len({alone(stops) for stops in periods(drawn)}) for drawn in IN_TURN.values()} >= {2, 3}
    assert {fault.kind for drawn in IN_TURN.values() for fault in drawn} == {*STOPS}


def test_a_period_lasts_about_a_session_and_the_others_return_as_it_ends() -> None:
    for drawn in IN_TURN.values():
        for stops, following in pairwise(periods(drawn)):
            length = following[0].at - stops[0].at
            assert SESSIONS[0] * SESSION <= length + 1e-5 <= SESSIONS[1] * SESSION + 2e-5
            assert all(length - 1e-5 <= fault.duration <= length + 0.31 for fault in stops)


def test_the_periods_leave_a_part_of_the_load_alone() -> None:
    for drawn in IN_TURN.values():
        assert max(fault.latest_end for fault in drawn) < 2.0 + SHARE_OF_LOAD * LOAD
        assert min(fault.at for fault in drawn) >= 0.5


@pytest.mark.parametrize(
    ("brokers", "controllers"), [(("b1",), ("c1",)), (("b1", "b2", "b3"), ("b1", "b2", "b3"))], ids=["one", "combined"]
)
def test_without_others_and_without_controllers_of_their_own_brokers_are_all_up(
    brokers: tuple[str, ...], controllers: tuple[str, ...]
) -> None:
    assert not any(draw_brokers_in_turn(seed, brokers, controllers, LOAD, SESSION) for seed in range(50))
