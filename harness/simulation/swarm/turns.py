"""Draw times in which one broker after another is the only one that is up.

Each of them leads what it may lead, appends what the next one does not get, and returns to a log that may have gone on
without it. So it matters that who is elected was in the ISR or among the eligible leader replicas, that a returning
broker's log is cut where it parts from the leader's, and that a leader without followers knows what it may acknowledge.
Faults that are drawn one by one let the others return too soon for that.
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.entries import draw_words

IN_TURN: Final = 0.15
"""The share of seeds in which brokers are up one after the other."""
STOPS: Final = ("crash-broker", "crash-broker", "crash-broker", "isolate-broker", "pause-broker")
SESSIONS: Final = (0.8, 2.0)
"""The shortest and the longest turn, as a multiple of a broker's session: in most of them the others are fenced."""
SHARE_OF_LOAD: Final = 0.7
"""All turns together take no more of the load: it must acknowledge something."""


def draw_turns(
    seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float, session: float
) -> list[SwarmFault]:
    """Draw this seed's turns, a fault for each stop of a broker; all end before `load` seconds have passed.

    `session` is how long a broker may be silent, in seconds. Brokers that are controllers as well have no turns:
    without a majority of controllers nobody is elected.
    """
    rng = Random(f"{seed}/turns")
    drawn: list[SwarmFault] = []
    if len(brokers) < 2 or {*brokers} & {*controllers} or rng.random() >= IN_TURN:
        return drawn
    some = rng.sample(brokers, 2 if rng.random() < 0.7 else rng.randint(2, len(brokers)))
    at = rng.uniform(0.5, 2.0)
    last = at + SHARE_OF_LOAD * load - 1.5
    for turn in range(rng.randint(3, 6)):
        length = session * rng.uniform(*SESSIONS)
        if at + length > last:
            break
        drawn += _turn(rng, some[turn % len(some)], brokers, at, length)
        at += length
    return drawn


def _turn(rng: Random, up: str, brokers: tuple[str, ...], at: float, length: float) -> list[SwarmFault]:
    """Stop all but one. Each returns as the turn ends, or a moment later, when the next turn has begun."""
    faults = []
    for host in brokers:
        if host != up:
            kind, late = rng.choice(STOPS), rng.choice((0.0, rng.uniform(0.0, 0.3)))
            words = draw_words(kind, (host,), rng, brokers, ())
            faults.append(SwarmFault(round(at, 6), kind, (host,), round(length + late, 6), rng.random(), words))
    return faults
