"""Partitions into two groups: which links are cut together, and when they are whole again."""

from __future__ import annotations

from itertools import groupby

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.situations.splits import CUT_LINK, draw_splits

BROKERS, CONTROLLERS = ("b1", "b2", "b3"), ("c1", "c2", "c3", "c4", "c5")
LOAD = 8.0
DRAWN = {seed: draw_splits(seed, BROKERS, CONTROLLERS, LOAD) for seed in range(200)}


def partitions(drawn: list[SwarmFault]) -> list[list[SwarmFault]]:
    return [list(links) for _, links in groupby(drawn, key=lambda fault: (fault.at, fault.duration))]


def test_a_seed_draws_the_same_again_and_most_draw_nothing() -> None:
    assert {seed: draw_splits(seed, BROKERS, CONTROLLERS, LOAD) for seed in DRAWN} == DRAWN
    assert 110 < sum(not drawn for drawn in DRAWN.values()) < 170


def test_a_partition_cuts_every_link_between_two_groups_of_one_role() -> None:
    sizes = set()
    for links in (links for drawn in DRAWN.values() for links in partitions(drawn)):
        some, others = {fault.hosts[0] for fault in links}, {fault.hosts[1] for fault in links}
        assert some | others in ({*BROKERS}, {*CONTROLLERS})
        assert sorted(fault.hosts for fault in links) == sorted((one, other) for one in some for other in others)
        assert {fault.kind for fault in links} == {CUT_LINK}
        sizes.add((len(some), len(others)))
    assert sizes == {(1, 2), (1, 4), (2, 3)}


def test_all_is_over_before_the_load_ends() -> None:
    faults = [fault for drawn in DRAWN.values() for fault in drawn]
    assert max(fault.latest_end for fault in faults) < LOAD
    assert min(fault.duration for fault in faults) > 0


def test_a_node_of_each_role_alone_cannot_be_split() -> None:
    assert not any(draw_splits(seed, ("b1",), ("c1",), LOAD) for seed in range(50))
