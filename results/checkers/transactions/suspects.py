"""Find which transactions could lie on a cycle, in time linear in the edges: all others provably do not.

A healthy history of a million transactions has no cycle, and proving that must not take a search. Let each
transaction's *time of effect* be the latest invocation among it and everything it depends on, directly or not:

    effect(x) = max(begun(x), max effect(p) over all edges p → x)

which a few passes over the edges find, because only transactions that overlap in time can push each other. Then

* x with effect(x) > ended(x) lies on a cycle through real time: something that began after x had ended comes
  before x. Such an x is a *late* one. If there is none, every step of real time increases the time of effect
  strictly, and no edge decreases it, so that a cycle could only lie among edges between equal times of effect;
* those form a small graph, whose transactions without a predecessor, or without a successor, are peeled off
  until none is left, or a cycle.

In general a cycle lies either in what the peeling leaves, or in one connected piece of the union of all intervals
(ended(x), effect(x)] of late x: at any moment that a cycle crosses upwards along dependencies it must be crossed
downwards, and only real time from a late transaction goes down. So the suspects are the transactions whose times of
effect lie there. Nothing else must be searched (`cycles.py`).

Passes are bounded. If they did not settle, the late ones that were found are late nevertheless, since a time of effect
only ever grows; without any, nothing is proven, and `settled` is False.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from squall.results.checkers.kernels.operations import Ints
from squall.results.checkers.transactions.dependencies import Edges
from squall.results.checkers.transactions.versions import spread


@dataclass(frozen=True)
class Suspects:
    """Transactions that may lie on a cycle.

    `nodes` are in order of their times of effect, `block` is by node the piece it lies in; cycles do not cross pieces.
    `late` are transactions proven to lie on a cycle.
    """

    nodes: Ints
    block: Ints
    late: Ints
    effect: Ints
    settled: bool


def suspects(invoked: Ints, completed: Ints, edges: Edges, deadline: float = float("inf")) -> Suspects:
    """Return transactions that may lie on a cycle of these edges and real time. `deadline` is of `time.monotonic`."""
    effect, settled = times_of_effect(invoked, edges, deadline)
    late = np.flatnonzero(effect > completed)
    piece = _late_pieces(effect, completed, late)
    level = (effect[edges.source] == effect[edges.target]) & (piece[edges.source] < 0)
    left = peeled(len(invoked), edges.source[level], edges.target[level])
    in_piece = np.flatnonzero(piece >= 0)
    nodes = np.concatenate((in_piece, left))
    name = np.concatenate((piece[in_piece], len(late) + np.unique(effect[left], return_inverse=True)[1]))
    _, block = np.unique(name, return_inverse=True)
    order = np.lexsort((effect[nodes], block))
    return Suspects(nodes[order], block[order], late, effect, settled)


def times_of_effect(invoked: Ints, edges: Edges, deadline: float = float("inf")) -> tuple[Ints, bool]:
    """By transaction its time of effect, and whether all are final."""
    effect = invoked.copy()
    order = np.argsort(edges.source, kind="stable")
    source, target = edges.source[order], edges.target[order]
    first = np.searchsorted(source, np.arange(len(invoked) + 1))
    at = np.flatnonzero(effect[source] > effect[target])
    while len(at):
        if time.monotonic() > deadline:
            return effect, False
        pushed = target[at]
        np.maximum.at(effect, pushed, effect[source[at]])
        pushed = _distinct(pushed, len(effect))
        at = spread(first[pushed], first[pushed + 1] - first[pushed])
        at = at[effect[source[at]] > effect[target[at]]]
    return effect, True


def _late_pieces(effect: Ints, completed: Ints, late: Ints) -> Ints:
    """By transaction: the merged interval (ended, effect] of late ones that contains its time of effect, else -1."""
    pieces = np.full(len(effect), -1, np.int64)
    if len(late) == 0:
        return pieces
    order = late[np.argsort(completed[late], kind="stable")]
    begin, reach = completed[order], np.maximum.accumulate(effect[order])
    fresh = np.concatenate((np.ones(1, np.bool_), begin[1:] >= reach[:-1]))
    starts = begin[fresh]
    stops = reach[np.concatenate((np.flatnonzero(fresh)[1:] - 1, np.array([len(order) - 1])))]
    piece = np.searchsorted(starts, effect, side="left") - 1  # the last that starts before the time of effect
    inside = (piece >= 0) & (effect <= stops[np.maximum(piece, 0)])
    pieces[inside] = piece[inside]
    return pieces


def peeled(count: int, source: Ints, target: Ints) -> Ints:
    """What is left of a graph when nodes without predecessor, and then without successor, are removed repeatedly."""
    left = _peel(count, source, target)
    keep = np.zeros(count, np.bool_)
    keep[left] = True
    inner = keep[source] & keep[target]
    return _peel(count, target[inner], source[inner])


def _peel(count: int, source: Ints, target: Ints) -> Ints:
    """The nodes with a predecessor after all without one were removed repeatedly."""
    if len(source) == 0:
        return np.zeros(0, np.int64)
    order = np.argsort(source, kind="stable")
    source, target = source[order], target[order]
    first = np.searchsorted(source, np.arange(count + 1))
    awaited = np.bincount(target, minlength=count)
    free = np.flatnonzero((awaited == 0) & (first[1:] > first[:-1]))
    while len(free):
        reached = target[spread(first[free], first[free + 1] - first[free])]
        np.subtract.at(awaited, reached, 1)
        reached = _distinct(reached, count)
        free = reached[awaited[reached] == 0]
    return np.flatnonzero(awaited > 0)


def _distinct(nodes: Ints, count: int) -> Ints:
    """Return each node once, in order. (`numpy.unique` hashes, which takes several times as long.)"""
    if 8 * len(nodes) > count:
        flags = np.zeros(count, np.bool_)
        flags[nodes] = True
        return np.flatnonzero(flags)
    ordered = np.sort(nodes)
    return ordered[np.concatenate((np.ones(1, np.bool_), ordered[1:] != ordered[:-1]))[: len(ordered)]]
