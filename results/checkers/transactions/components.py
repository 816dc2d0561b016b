"""Find strongly connected components, edges of real time, and shortest cycles of small graphs.

They run on suspects only (`suspects.py`), a handful in most histories, so that plain Python is fast enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from squall.results.checkers.transactions.dependencies import REALTIME, RW


class Edge(NamedTuple):
    """An edge from node to node; `append` makes the edge, -1 for an order of time."""

    source: int
    target: int
    kind: int
    append: int


Neighbours = dict[int, list[Edge]]
"""The edges out of each node."""


def neighbours(edges: Sequence[Edge], kinds: frozenset[int], among: set[int]) -> Neighbours:
    """Return the edges of some kinds between some nodes, by source; those that need the least first."""
    made: Neighbours = {node: [] for node in among}
    for edge in edges:
        if edge.kind in kinds and edge.source in among and edge.target in among:
            made[edge.source].append(edge)
    for out in made.values():
        out.sort(key=lambda edge: edge.kind)
    return made


def components(graph: Neighbours) -> list[list[int]]:
    """Find strongly connected components of more than one node (Tarjan, without recursion)."""
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    waiting: set[int] = set()
    found: list[list[int]] = []
    for root in graph:
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        stack.append(root)
        waiting.add(root)
        path = [(root, iter(graph[root]))]
        while path:
            node, following = path[-1]
            for edge in following:
                target = edge.target
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    stack.append(target)
                    waiting.add(target)
                    path.append((target, iter(graph[target])))
                    break
                if target in waiting:
                    lowest[node] = min(lowest[node], number[target])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    at = stack.index(node) if len(stack) < 64 else _last(stack, node)
                    group = stack[at:]
                    del stack[at:]
                    waiting.difference_update(group)
                    if len(group) > 1:
                        found.append(sorted(group))
    return found


def _last(stack: list[int], node: int) -> int:
    """Find a node on a stack, searching from its top."""
    at = len(stack) - 1
    while stack[at] != node:
        at -= 1
    return at


def realtime_edges(nodes: Sequence[int], invoked: Sequence[int], completed: Sequence[int]) -> list[Edge]:
    """Return edges from transactions that had ended to those that began later, without pairs that follow from others.

    Of all that have ended, only those still matter after which nothing has begun and ended; they are as many as ran at
    once, so that there are few edges. `invoked` and `completed` are by place in `nodes`.
    """
    begins = sorted(range(len(nodes)), key=lambda at: invoked[at])
    ends = sorted(range(len(nodes)), key=lambda at: completed[at])
    latest: list[int] = []
    edges: list[Edge] = []
    done = 0
    for at in begins:
        while done < len(ends) and completed[ends[done]] < invoked[at]:
            ended = ends[done]
            latest = [other for other in latest if completed[other] >= invoked[ended]]
            latest.append(ended)
            done += 1
        edges += [Edge(nodes[before], nodes[at], REALTIME, -1) for before in latest]
    return edges


def shortest_path(graph: Neighbours, start: int, goals: set[int], *, missed: bool) -> list[Edge] | None:
    """Return the fewest edges from a node to one of several; with `missed`, with exactly one rw edge.

    The path may be empty only without `missed`.
    """
    first = (start, not missed)
    if start in goals and not missed:
        return []
    came: dict[tuple[int, bool], tuple[tuple[int, bool], Edge]] = {}
    seen = {first}
    waiting = deque([first])
    while waiting:
        here = waiting.popleft()
        node, satisfied = here
        for edge in graph[node]:
            if missed and edge.kind == RW and satisfied:
                continue
            there = (edge.target, satisfied or edge.kind == RW)
            if there in seen:
                continue
            seen.add(there)
            came[there] = (here, edge)
            if there[1] and edge.target in goals:
                return _way(came, first, there)
            waiting.append(there)
    return None


def _way(
    came: dict[tuple[int, bool], tuple[tuple[int, bool], Edge]], first: tuple[int, bool], last: tuple[int, bool]
) -> list[Edge]:
    way: list[Edge] = []
    here = last
    while here != first:
        here, edge = came[here]
        way.append(edge)
    return way[::-1]
