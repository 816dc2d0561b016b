"""Draw successions: two leaders of a topic-partition stop one after the other, faster than anybody can leave the ISR.

The brokers do not reach each other meanwhile. The second leader has been cut off before, so that its successor has
records of the first leader that it lacks, and lacks those that it appended itself. Only then has each of two logs
leader epochs or records of an epoch that the other one lacks, and the end of one common epoch says too little
(KIP-279).

That takes the first leader, the one that the controllers elect next, and the one after it. Three brokers that are drawn
are hardly ever these three: of 36 successions in 60 worlds none had that effect. So the drawn hosts are replaced when
the first fault of a succession is due. `Successions` then chooses a topic-partition, and puts its leader and the next
two in place of the drawn three. If no ISR has three members, the drawn hosts stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import draw_words
from squall.harness.simulation.swarm.situations.splits import CUT_LINK
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.topic import PartitionRegistration

SUCCESSIONS: Final = 0.3
"""The share of seeds with successions."""
STEPS: Final = (0.15, 0.3)
"""The shortest and the longest step of a succession, in times that a follower may be behind."""
STOP: Final = "restart-broker"
BUSIEST: Final = 3
"""How much a topic-partition with many records is preferred: in a step each of two leaders has to append something."""
LEADERS: Final = 3
"""The leaders of a succession: two stop, the third one remains."""


def draw_successions(
    seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float, lag: float
) -> list[SwarmFault]:
    """Draw this seed's successions, a fault for each cut and each stop; all end before `load` seconds have passed.

    `lag` is how long a follower may be behind before it leaves the ISR, in seconds. Brokers that are controllers as
    well have none: a stop would cost the quorum a voter.
    """
    rng = Random(f"{seed}/successions")
    drawn: list[SwarmFault] = []
    if len(brokers) < LEADERS or {*brokers} & {*controllers} or rng.random() >= SUCCESSIONS:
        return drawn
    at = rng.uniform(1.0, 3.0)
    for number in range(rng.randint(2, 6)):
        step = lag * rng.uniform(*STEPS)
        if at + 4 * step > load - 1.0:
            break
        three = tuple(rng.sample(brokers, LEADERS))
        drawn += [replace(fault, succession=(number, three)) for fault in _succession(rng, three, at, step)]
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


class Successions:
    """Chooses the brokers of each succession of a run, once, when its first fault is due."""

    def __init__(self, world: SimWorld, newest_image: Callable[[], MetadataImage | None]) -> None:
        self._world = world
        self._newest_image = newest_image
        self._names = {place.node_id: place.name for place in world.places if place.is_broker}
        self._chosen: dict[tuple[int, tuple[str, ...]], dict[str, str]] = {}
        """By `SwarmFault.succession`, the chosen host for each drawn one.

        A run that goes on with another seed has two successions of each number, so the number alone is no key.
        """

    def resolve(self, fault: SwarmFault) -> SwarmFault:
        """Return the fault with the hosts that it strikes; any fault that is of no succession as it is."""
        if fault.succession is None:
            return fault
        if fault.succession not in self._chosen:
            three = fault.succession[1]
            self._chosen[fault.succession] = dict(zip(three, self._leaders(fault.amount) or three, strict=True))
        chosen = self._chosen[fault.succession]
        words = {key: chosen.get(str(value), value) for key, value in fault.words.items()}
        return replace(fault, hosts=tuple(chosen[host] for host in fault.hosts), words=words)

    def _leaders(self, amount: float) -> list[str] | None:
        """Return the leader of some topic-partition, the next one and the one after it; None if no ISR has three."""
        image = self._newest_image()
        if image is None:
            return None
        found = [
            (self._end(topic.name, number, leaders[0]), [self._names[one] for one in leaders[:LEADERS]])
            for topic, number, one in image.all_partitions()
            if len(leaders := in_order(one)) >= LEADERS
        ]
        found.sort(key=lambda one: -one[0])
        return found[int(amount**BUSIEST * len(found))][1] if found else None

    def _end(self, topic: str, partition: int, leader: int) -> int:
        node = self._world.processes[self._names[leader]].node
        hosted = None if node is None or node.broker is None else node.broker.replicas.by_name(topic, partition)
        return 0 if hosted is None else hosted.replica.end_offset


def in_order(partition: PartitionRegistration) -> list[int]:
    """Return the leader of a topic-partition, and then the other members of its ISR as they would be elected."""
    if partition.leader not in partition.isr:
        return []
    return [partition.leader, *(one for one in partition.replicas if one in partition.isr and one != partition.leader)]
