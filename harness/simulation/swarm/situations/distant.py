"""Draw a broker that is far from the others: for most of the load, each message between them takes longer.

A cluster over several sites has such links, and nothing is wrong with it. A follower that is far away is seldom at its
leader's log end under steady load, since more is appended while its fetch is under way. It is in sync all the same, as
it has what the leader had a moment ago (IS-03). Short faults of slow links end before that matters.
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import log_uniform

DISTANT: Final = 0.15
"""The share of seeds in which a broker is far from the others."""
SLOW_LINK: Final = "slow-link"
LATENCY_SECONDS: Final = (0.02, 0.15)
"""The shortest and the longest latency, one way."""


def draw_distant(seed: object, brokers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw this seed's distant broker, a fault for each of its links; all end before `load` seconds have passed."""
    rng = Random(f"{seed}/distant")
    if len(brokers) < 2 or rng.random() >= DISTANT:
        return []
    host = rng.choice(brokers)
    latency = round(log_uniform(rng, *LATENCY_SECONDS), 6)
    at = round(rng.uniform(0.1, 0.2 * load), 6)
    length = round(load - 0.5 - at, 6)
    shape = {"fault": SLOW_LINK, "target": host, "direction": rng.choice(("both", "out", "in"))}
    return [
        SwarmFault(
            at, SLOW_LINK, (host, other), length, rng.random(),
            {**shape, "to": other, "latency": latency, "jitter": 0.0},
        )
        for other in brokers
        if other != host
    ]  # fmt: skip
