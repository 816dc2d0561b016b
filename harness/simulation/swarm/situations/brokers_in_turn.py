"""Draw periods in which only one broker is up, and in the next one only another.

The broker that is up leads what it may lead, and appends what the next one does not get. When it returns, the others
may have gone on without it. So it matters that only members of the ISR and eligible leader replicas are elected, that a
returning broker truncates its log where it diverges from the leader's, and that a leader without followers knows what
it may acknowledge. Among faults that are drawn one by one, the other brokers return too soon for that.
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import draw_words

IN_TURN: Final = 0.15
"""The share of seeds with such periods."""
STOPS: Final = ("crash-broker", "crash-broker", "crash-broker", "isolate-broker", "pause-broker")
SESSIONS: Final = (0.8, 2.0)
"""The shortest and the longest period, in sessions of a broker: in most of them the other brokers are fenced."""
SHARE_OF_LOAD: Final = 0.7
"""The periods take at most this share of the load: something must be acknowledged."""


def draw_brokers_in_turn(
    seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float, session: float
) -> list[SwarmFault]:
    """Draw this seed's periods, a fault for each stop of a broker; all end before `load` seconds have passed.

    `session` is how long a broker may be silent, in seconds. Brokers that are controllers as well have no
    such periods: without a majority of controllers nobody is elected.
    """
    rng = Random(f"{seed}/turns")
    drawn: list[SwarmFault] = []
    if len(brokers) < 2 or {*brokers} & {*controllers} or rng.random() >= IN_TURN:
        return drawn
    some = rng.sample(brokers, 2 if rng.random() < 0.7 else rng.randint(2, len(brokers)))
    at = rng.uniform(0.5, 2.0)
    last = at + SHARE_OF_LOAD * load - 1.5
    for number in range(rng.randint(3, 6)):
        length = session * rng.uniform(*SESSIONS)
        if at + length > last:
            break
        drawn += _period(rng, some[number % len(some)], brokers, at, length)
        at += length
    return drawn


def _period(rng: Random, up: str, brokers: tuple[str, ...], at: float, length: float) -> list[SwarmFault]:
    """Stop all but one. Each returns as the period ends, or a moment later, when the next one has begun."""
    faults = []
    for host in brokers:
        if host != up:
            kind, late = rng.choice(STOPS), rng.choice((0.0, rng.uniform(0.0, 0.3)))
            words = draw_words(kind, (host,), rng, brokers, ())
            faults.append(SwarmFault(round(at, 6), kind, (host,), round(length + late, 6), rng.random(), words))
    return faults
