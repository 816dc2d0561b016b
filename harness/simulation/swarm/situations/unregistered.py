"""Draw brokers that die, are unregistered by an operator, and return after all.

An operator unregisters a broker that is lost for ever (KIP-631). What returns under its id later may be a new machine
with an empty disk, or the old one whose disk was repaired. The controller cannot distinguish the two, and knows no
registration with which it could compare: the broker must have lost everything in its eyes (EL-05, RA-07). So the fault
budget counts such a broker among those that lose data, whether it does or not.

Half of them return with an empty disk, but for those that are controllers as well: such a one would have lost its
votes and its part of the metadata log, and be a voter in name only until an operator removes it (KIP-853).
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import one_after_the_other
from squall.harness.simulation.swarm.drawn.kinds import UNREGISTER_BROKER

UNREGISTERED: Final = 0.7
"""The share of seeds in which brokers are unregistered, of those in which brokers may lose records."""
WITH_EMPTY_DISK: Final = 0.5
"""Below this amount, a fault removes the broker's disk as well."""


def draw_unregistered(seed: object, brokers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw this seed's unregistered brokers, one after the other; the last is back before `load` seconds are over."""
    rng = Random(f"{seed}/unregistered")
    if rng.random() >= UNREGISTERED:
        return []
    return [
        SwarmFault(round(at, 6), UNREGISTER_BROKER, (rng.choice(brokers),), round(duration, 6), rng.random())
        for at, duration in one_after_the_other(rng, load, (0.5, 4.0), (0.3, 6.0), (0.5, 3.0))
    ]
