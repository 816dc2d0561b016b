"""Draw brokers that lead one after the other, and do not get what the others have appended.

* *Periods* in which only one broker is up, and in the next one only another. The broker that is up leads what it may
  lead, and appends what the next one does not get. When it returns, the others may have gone on without it. So it
  matters that only members of the ISR and eligible leader replicas are elected, that a returning broker truncates its
  log where it diverges from the leader's, and that a leader without followers knows what it may acknowledge.
* *Successions*, in which two brokers that stop cleanly hand over what they lead, faster than anybody can leave the ISR,
  while brokers do not reach each other. One of them has been cut off before, so that its successor has records of the
  first leader that it lacks, and lacks those that it appended itself. Only then has each of two logs leader epochs or
  records of an epoch that the other one lacks, and the end of one common epoch says too little (KIP-279).

Among faults that are drawn one by one, the other brokers return too soon for both.
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.entries import draw_words
from squall.harness.simulation.swarm.splits import CUT_LINK

IN_TURN: Final = 0.15
"""The share of seeds with such periods."""
STOPS: Final = ("crash-broker", "crash-broker", "crash-broker", "isolate-broker", "pause-broker")
SESSIONS: Final = (0.8, 2.0)
"""The shortest and the longest period, in sessions of a broker: in most of them the other brokers are fenced."""
SHARE_OF_LOAD: Final = 0.7
"""The periods take at most this share of the load: something must be acknowledged."""

SUCCESSIONS: Final = 0.3
"""The share of seeds with successions."""
STEPS: Final = (0.1, 0.25)
"""The shortest and the longest step of a succession, in times that a follower may be behind."""
STOP: Final = "restart-broker"


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


def draw_successions(
    seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float, lag: float
) -> list[SwarmFault]:
    """Draw this seed's successions, a fault for each cut and each stop; all end before `load` seconds have passed.

    `lag` is how long a follower may be behind before it leaves the ISR, in seconds. Brokers that are controllers as
    well have none: a stop would cost the quorum a voter.
    """
    rng = Random(f"{seed}/successions")
    drawn: list[SwarmFault] = []
    if len(brokers) < 3 or {*brokers} & {*controllers} or rng.random() >= SUCCESSIONS:
        return drawn
    at = rng.uniform(1.0, 3.0)
    for _ in range(rng.randint(2, 6)):
        step = lag * rng.uniform(*STEPS)
        if at + 4 * step > load - 1.0:
            break
        drawn += _succession(rng, tuple(rng.sample(brokers, 3)), at, step)
        at += 4 * step + rng.uniform(1.5, 3.0)
    return drawn


def _succession(rng: Random, three: tuple[str, ...], at: float, step: float) -> list[SwarmFault]:
    """The second of three is cut off first. The first one stops a step later, and the second one after it."""
    first, second, third = three
    cuts = [(second, first, at), (second, third, at + rng.uniform(0.0, step)), (first, third, at + step)]
    end = at + 3 * step
    faults = [
        SwarmFault(round(begin, 6), CUT_LINK, (one, other), round(end - begin, 6), rng.random(), words)
        for one, other, begin in cuts
        for words in [draw_words(CUT_LINK, (one, other), rng, (), ())]
    ]
    stops = [(first, at + step), (second, at + step + step * rng.uniform(0.7, 1.3))]
    return faults + [SwarmFault(round(when, 6), STOP, (host,), 0.2, rng.random()) for host, when in stops]
