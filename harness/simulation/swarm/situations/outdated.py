"""Draw situations in which a node goes on by knowledge that the others have replaced.

Independent faults rarely form one, since several have to fall on the right nodes in the right order:

* A *late leader* of the quorum hears its peers late and then stands still. They commit what it has written, elect
  another leader, and clients act on that, before it knows any of it.
* An *unaware leader* is a broker that gets no metadata while operators change what holds for its topic-partitions. Its
  followers stop, and in the end it stops as well.

Whether the node leads is left to chance. Each situation has a random stream of its own, so that the other faults of a
seed are the same with and without it. The fault budget decides about each part when it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawing import operation_words
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import draw_words, log_uniform
from squall.harness.simulation.swarm.drawn.kinds import SWITCHES

LATE_LEADERS: Final = 0.2
UNAWARE_LEADERS: Final = 0.25
"""The shares of seeds that have these situations."""
CHANGES: Final = (*("alter-config",) * 4, "reassign", "elect-leaders")
STOPS: Final = ("pause-broker", "pause-broker", "isolate-broker", "crash-broker")
LAST_STOPS: Final = ("crash-broker", "crash-broker", "power-loss-broker", "pause-broker")


def draw_outdated(
    seed: object,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
    load: float,
    operated: Mapping[str, int],
    *,
    switched: bool = False,
) -> list[SwarmFault]:
    """Draw this seed's situations, in order of time; all end before `load` seconds have passed.

    `operated` are the topics, with their min ISR, that operators may change; `switched` tells whether they may also
    switch features.
    """

    def late(rng: Random, at: float) -> Iterator[SwarmFault]:
        return _late_leader(rng, at, brokers, controllers)

    def unaware(rng: Random, at: float) -> Iterator[SwarmFault]:
        return _unaware_leader(rng, at, brokers, controllers, operated, switched=switched)

    faults: list[SwarmFault] = []
    if len(controllers) > 2:
        faults += _drawn(Random(f"{seed}/outdated/late"), LATE_LEADERS, load, late)
    if operated and len(brokers) > 1:
        faults += _drawn(Random(f"{seed}/unaware"), UNAWARE_LEADERS, load, unaware)
    return sorted(faults, key=lambda fault: fault.at)


def _drawn(
    rng: Random, share: float, load: float, draw: Callable[[Random, float], Iterator[SwarmFault]]
) -> Iterator[SwarmFault]:
    """Draw one situation after the other, in this share of the seeds. A part that would end too late is left out."""
    wanted = rng.random() < share
    at = rng.uniform(0.5, 3.0)
    while wanted and at < load:
        yield from (one for one in draw(rng, at) if one.latest_end < load - 1.0)
        at += rng.uniform(2.0, 8.0)


def _late_leader(
    rng: Random, at: float, brokers: tuple[str, ...], controllers: tuple[str, ...]
) -> Iterator[SwarmFault]:
    host = rng.choice(controllers)
    peers = [one for one in controllers if one != host]
    length = rng.uniform(1.5, 5.0)
    latency = round(log_uniform(rng, 0.05, 0.6), 6)
    shape = {"direction": "in", "latency": latency, "jitter": 0.0}
    words = {"fault": "slow-link", "target": host, "to": ", ".join(peers), **shape}
    yield _fault(at, "slow-link", (host, peers[0]), length, rng, words)
    stands_still = at + rng.uniform(0.1, 0.6) * length
    kind = rng.choice(("pause-controller", "pause-controller", "isolate-controller"))
    until = at + rng.uniform(0.7, 1.1) * length
    yield _fault(
        stands_still, kind, (host,), max(0.2, until - stands_still), rng,
        draw_words(kind, (host,), rng, brokers, controllers),
    )  # fmt: skip


def _unaware_leader(
    rng: Random,
    at: float,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
    topics: Mapping[str, int],
    *,
    switched: bool,
) -> Iterator[SwarmFault]:
    host = rng.choice(brokers)
    length = log_uniform(rng, 2.0, 8.0)
    sources = ", ".join(one for one in controllers if one != host) or host
    hold = {"fault": "rpc-hold", "api": "Fetch", "direction": "request", "from": host, "to": sources}
    yield _fault(at, "rpc-hold", (host,), length, rng, hold)
    begun = at + rng.uniform(0.1, 0.4) * length
    if switched and rng.random() < 0.6:
        off = max(0.2, at - rng.uniform(0.0, 1.5))
        yield _fault(off, rng.choice(list(SWITCHES)), (brokers[0],), begun - off, rng, {})
    for _ in range(rng.randint(1, 2)):
        kind = rng.choice(CHANGES)
        words = operation_words(kind, host, rng, len(brokers), topics)
        yield _fault(rng.uniform(at, begun), kind, (host,), rng.uniform(0.5, 1.5) * length, rng, words)
    share = rng.choice((0.5, 1.0))
    for one in brokers:
        if one != host and rng.random() < share:
            yield _stop(
                rng, rng.choice(STOPS), one, begun + rng.uniform(0.0, 0.2) * length, length, brokers, controllers
            )
    if rng.random() < 0.8:
        stops = at + rng.uniform(0.6, 1.1) * length
        yield _stop(rng, rng.choice(LAST_STOPS), host, stops, length, brokers, controllers)


def _stop(
    rng: Random,
    kind: str,
    host: str,
    at: float,
    length: float,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
) -> SwarmFault:
    words = draw_words(kind, (host,), rng, brokers, controllers)
    return _fault(at, kind, (host,), log_uniform(rng, 0.5, length), rng, words)


def _fault(
    at: float, kind: str, hosts: tuple[str, ...], duration: float, rng: Random, words: Mapping[str, object]
) -> SwarmFault:
    return SwarmFault(round(at, 6), kind, hosts, round(duration, 6), rng.random(), words)
