"""Faults in patterns: bursts, combinations, and faults that strike at a traced event (N16, HX-08)."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import KINDS, LINK_KINDS, MOMENT_KINDS, REMOVE_VOTER
from squall.harness.simulation.swarm.situations.lost_messages import FORWARDED
from squall.harness.simulation.swarm.situations.patterns import (
    BROKER_MOMENTS,
    COMBINATIONS,
    CONTROLLER_MOMENTS,
    RARE_MOMENTS,
    draw_patterns,
)
from squall.nemesis.entries import NemesisEntry

BROKERS = ("b1", "b2", "b3")
CONTROLLERS = ("c1", "c2", "c3")
LOAD = 24.0
NODES = Path(__file__).resolve().parents[5] / "nodes"
DRAWN = {seed: draw_patterns(seed, BROKERS, CONTROLLERS, LOAD) for seed in range(300)}


def test_a_seed_draws_the_same_patterns_again() -> None:
    assert all(draw_patterns(seed, BROKERS, CONTROLLERS, LOAD) == drawn for seed, drawn in DRAWN.items())
    assert DRAWN[1] != DRAWN[2]


def test_every_part_is_over_before_the_load_ends() -> None:
    assert all(fault.latest_end < LOAD for drawn in DRAWN.values() for fault in drawn)


def test_some_seeds_have_no_pattern_and_some_have_all() -> None:
    aimed = [sum(fault.moment is not None for fault in drawn) for drawn in DRAWN.values()]
    assert any(not drawn for drawn in DRAWN.values())
    assert min(aimed) == 0 and max(aimed) > 5


def test_bursts_put_several_faults_into_half_a_second() -> None:
    closest = [
        min((later.at - one.at for one, later in pairwise(drawn)), default=LOAD) for drawn in DRAWN.values() if drawn
    ]
    assert sum(gap < 0.1 for gap in closest) > 100


def test_a_stale_node_gets_no_metadata_while_others_stop() -> None:
    held = [
        (fault, [one for one in drawn if fault.at < one.at < fault.at + fault.duration and one.hosts != fault.hosts])
        for drawn in DRAWN.values()
        for fault in drawn
        if (fault.words.get("api"), fault.words.get("from")) == ("Fetch", fault.hosts[0]) and fault.duration > 1.5
    ]
    assert len(held) > 50
    assert sum(bool(beside) for _, beside in held) > 40


def test_controllers_do_not_hear_one_another_s_fetches_and_where_they_can_voters_change_then() -> None:
    everyone = ", ".join(CONTROLLERS)
    for changed in (False, True):
        drawn = [draw_patterns(seed, BROKERS, CONTROLLERS, LOAD, dynamic_voters=changed) for seed in range(100)]
        held = [
            sum(fault.words.get("from") == fault.words.get("to") == everyone for fault in faults) for faults in drawn
        ]
        removed = [sum(fault.kind == REMOVE_VOTER for fault in faults) for faults in drawn]
        assert 15 < sum(map(bool, held)) < 50 and max(held) > 2
        assert sum(map(bool, removed)) > 10 if changed else not any(removed)
        assert all(fault.latest_end < LOAD for faults in drawn for fault in faults)


def about(drawn: list[SwarmFault], *apis: str) -> list[SwarmFault]:
    return [fault for fault in drawn if fault.words.get("api") in apis]


def test_leaders_do_not_learn_how_their_changes_of_the_isr_ended_while_others_stop() -> None:
    lost = held = deaf = 0
    for drawn in DRAWN.values():
        for fault in about(drawn, "AlterPartition"):
            lost += (fault.kind, fault.words.get("direction")) == ("rpc-cut", "response")
            held += fault.kind == "rpc-hold"
            deaf += any(
                one.hosts == fault.hosts and one.at <= fault.at < one.at + one.duration for one in about(drawn, "Fetch")
            )
    assert min(lost, held, deaf) > 100


def test_answers_to_what_brokers_forward_are_lost() -> None:
    written = [one for drawn in DRAWN.values() for one in about(drawn, *FORWARDED)]
    assert {one.words["api"] for one in written} == set(FORWARDED)
    assert {(one.kind, one.words["direction"], one.hosts) for one in written} == {("rpc-cut", "response", BROKERS)}


def test_combined_nodes_forward_nothing_over_the_network() -> None:
    assert not [one for seed in range(50) for one in about(draw_patterns(seed, BROKERS, BROKERS, LOAD), *FORWARDED)]


def test_every_kind_of_every_combination_exists() -> None:
    assert {kind for combination in COMBINATIONS for kind in combination} <= set(KINDS)


def test_every_aimed_kind_and_every_moment_is_drawn_by_some_seed() -> None:
    aimed = [fault for drawn in DRAWN.values() for fault in drawn if fault.moment is not None and not fault.words]
    assert {fault.kind for fault in aimed} == set(MOMENT_KINDS)
    assert {fault.moment.event for fault in aimed if fault.moment} == {
        *BROKER_MOMENTS, *CONTROLLER_MOMENTS, *RARE_MOMENTS
    }  # fmt: skip


def test_for_rare_events_a_fault_waits_on_every_node_from_the_start_of_the_load_to_its_end() -> None:
    aimed = [one for drawn in DRAWN.values() for one in drawn if one.moment and not one.words]
    waiting = [one for one in aimed if one.moment and one.moment.within > 6.0]
    assert {one.moment.event for one in waiting if one.moment} == set(RARE_MOMENTS)
    assert {one.hosts for one in waiting} == {BROKERS + CONTROLLERS}
    assert all(one.at <= 1.0 and LOAD - 2.0 < one.latest_end < LOAD - 1.0 for one in waiting)
    crashes = [one for one in waiting if one.kind in ("crash-at-moment", "power-loss-at-moment")]
    assert 0.5 < len(crashes) / len(waiting) < 0.9


@pytest.mark.parametrize("timeout", [0.5, 2.0])
def test_downloads_of_snapshots_come_late_from_their_beginning(timeout: float) -> None:
    """The next piece by more than a voter waits for its leader, or each by less (SN-05)."""
    halted = [
        one
        for seed in range(100)
        for one in draw_patterns(seed, BROKERS, CONTROLLERS, LOAD, fetch_timeout=timeout)
        if one.moment and one.words
    ]
    assert {one.hosts for one in halted} == {(host,) for host in (*BROKERS, *CONTROLLERS)}
    assert {one.moment.event for one in halted if one.moment} == {"snapshot_fetch"}
    assert all(one.kind == "slow-link" and one.words["target"] == one.hosts[0] for one in halted)
    assert not any(one.hosts[0] in str(one.words["to"]).split(", ") for one in halted)
    latencies: dict[bool, list[float]] = {True: [], False: []}
    for one in halted:
        latencies[one.duration > 1.0].append(float(str(one.words["latency"])))
    assert max(latencies[True]) < timeout <= min(latencies[False])


def test_every_moment_is_an_event_that_nodes_trace() -> None:
    sources = "\n".join(path.read_text() for path in NODES.rglob("*.py"))
    traced = set(re.findall(r'event\(\s*(?:"(\w+)" if \w+ else )?"(\w+)"', sources))
    names = {name for pair in traced for name in pair}
    assert {*BROKER_MOMENTS, *CONTROLLER_MOMENTS, *RARE_MOMENTS} <= names


@pytest.mark.parametrize("seed", range(0, 300, 10))
def test_every_part_can_be_written_as_an_entry_of_a_suite(seed: int) -> None:
    entry: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
    for fault in DRAWN[seed]:
        entry.validate_python({**fault.written(), "at": fault.at, "for": max(0.001, fault.duration)})


def test_one_node_gets_no_link_faults() -> None:
    kinds = {fault.kind for seed in range(100) for fault in draw_patterns(seed, ("b1",), ("b1",), LOAD)}
    assert kinds and not kinds & {*LINK_KINDS}
