"""Draw moves of a voter: it stops cleanly, and starts again with its listener on another port (KIP-853).

The voters of the metadata log name where each of them listens. A voter that has moved reaches the others, and none of
them reaches it, until it has told the leader and that is in the log; a leader writes its own entry. So an election may
fall into a time in which a voter cannot be asked. One voter of a seed moves, and stays where it is: what nodes begin
from, `controller.quorum.bootstrap.servers`, still leads to the others.
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import log_uniform
from squall.harness.simulation.swarm.drawn.kinds import MOVE_VOTER

MOVED: Final = 0.3
"""The share of seeds in which a voter moves, of those whose voters are in the metadata log."""


def draw_moves(seed: object, controllers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw this seed's moves, in order of time; each has started again before `load` seconds have passed."""
    rng = Random(f"{seed}/moved")
    if len(controllers) < 3 or rng.random() >= MOVED:
        return []
    host = rng.choice(controllers)
    drawn: list[SwarmFault] = []
    at = rng.uniform(0.5, 5.0)
    for _ in range(rng.choice((1, 2, 4))):
        duration = log_uniform(rng, 0.02, 4.0)
        if at + duration >= load - 1.0:
            break
        drawn.append(SwarmFault(round(at, 6), MOVE_VOTER, (host,), round(duration, 6), rng.random()))
        at += duration + log_uniform(rng, 0.3, 8.0)
    return drawn


def port_of(fault: SwarmFault, usual: int) -> int:
    """Return the port that a voter moves to: one of nine others than the usual one."""
    return usual + 100 * (1 + int(fault.amount * 9))
