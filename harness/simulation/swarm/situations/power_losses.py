"""Draw power losses of brokers, in worlds where a broker may lose what it has not synced.

Kafka relies on replication, not on fsync: a broker that loses power comes back without its last records, and nothing
that was acknowledged is lost as long as fewer than min ISR brokers do so at a time and eligible leader replicas are
kept (KIP-966). Most clusters do not meet that, so among other faults the budget lets hardly any power loss of a broker
pass.
Recovery then never meets a torn segment, or a gap between two. `drawn_world.py` draws worlds that meet it.
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import draw_words, log_uniform

KIND: Final = "power-loss-broker"
MEAN_GAP: Final = 2.5
"""Seconds between two power losses, on average."""


def draw_power_losses(seed: object, brokers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw one power loss after the other; all hosts are back before `load` seconds have passed."""
    rng = Random(f"{seed}/power losses")
    faults: list[SwarmFault] = []
    at = rng.uniform(0.5, 3.0)
    while at < load - 3.0:
        host = (rng.choice(brokers),)
        words = draw_words(KIND, host, rng, brokers, ())
        faults.append(SwarmFault(round(at, 6), KIND, host, round(log_uniform(rng, 0.05, 2.0), 6), rng.random(), words))
        at += rng.expovariate(1 / MEAN_GAP)
    return faults
