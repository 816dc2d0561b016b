"""Draw restarts of a broker with other settings, and back again, as operators roll a change through a cluster.

In the meantime the brokers of one cluster differ in how much they fetch, how many fetch sessions they keep, and how
often they note on disk what recovery begins from. A broker then works on files that it wrote under other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import one_after_the_other
from squall.harness.simulation.swarm.drawn.kinds import RECONFIGURE_BROKER

RECONFIGURED: Final = 0.2
"""The share of seeds in which brokers get other settings."""


def draw_reconfigurations(
    seed: object, brokers: tuple[str, ...], load: float, settings: Callable[[Random], Mapping[str, object]]
) -> list[SwarmFault]:
    """Draw this seed's changes, one after the other; the last is over before `load` seconds have passed.

    `settings` draws those of one broker.
    """
    rng = Random(f"{seed}/reconfigured")
    if rng.random() >= RECONFIGURED:
        return []
    drawn: list[SwarmFault] = []
    for at, duration in one_after_the_other(rng, load, (0.5, 4.0), (1.0, 8.0), (1.0, 5.0)):
        host = rng.choice(brokers)
        words = {"fault": "reconfigure", "target": host, "set": dict(settings(rng))}
        drawn.append(SwarmFault(round(at, 6), RECONFIGURE_BROKER, (host,), round(duration, 6), rng.random(), words))
    return drawn
