"""Grudges: which sources each host drops. A network partition is a grudge; these functions compute them.

A grudge maps a host to the sources it drops (sorted; a host without a grudge is missing). It is directional: `{a:
(b,)}` means that a is deaf to b while b still receives from a. All functions are pure; where there is a choice, the
caller passes the random numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

Grudge = Mapping[str, tuple[str, ...]]


def grudge_of(pairs: Iterable[tuple[str, str]]) -> Grudge:
    """Build a grudge from (listener, source) pairs: the listener drops the source."""
    drops: dict[str, list[str]] = {}
    for listener, source in sorted(set(pairs)):
        if listener != source:
            drops.setdefault(listener, []).append(source)
    return {listener: tuple(sources) for listener, sources in drops.items()}


def pairs_of(grudge: Grudge) -> list[tuple[str, str]]:
    """The (listener, source) pairs, sorted."""
    return sorted((listener, source) for listener, sources in grudge.items() for source in sources)


def components(*groups: Sequence[str]) -> Grudge:
    """Complete cut: no host receives from a host of another group."""
    return grudge_of(
        (listener, source)
        for group in groups
        for other in groups
        if other is not group
        for listener in group
        for source in other
    )


def isolated(targets: Sequence[str], nodes: Sequence[str]) -> Grudge:
    """Each target alone, cut from every other node, both ways."""
    return grudge_of(pair for target in targets for node in nodes for pair in ((target, node), (node, target)))


def deaf(targets: Sequence[str], nodes: Sequence[str]) -> Grudge:
    """The targets receive from none of the others; the others receive from them."""
    others = [node for node in nodes if node not in targets]
    return grudge_of((target, other) for target in targets for other in others)


def mute(targets: Sequence[str], nodes: Sequence[str]) -> Grudge:
    """The others receive from none of the targets; the targets receive from them."""
    others = [node for node in nodes if node not in targets]
    return grudge_of((other, target) for target in targets for other in others)


def halves(nodes: Sequence[str], rng: random.Random) -> Grudge:
    """Two random groups of equal size, or one apart."""
    shuffled = rng.sample(sorted(nodes), len(nodes))
    middle = len(shuffled) // 2
    return components(shuffled[:middle], shuffled[middle:])


def thirds(nodes: Sequence[str], rng: random.Random) -> Grudge:
    """Three random groups of equal size, or one apart; of three nodes each is alone."""
    shuffled = rng.sample(sorted(nodes), len(nodes))
    return components(*(shuffled[first::3] for first in range(3)))


def bridge(nodes: Sequence[str], rng: random.Random) -> Grudge:
    """Two halves that are cut from each other, and one node between them that is connected to all."""
    shuffled = rng.sample(sorted(nodes), len(nodes))
    rest = shuffled[1:]
    middle = len(rest) // 2
    return components(rest[:middle], rest[middle:])


def majorities_ring(nodes: Sequence[str], rng: random.Random) -> Grudge:
    """Every node reaches a majority, and no two nodes the same one: neighbours on a ring in random order.

    Cuts are mutual: each node reaches the same number of neighbours on both sides, the fewest that make a majority.
    Three nodes are a special case, cut into a line; with fewer, any cut would cost a node its majority.
    """
    ring = rng.sample(sorted(nodes), len(nodes))
    size = len(ring)
    if size == 3:
        return components(ring[:1], ring[2:])
    reach = (size // 2 + 1) // 2
    return grudge_of(
        (ring[here], ring[there])
        for here in range(size)
        for there in range(size)
        if min((here - there) % size, (there - here) % size) > reach
    )
