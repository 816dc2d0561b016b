"""Draw partitions that split the controllers, or the brokers, into two groups that cannot reach each other.

A single node that is cut off is the easy case: a leader that nobody follows. With five voters, a leader may keep one
follower and lose the majority, and two candidates may each have half of the votes. With brokers, a leader may keep some
followers while the controllers hear all of them. So some worlds cut every link between two groups at once, which is the
partition that Jepsen's nemesis has for a start (`partition-random-halves`).
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import draw_words, log_uniform

SPLIT: Final = 0.35
"""The share of seeds that draw partitions."""
CUT_LINK: Final = "cut-link"


def draw_splits(seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw this seed's partitions, a fault for each link; all end before `load` seconds have passed."""
    rng = Random(f"{seed}/splits")
    groups = [nodes for nodes in (brokers, controllers) if len(nodes) >= 2]
    drawn: list[SwarmFault] = []
    if not groups or rng.random() >= SPLIT:
        return drawn
    weights = [1 if nodes is brokers else max(1, len(controllers) - 2) for nodes in groups]
    for _ in range(rng.randint(1, 4)):
        length = log_uniform(rng, 0.4, 6.0)
        at = rng.uniform(0.3, max(0.4, load - 0.5 - length))
        drawn += _split(rng, rng.choices(groups, weights)[0], round(at, 6), round(min(length, load - 0.5 - at), 6))
    return drawn


def _split(rng: Random, nodes: tuple[str, ...], at: float, length: float) -> list[SwarmFault]:
    """Cut every link between some of the nodes and the others."""
    some = rng.sample(nodes, rng.randint(1, len(nodes) // 2))
    others = [node for node in nodes if node not in some]
    return [
        SwarmFault(at, CUT_LINK, (one, other), length, rng.random(), draw_words(CUT_LINK, (one, other), rng, (), ()))
        for one in some
        for other in others
    ]
