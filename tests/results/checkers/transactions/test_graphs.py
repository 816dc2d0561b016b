"""Graphs of transactions against the plainest possible ways to the same answers."""

from __future__ import annotations

import random

import numpy as np

from squall.results.checkers.kernels.operations import NEVER
from squall.results.checkers.transactions import cycles
from squall.results.checkers.transactions.components import Edge, components, neighbours, realtime_edges
from squall.results.checkers.transactions.cycles import find_cycles
from squall.results.checkers.transactions.dependencies import PROCESS, REALTIME, RW, WR, WW, Edges
from squall.results.checkers.transactions.suspects import peeled, suspects

GRAPHS = 400


def random_graph(rng: random.Random) -> tuple[int, list[tuple[int, int]], list[int], list[int]]:
    """Nodes, edges, and an interval for each node; edges mostly lead forward in time."""
    count = rng.randrange(2, 14)
    begun = [rng.randrange(40) for _ in range(count)]
    ended = [NEVER if rng.random() < 0.1 else one + rng.randrange(1, 15) for one in begun]
    edges = []
    for _ in range(rng.randrange(0, 2 * count)):
        first, second = rng.sample(range(count), 2)
        forward = begun[first] <= begun[second] or rng.random() < 0.3
        edges.append((first, second) if forward else (second, first))
    return count, edges, begun, ended


def reachable(count: int, edges: list[tuple[int, int]]) -> list[set[int]]:
    """What each node leads to, in one step or more."""
    reach: list[set[int]] = [set() for _ in range(count)]
    for first, second in edges:
        reach[first].add(second)
    for middle in range(count):
        for node in range(count):
            if middle in reach[node]:
                reach[node] |= reach[middle]
    return reach


def with_real_time(edges: list[tuple[int, int]], begun: list[int], ended: list[int]) -> list[tuple[int, int]]:
    count = len(begun)
    return edges + [(x, y) for x in range(count) for y in range(count) if ended[x] < begun[y]]


def columns(edges: list[tuple[int, int]], kinds: list[int]) -> Edges:
    both = np.array(edges, np.int64).reshape(-1, 2)
    return Edges(both[:, 0], both[:, 1], np.array(kinds, np.int64), np.full(len(both), -1, np.int64))


def test_components_are_the_nodes_that_reach_each_other() -> None:
    for seed in range(GRAPHS):
        count, edges, _, _ = random_graph(random.Random(seed))
        reach = reachable(count, edges)
        expected = {
            frozenset(other for other in range(count) if other in reach[node] and node in reach[other])
            for node in range(count)
        }
        graph = neighbours([Edge(*edge, WW, -1) for edge in edges], frozenset((WW,)), set(range(count)))
        found = {frozenset(one) for one in components(graph)}
        assert found == {one for one in expected if len(one) > 1}, f"seed {seed}"


def test_reduced_real_time_leads_to_the_same_as_all_of_it() -> None:
    for seed in range(GRAPHS):
        count, _, begun, ended = random_graph(random.Random(seed))
        reduced = [(edge.source, edge.target) for edge in realtime_edges(list(range(count)), begun, ended)]
        every = with_real_time([], begun, ended)
        assert reachable(count, reduced) == reachable(count, every), f"seed {seed}"
        for one in reduced:
            rest = [other for other in every if other != one]
            assert one[1] not in reachable(count, rest)[one[0]], f"seed {seed}: {one} follows from others"


def test_real_time_takes_no_more_edges_than_run_at_once() -> None:
    begun = [10 * number for number in range(5000)]
    ended = [one + 35 for one in begun]
    assert len(realtime_edges(list(range(5000)), begun, ended)) <= 5 * 5000


def test_suspects_are_all_that_lie_on_a_cycle_and_late_ones_do() -> None:
    for seed in range(GRAPHS):
        count, edges, begun, ended = random_graph(random.Random(seed))
        reach = reachable(count, with_real_time(edges, begun, ended))
        on_cycle = {node for node in range(count) if node in reach[node]}
        some = suspects(np.array(begun), np.array(ended), columns(edges, [WW] * len(edges)))
        assert on_cycle <= set(some.nodes.tolist()), f"seed {seed}"
        assert set(some.late.tolist()) <= on_cycle, f"seed {seed}"
        block = dict(zip(some.nodes.tolist(), some.block.tolist(), strict=True))
        for node in on_cycle:
            for other in reach[node]:
                if node in reach[other]:
                    assert block[node] == block[other], f"seed {seed}: a cycle crosses blocks"


def test_what_peeling_leaves_lies_between_cycles() -> None:
    for seed in range(GRAPHS):
        count, edges, _, _ = random_graph(random.Random(seed))
        reach = reachable(count, edges)
        on_cycle = {node for node in range(count) if node in reach[node]}
        between = {
            node
            for node in range(count)
            if node in on_cycle or (reach[node] & on_cycle and any(node in reach[one] for one in on_cycle))
        }
        both = columns(edges, [WW] * len(edges))
        assert set(peeled(count, both.source, both.target).tolist()) == between, f"seed {seed}"


def test_a_cycle_that_is_told_is_one_and_no_shorter_one_has_its_name() -> None:
    told = 0
    for seed in range(GRAPHS):
        rng = random.Random(seed)
        count, edges, begun, ended = random_graph(rng)
        kinds = [rng.choice((WW, WR, RW)) for _ in edges]
        found = find_cycles(np.array(begun), np.array(ended), columns(edges, kinds))
        existing = set(zip(edges, kinds, strict=True))
        reach = reachable(count, with_real_time(edges, begun, ended))
        assert bool(found.counts) == any(node in reach[node] for node in range(count)), f"seed {seed}"
        for cycle in found.examples:
            told += 1
            assert len({edge.source for edge in cycle.edges}) == len(cycle.edges), f"seed {seed}: a node twice"
            for edge, following in zip(cycle.edges, (*cycle.edges[1:], cycle.edges[0]), strict=True):
                assert edge.target == following.source, f"seed {seed}: broken"
                if edge.kind == REALTIME:
                    assert ended[edge.source] < begun[edge.target], f"seed {seed}"
                else:
                    assert ((edge.source, edge.target), edge.kind) in existing, f"seed {seed}"
            used = [edge.kind for edge in cycle.edges]
            assert used.count(REALTIME) == cycle.name.endswith("-realtime"), f"seed {seed}: {cycle}"
            assert cycle.name.startswith(cycles.name_of([e for e in cycle.edges if e.kind != REALTIME])), f"seed {seed}"
    assert told > GRAPHS // 4


def test_a_block_too_large_to_search_has_an_example_all_the_same(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(cycles, "NODES", 1)
    edges = columns([(1, 0), (1, 2), (2, 3), (3, 2)], [RW, WW, WR, WR])
    begun, ended = np.array([0, 10, 20, 20]), np.array([5, 15, 30, 30])
    found = find_cycles(begun, ended, edges)
    assert found.counts == {"G-single-realtime": 1, "G1c": 1}
    assert found.partly == 1
    assert found.undecided == []


def by_place(counts: dict[str, int]) -> dict[str, int]:
    """The names but those in real time; one missed write or several is told apart only where there is time."""
    made: dict[str, int] = {}
    for name, count in counts.items():
        if not name.endswith("-realtime"):
            name = name.replace("G-single", "G2")
            made[name] = made.get(name, 0) + count
    return made


def test_what_is_too_large_or_too_late_has_the_same_names_but_for_real_time(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    seen: set[str] = set()
    for seed in range(3 * GRAPHS):
        rng = random.Random(seed)
        _, edges, begun, ended = random_graph(rng)
        kinds = [rng.choice((WW, WR, RW, PROCESS)) for _ in edges]
        graph = np.array(begun), np.array(ended), columns(edges, kinds)
        monkeypatch.setattr(cycles, "NODES", 60_000)
        whole = find_cycles(*graph)
        late = find_cycles(*graph, deadline=-1.0)
        monkeypatch.setattr(cycles, "NODES", 1)
        large = find_cycles(*graph)
        for found in (late, large):
            assert by_place(found.counts) == by_place(whole.counts), f"seed {seed}"
            assert bool(found.counts) == bool(whole.counts) or found.undecided, f"seed {seed}"
        in_real_time = any(name.endswith("-realtime") for name in whole.counts)
        assert not in_real_time or any(name.endswith("-realtime") for name in large.counts), f"seed {seed}"
        assert not large.undecided, f"seed {seed}"
        seen |= set(whole.counts)
    assert len(seen) >= 11, f"{seen}: hardly every name occurred"


def test_a_cycle_in_a_large_block_is_traced_through_several_transactions(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(cycles, "NODES", 1)
    edges = columns([(0, 1), (1, 2)], [WR, RW])
    found = find_cycles(np.array([20, 0, 0]), np.array([25, 40, 5]), edges)
    assert found.counts == {"G-single-realtime": 1}
    assert [(edge.source, edge.target) for edge in found.examples[0].edges] == [(0, 1), (1, 2), (2, 0)]


def test_what_is_certain_is_told_although_no_time_was_left() -> None:
    edges = columns([(1, 0)], [RW])
    found = find_cycles(np.array([0, 10]), np.array([5, 15]), edges, deadline=-1.0)
    assert found.counts == {"G-single-realtime": 1}
