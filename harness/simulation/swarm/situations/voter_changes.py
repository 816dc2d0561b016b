"""Draw changes of the voters one after the other, while leaders are not followed, or stop.

A change of the voters takes effect when it is written, and is undone when it is truncated. That needs a leader that
writes one and loses its followers before they have it, within milliseconds. So some of the worlds whose voters are in
the metadata log remove a voter every second or two, and cut, hold or stop something at about the same moment (KIP-853).
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import draw_words, log_uniform
from squall.harness.simulation.swarm.drawn.kinds import REMOVE_VOTER

CHANGING: Final = 0.6
"""The share of seeds that change voters often, of those whose voters are in the metadata log."""
MEAN_GAP: Final = 1.0
"""Seconds between two changes, on average."""
ACTIVE: Final = "active controller"
STOPS: Final = ("crash", "pause", "isolate")


def draw_voter_changes(seed: object, controllers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw this seed's changes, and the faults beside them; all end before `load` seconds have passed."""
    rng = Random(f"{seed}/voter changes")
    drawn: list[SwarmFault] = []
    if len(controllers) < 3 or rng.random() >= CHANGING:
        return drawn
    at = rng.uniform(0.3, 2.0)
    while at < load - 5.0:
        removed = rng.choice((*controllers, ACTIVE))
        out, host = round(log_uniform(rng, 0.05, 2.0), 6), (rng.choice(controllers),)
        words: dict[str, object] = {"fault": REMOVE_VOTER, "target": removed}
        drawn.append(SwarmFault(round(at, 6), REMOVE_VOTER, host, out, rng.random(), words))
        if rng.random() < 0.7:
            begin = max(0.1, at + rng.uniform(-0.2, 0.1))
            drawn.append(_beside(rng, begin, log_uniform(rng, 0.05, 2.0), controllers))
        at += log_uniform(rng, 0.05, 0.5) + rng.expovariate(1 / MEAN_GAP)
    return drawn


def _beside(rng: Random, at: float, length: float, controllers: tuple[str, ...]) -> SwarmFault:
    """Draw a fault that keeps a leader from committing: no fetch arrives, or a controller stops."""
    if rng.random() < 0.5:
        everyone = ", ".join(controllers)
        words: dict[str, object] = {
            "fault": "rpc-hold", "api": "Fetch", "direction": "request", "from": everyone, "to": everyone,
        }  # fmt: skip
        return SwarmFault(round(at, 6), "rpc-hold", controllers, round(length, 6), rng.random(), words)
    stop = rng.choice(STOPS)
    host = (rng.choice(controllers),)
    words = draw_words(f"{stop}-controller", host, rng, (), controllers)
    return SwarmFault(round(at, 6), f"{stop}-controller", host, round(length, 6), rng.random(), words)
