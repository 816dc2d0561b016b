"""Grudges are pure: who is deaf to whom, for any cluster."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from squall.nemesis.core import grudge
from squall.nemesis.core.grudge import Grudge, pairs_of

NODES = st.integers(2, 11).map(lambda count: [f"n{number}" for number in range(1, count + 1)])
SEEDS = st.integers(0, 2**32)


def hears(cut: Grudge, nodes: list[str], listener: str) -> frozenset[str]:
    return frozenset(nodes) - frozenset(cut.get(listener, ()))


def mutual(cut: Grudge) -> bool:
    pairs = set(pairs_of(cut))
    return all((source, listener) in pairs for listener, source in pairs)


def test_an_isolated_node_hears_nobody_and_nobody_hears_it() -> None:
    assert grudge.isolated(["b"], ["a", "b", "c"]) == {"a": ("b",), "b": ("a", "c"), "c": ("b",)}


def test_several_isolated_nodes_do_not_hear_each_other_either() -> None:
    cut = grudge.isolated(["a", "b"], ["a", "b", "c", "d"])
    assert cut["a"] == ("b", "c", "d") and cut["c"] == ("a", "b")


def test_a_deaf_node_is_still_heard() -> None:
    assert grudge.deaf(["a"], ["a", "b", "c"]) == {"a": ("b", "c")}


def test_a_mute_node_still_hears() -> None:
    assert grudge.mute(["a"], ["a", "b", "c"]) == {"b": ("a",), "c": ("a",)}


@given(NODES, SEEDS)
def test_halves_differ_by_one_at_most_and_hear_only_themselves(nodes: list[str], seed: int) -> None:
    cut = grudge.halves(nodes, random.Random(seed))
    sides = {hears(cut, nodes, node) for node in nodes}
    assert len(sides) == 2 and mutual(cut)
    sizes = sorted(len(side) for side in sides)
    assert sum(sizes) == len(nodes) and sizes[1] - sizes[0] <= 1


@given(NODES.filter(lambda nodes: len(nodes) >= 3), SEEDS)
def test_across_a_bridge_only_one_node_hears_all(nodes: list[str], seed: int) -> None:
    cut = grudge.bridge(nodes, random.Random(seed))
    assert mutual(cut)
    assert [len(hears(cut, nodes, node)) for node in nodes].count(len(nodes)) == 1


@given(NODES.filter(lambda nodes: len(nodes) >= 3), SEEDS)
def test_on_a_majorities_ring_all_hear_a_majority_and_no_two_the_same(nodes: list[str], seed: int) -> None:
    cut = grudge.majorities_ring(nodes, random.Random(seed))
    heard = [hears(cut, nodes, node) for node in nodes]
    assert mutual(cut)
    assert all(2 * len(sources) > len(nodes) for sources in heard)
    assert len(set(heard)) == len(nodes)


@given(NODES, SEEDS)
def test_the_same_seed_gives_the_same_grudge(nodes: list[str], seed: int) -> None:
    for make in (grudge.halves, grudge.bridge, grudge.majorities_ring):
        assert make(nodes, random.Random(seed)) == make(list(reversed(nodes)), random.Random(seed))


@given(NODES, SEEDS)
def test_thirds_differ_by_one_at_most_and_none_is_a_majority(nodes: list[str], seed: int) -> None:
    cut = grudge.thirds(nodes, random.Random(seed))
    sides = {hears(cut, nodes, node) for node in nodes}
    assert len(sides) == min(3, len(nodes)) and sum(map(len, sides)) == len(nodes)
    assert max(map(len, sides)) - min(map(len, sides)) <= 1 and mutual(cut)
    assert len(nodes) < 3 or max(map(len, sides)) <= len(nodes) / 2
