"""Nodes that go on by knowledge that the others have replaced (QC-18, EL-03, MD-09)."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import OPERATIONS, SWITCHES, UNITS
from squall.harness.simulation.swarm.situations.outdated import draw_outdated
from squall.nemesis.entries import NemesisEntry

BROKERS = ("b1", "b2", "b3")
CONTROLLERS = ("c1", "c2", "c3")
TOPICS = {"events": 1}
LOAD = 24.0
DRAWN = {seed: draw_outdated(seed, BROKERS, CONTROLLERS, LOAD, TOPICS, switched=True) for seed in range(300)}


def during(fault: SwarmFault, drawn: list[SwarmFault]) -> list[SwarmFault]:
    return [one for one in drawn if one is not fault and fault.at <= one.at <= fault.at + fault.duration]


def test_a_seed_draws_the_same_again_and_most_draw_nothing() -> None:
    again = {seed: draw_outdated(seed, BROKERS, CONTROLLERS, LOAD, TOPICS, switched=True) for seed in DRAWN}
    assert again == DRAWN
    assert 100 < sum(not drawn for drawn in DRAWN.values()) < 250


def test_every_part_is_over_before_the_load_ends_and_in_order() -> None:
    assert all(fault.latest_end < LOAD for drawn in DRAWN.values() for fault in drawn)
    assert all(drawn == sorted(drawn, key=lambda fault: fault.at) for drawn in DRAWN.values())
    assert {fault.kind for drawn in DRAWN.values() for fault in drawn} <= set(UNITS)


def test_a_late_leader_stands_still_while_what_its_peers_say_is_late() -> None:
    late = [(fault, drawn) for drawn in DRAWN.values() for fault in drawn if fault.kind == "slow-link"]
    assert len(late) > 100
    for fault, _ in late:
        assert fault.words["direction"] == "in" and fault.hosts[0] not in str(fault.words["to"])
    still = [
        fault
        for fault, drawn in late
        if any(
            one.hosts == fault.hosts[:1] and one.kind in ("pause-controller", "isolate-controller")
            for one in during(fault, drawn)
        )
    ]
    assert len(still) > 0.9 * len(late)


def test_an_unaware_leader_gets_no_metadata_while_operators_change_things_and_followers_stop() -> None:
    unaware = [(fault, drawn) for drawn in DRAWN.values() for fault in drawn if fault.kind == "rpc-hold"]
    assert len(unaware) > 100
    changes = [[one for one in during(fault, drawn) if one.kind in OPERATIONS] for fault, drawn in unaware]
    stops = [
        [one for one in during(fault, drawn) if one.kind.endswith("-broker") and one.hosts != fault.hosts]
        for fault, drawn in unaware
    ]
    assert sum(map(bool, changes)) > 0.8 * len(unaware)
    assert sum(map(bool, stops)) > 0.8 * len(unaware)


def test_features_are_on_again_while_an_unaware_leader_does_not_hear_of_it() -> None:
    on_again = [
        switch
        for drawn in DRAWN.values()
        for fault in drawn
        if fault.kind == "rpc-hold"
        for switch in drawn
        if switch.kind in SWITCHES and fault.at < switch.at + switch.duration < fault.at + fault.duration
    ]
    assert len(on_again) > 30


@pytest.mark.parametrize("switched", [False, True])
def test_without_operators_nobody_is_unaware_and_without_switches_no_feature_moves(switched: bool) -> None:
    kinds = {
        fault.kind
        for seed in range(100)
        for fault in draw_outdated(seed, BROKERS, CONTROLLERS, LOAD, {}, switched=switched)
    }
    assert kinds == {"slow-link", "pause-controller", "isolate-controller"}
    kinds = {fault.kind for seed in range(100) for fault in draw_outdated(seed, BROKERS, CONTROLLERS, LOAD, TOPICS)}
    assert "rpc-hold" in kinds and not kinds & {*SWITCHES}


def test_a_cluster_of_one_node_has_none() -> None:
    assert not any(draw_outdated(seed, ("b1",), ("c1",), LOAD, TOPICS, switched=True) for seed in range(50))


@pytest.mark.parametrize("seed", range(0, 300, 10))
def test_every_part_can_be_written_as_an_entry_of_a_suite(seed: int) -> None:
    entry: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
    for fault in DRAWN[seed]:
        entry.validate_python({**fault.written(), "at": fault.at, "for": max(0.001, fault.duration)})
