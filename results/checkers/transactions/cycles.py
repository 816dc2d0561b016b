"""Find the cycles among suspects and name them, each with a shortest example.

A strongly connected group of transactions gets one name, that of the least which closes a cycle in it: first
dependencies alone (G0 writes, G1c with reads, G-single with exactly one write missed, G2 with several), then with the
order within processes, then with real time. A group that contains one already named is explained by it.

A weaker model allows all names from some place of this list on, so that what it allows never hides what it forbids.

A cycle through several steps of real time can always be cut down to one: of a → b and c → d on it, either a had ended
before d began, or c before b. So the example of a `-realtime` name is a shortest path along dependencies from some
transaction to one that had ended before it began.

A piece that is too large, or begun too late, to search in full is searched in linear time: the groups that dependencies
and the order within processes close are found regardless of their size, and of real time an example if one transaction
is late.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from squall.results.checkers.kernels.operations import Ints
from squall.results.checkers.transactions.components import (
    Edge,
    Neighbours,
    components,
    neighbours,
    realtime_edges,
    shortest_path,
)
from squall.results.checkers.transactions.dependencies import PROCESS, REALTIME, RW, WR, WW, Edges
from squall.results.checkers.transactions.suspects import Suspects, peeled, suspects

NODES: Final = 60_000
"""The number of suspects of one block that are searched in full."""
STARTS: Final = 256
"""The number of places from which a shortest cycle of a group is searched."""
EXAMPLES: Final = 8
_BASES: Final = (("G0", (WW,), WW), ("G1c", (WW, WR), WR), ("G2", (WW, WR, RW), RW))
_ORDERS: Final = (("", ()), ("-process", (PROCESS,)), ("-realtime", (PROCESS, REALTIME)))


@dataclass(frozen=True)
class Cycle:
    """A cycle of transactions: each edge leads to the next one's source. `group` is the size of the whole group."""

    name: str
    edges: tuple[Edge, ...]
    group: int


@dataclass
class Cycles:
    """The number of groups of each name, and an example of the first few. `undecided` says what was not searched."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: list[Cycle] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    partly: int = 0  # pieces whose real time was not searched in full: one example stands for all

    def add(self, cycle: Cycle) -> None:
        self.counts[cycle.name] = self.counts.get(cycle.name, 0) + 1
        if self.counts[cycle.name] <= EXAMPLES:
            self.examples.append(cycle)


def find_cycles(invoked: Ints, completed: Ints, edges: Edges, deadline: float = float("inf")) -> Cycles:
    """Find all groups of transactions that depend on each other in a cycle.

    After the deadline (of `time.monotonic`) no step is begun that takes more than linear time.
    """
    found = Cycles()
    implied = (edges.kind == PROCESS) & (completed[edges.source] < invoked[edges.target])
    some = suspects(invoked, completed, edges.select(~implied), deadline)
    if not some.settled:
        _without_real_time(np.arange(len(invoked)), edges, found, deadline)
        if len(some.late) == 0:
            found.undecided.append("the time was up before the order of the transactions was settled")
        _only_an_example(some, invoked, completed, edges, found)
        return found
    bounds = np.flatnonzero(np.diff(some.block, prepend=-1, append=-1))
    pieces = [some.nodes[start:stop] for start, stop in pairwise(bounds.tolist())]
    local = _edges_by_piece(pieces, len(invoked), edges)
    for nodes, inner in zip(pieces, local, strict=True):
        if len(nodes) > NODES or time.monotonic() > deadline:
            _large(nodes, some, invoked, completed, inner, found, deadline)
        else:
            _search(nodes, inner, invoked, completed, found)
    return found


def _edges_by_piece(pieces: list[Ints], count: int, edges: Edges) -> list[Edges]:
    """Return the edges within each piece."""
    piece_of = np.full(count, -1, np.int64)
    for number, nodes in enumerate(pieces):
        piece_of[nodes] = number
    of = piece_of[edges.source]
    inner = np.flatnonzero((of >= 0) & (of == piece_of[edges.target]))
    inner = inner[np.argsort(of[inner], kind="stable")]
    bounds = np.searchsorted(of[inner], np.arange(len(pieces) + 1))
    return [edges.select(inner[bounds[at] : bounds[at + 1]]) for at in range(len(pieces))]


def _search(nodes: Ints, inner: Edges, invoked: Ints, completed: Ints, found: Cycles) -> None:
    """Find all names of a piece that is small enough to examine every edge of it."""
    listed = [
        Edge(*one)
        for one in zip(
            inner.source.tolist(), inner.target.tolist(), inner.kind.tolist(), inner.append.tolist(), strict=True
        )
    ]
    names = nodes.tolist()
    begun = dict(zip(names, invoked[nodes].tolist(), strict=True))
    ended = dict(zip(names, completed[nodes].tolist(), strict=True))
    listed += realtime_edges(names, list(begun.values()), list(ended.values()))
    every = frozenset((WW, WR, RW, PROCESS, REALTIME))
    for group in components(neighbours(listed, every, set(names))):
        members = set(group)
        own = [edge for edge in listed if edge.source in members and edge.target in members]
        for cycle in _Group(members, own, begun, ended).named():
            found.add(cycle)


class _Group:
    """One strongly connected group of transactions, to be named.

    `briefly`: in linear time, so that its examples need not be the shortest, and one with a single missed write may be
    named as one with several.
    """

    def __init__(
        self,
        members: set[int],
        edges: list[Edge],
        begun: dict[int, int],
        ended: dict[int, int],
        *,
        briefly: bool = False,
    ) -> None:
        self.members, self.edges, self.begun, self.ended = members, edges, begun, ended
        self.briefly = briefly
        self.out: dict[int, list[Edge]] = {node: [] for node in members}
        for edge in edges:
            self.out[edge.source].append(edge)

    def named(self, levels: Sequence[tuple[str, tuple[int, ...]]] = _ORDERS) -> list[Cycle]:
        explained: set[int] = set()
        cycles = []
        for suffix, orders in levels:
            for base, dependencies, needed in _BASES:
                kinds = frozenset((*dependencies, *orders))
                for group in components(neighbours(self.edges, kinds, self.members)):
                    among = set(group)
                    if explained & among:
                        continue
                    explained |= among
                    cycles.append(self._cycle(base, suffix, kinds, needed, among))
        return cycles

    def _cycle(self, base: str, suffix: str, kinds: frozenset[int], needed: int, among: set[int]) -> Cycle:
        """A shortest cycle of a group that no lesser name explains."""
        if base == "G2" and not self.briefly:
            single = self._shortest(suffix, kinds, needed, among, single=True)
            if single is not None:
                return Cycle(f"G-single{suffix}", tuple(single), len(among))
        cycle = self._shortest(suffix, kinds, needed, among, single=False)
        assert cycle is not None, "a strongly connected group has a cycle"
        name = name_of(cycle) if self.briefly else base
        return Cycle(f"{name}{suffix}", tuple(cycle), len(among))

    def _shortest(
        self, suffix: str, kinds: frozenset[int], needed: int, among: set[int], *, single: bool
    ) -> list[Edge] | None:
        graph = self._among(kinds - {REALTIME}, among)
        if single and not self._one_missed_is_enough(kinds, among):
            return None
        if suffix == "-realtime":
            return self._through_real_time(graph, among, single=single)
        closing = PROCESS if suffix == "-process" else needed
        return _shortest_through(graph, closing, single=single, starts=1 if self.briefly else STARTS)

    def _among(self, kinds: frozenset[int], among: set[int]) -> Neighbours:
        """The edges of some kinds between some members."""
        return neighbours([edge for node in among for edge in self.out[node]], kinds, among)

    def _one_missed_is_enough(self, kinds: frozenset[int], among: set[int]) -> bool:
        """Whether some rw edge is closed to a cycle by others.

        Without rw edges the group has no cycle, or it would have had a lesser name. So the nodes that each transaction
        reaches are found in one pass, as bits of one number.
        """
        graph = self._among(kinds - {RW}, among)
        bit = {node: 1 << place for place, node in enumerate(sorted(among))}
        reach: dict[int, int] = {}
        for node in _successors_first(graph):
            reach[node] = bit[node]
            for edge in graph[node]:
                reach[node] |= reach[edge.target]
        missed = (edge for node in among for edge in self.out[node] if edge.kind == RW and edge.target in among)
        return any(reach[edge.target] & bit[edge.source] for edge in missed)

    def _through_real_time(self, graph: Neighbours, among: set[int], *, single: bool) -> list[Edge] | None:
        """The shortest path from some transaction to one that had ended before it began, and back through real time."""
        best: list[Edge] | None = None
        by_end = sorted(among, key=self.ended.__getitem__)
        for tried, start in enumerate(sorted(among, key=self.begun.__getitem__, reverse=True), 1):
            goals = {node for node in by_end if self.ended[node] < self.begun[start]}
            way = shortest_path(graph, start, goals, missed=single) if goals else None
            if way and (best is None or len(way) < len(best)):
                best = way
            if best is not None and (tried >= STARTS or len(best) == 1):
                break
        return None if best is None else [*best, Edge(best[-1].target, best[0].source, REALTIME, -1)]


def _successors_first(graph: Neighbours) -> list[int]:
    """Return the nodes of a graph without cycles, each after all that it leads to."""
    order: list[int] = []
    seen: set[int] = set()
    for root in graph:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(graph[root]))]
        while path:
            node, following = path[-1]
            edge = next(following, None)
            if edge is None:
                order.append(node)
                path.pop()
            elif edge.target not in seen:
                seen.add(edge.target)
                path.append((edge.target, iter(graph[edge.target])))
    return order


def _shortest_through(graph: Neighbours, closing: int, *, single: bool, starts: int) -> list[Edge] | None:
    """The shortest cycle through an edge of some kind; with `single`, with exactly one rw edge in all."""
    best: list[Edge] | None = None
    closings = (edge for out in graph.values() for edge in out if edge.kind == closing)
    for tried, edge in enumerate(closings, 1):
        missed = single and edge.kind != RW
        around = graph if not (single and edge.kind == RW) else _without_missed(graph)
        way = shortest_path(around, edge.target, {edge.source}, missed=missed)
        if way is not None and (best is None or len(way) + 1 < len(best)):
            best = [edge, *way]
        if best is not None and (tried >= starts or len(best) == 2):
            break
    return best


def _without_missed(graph: Neighbours) -> Neighbours:
    return {node: [edge for edge in out if edge.kind != RW] for node, out in graph.items()}


# What is too large to search in full ----------------------------------------------------------------------------------


def _large(
    nodes: Ints, some: Suspects, invoked: Ints, completed: Ints, edges: Edges, found: Cycles, deadline: float
) -> None:
    """Search a block with more suspects than there is time for; real time only if one of them is late.

    Without a late one, no cycle goes through real time.
    """
    _without_real_time(nodes, edges, found, deadline)
    late = np.intersect1d(some.late, nodes)
    if len(late):
        _only_an_example(Suspects(nodes, nodes, late, some.effect, True), invoked, completed, edges, found)


def _without_real_time(nodes: Ints, edges: Edges, found: Cycles, deadline: float) -> None:
    """Find all names but those in real time, in time linear in the edges between these nodes."""
    place = np.sort(nodes)
    source, target = np.searchsorted(place, edges.source), np.searchsorted(place, edges.target)
    left = peeled(len(place), source, target)
    keep = np.zeros(len(place), np.bool_)
    keep[left] = True
    inner = edges.select(keep[source] & keep[target])
    columns = (inner.source, inner.target, inner.kind, inner.append)
    listed = [Edge(*one) for one in zip(*(column.tolist() for column in columns), strict=True)]
    groups = components(neighbours(listed, frozenset((WW, WR, RW, PROCESS)), set(place[left].tolist())))
    group_of = {node: number for number, group in enumerate(groups) for node in group}
    own: list[list[Edge]] = [[] for _ in groups]
    for edge in listed:
        number = group_of.get(edge.source, -1)
        if number >= 0 and group_of.get(edge.target) == number:
            own[number].append(edge)
    for group, among in zip(groups, own, strict=True):
        briefly = len(group) > NODES or time.monotonic() > deadline
        for cycle in _Group(set(group), among, {}, {}, briefly=briefly).named(_ORDERS[:2]):
            found.add(cycle)


def _only_an_example(some: Suspects, invoked: Ints, completed: Ints, edges: Edges, found: Cycles) -> None:
    """Find one cycle, named by its own edges.

    It is a dependency on a transaction that had not begun yet, or the cycle through the transaction that is late by the
    least.
    """
    backwards = np.flatnonzero((edges.kind != PROCESS) & (completed[edges.target] < invoked[edges.source]))
    if len(backwards):
        at = int(backwards[np.argmin(edges.kind[backwards])])
        edge = Edge(int(edges.source[at]), int(edges.target[at]), int(edges.kind[at]), int(edges.append[at]))
        found.add(Cycle(f"{name_of([edge])}-realtime", (edge, Edge(*edge[1::-1], REALTIME, -1)), len(some.nodes)))
        found.partly += 1
        return
    by_least = some.late[np.argsort(some.effect[some.late] - completed[some.late], kind="stable")]
    for late in by_least[:1].tolist():
        effect = some.effect[late]
        level = np.flatnonzero((some.effect[edges.source] == effect) & (some.effect[edges.target] == effect))
        inner = edges.select(level)
        listed = [Edge(*one) for one in np.stack((inner.source, inner.target, inner.kind, inner.append), 1).tolist()]
        among = {late, *inner.source.tolist(), *inner.target.tolist()}
        graph = neighbours(listed, frozenset((WW, WR, RW, PROCESS)), among)
        for start in np.flatnonzero(invoked == effect).tolist():
            way = shortest_path(graph, start, {late}, missed=False) if start in graph else None
            if way:
                cycle = (*way, Edge(late, start, REALTIME, -1))
                found.add(Cycle(f"{name_of(way)}-realtime", cycle, len(some.nodes)))
                found.partly += 1
                return
    if len(some.late):
        found.undecided.append("a cycle in real time exists, but the time was up before it was traced")


def name_of(edges: Sequence[Edge]) -> str:
    """The name of a cycle by its dependencies."""
    missed = sum(edge.kind == RW for edge in edges)
    if missed:
        return "G-single" if missed == 1 else "G2"
    return "G1c" if any(edge.kind == WR for edge in edges) else "G0"
