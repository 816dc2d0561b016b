"""Brokers that lead one after the other: alone, for how long, and that the others return; or by successions."""

from __future__ import annotations

from itertools import combinations, groupby, pairwise

import pytest

from squall.harness.simulation.swarm.brokers_in_turn import (
    SESSIONS,
    SHARE_OF_LOAD,
    STOP,
    STOPS,
    draw_brokers_in_turn,
    draw_successions,
)
from squall.harness.simulation.swarm.drawn_fault import SwarmFault

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


# --- Successions -------------------------------------------------------------------------------------------------

LAG = 2.0
SUCCEEDING = {seed: drawn for seed in range(300) if (drawn := draw_successions(seed, BROKERS, CONTROLLERS, LOAD, LAG))}


def successions(drawn: list[SwarmFault]) -> list[list[SwarmFault]]:
    """Three cuts and two stops each."""
    assert len(drawn) % 5 == 0
    return [drawn[at : at + 5] for at in range(0, len(drawn), 5)]


def test_a_share_of_the_seeds_has_successions_and_draws_the_same_again() -> None:
    assert 60 < len(SUCCEEDING) < 120
    assert {seed: draw_successions(seed, BROKERS, CONTROLLERS, LOAD, LAG) for seed in SUCCEEDING} == SUCCEEDING
    assert max(fault.latest_end for drawn in SUCCEEDING.values() for fault in drawn) < LOAD


def test_the_second_leader_is_cut_off_before_the_first_one_stops_and_stops_while_nobody_reaches_another() -> None:
    for drawn in SUCCEEDING.values():
        for *cuts, first, second in successions(drawn):
            assert [fault.kind for fault in (first, second)] == [STOP, STOP] and first.at < second.at
            assert {frozenset(cut.hosts) for cut in cuts} == {
                frozenset(pair) for pair in combinations({host for cut in cuts for host in cut.hosts}, 2)
            }
            assert min(cut.at for cut in cuts if second.hosts[0] in cut.hosts) < first.at
            assert all(cut.at <= first.at + 1e-5 and second.at < cut.latest_end for cut in cuts)


def test_a_succession_is_over_before_a_follower_is_too_far_behind() -> None:
    for drawn in SUCCEEDING.values():
        for one in successions(drawn):
            assert max(fault.latest_end for fault in one) - min(fault.at for fault in one) < LAG


@pytest.mark.parametrize(
    ("brokers", "controllers"),
    [(("b1", "b2"), ("c1",)), (("b1", "b2", "b3"), ("b1", "b2", "b3"))],
    ids=["two", "combined"],
)
def test_two_brokers_and_those_that_are_controllers_have_no_successions(
    brokers: tuple[str, ...], controllers: tuple[str, ...]
) -> None:
    assert not any(draw_successions(seed, brokers, controllers, LOAD, LAG) for seed in range(50))
