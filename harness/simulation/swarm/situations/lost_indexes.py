"""Draw brokers that stop, and come back to index files that are lost, cut off or overwritten with zeros.

The offset index and the time index of a segment hold nothing that its records do not: Kafka builds them again from the
records, so that operators delete damaged ones, and a file system that crashed may leave zeros in them. A broker that
trusts such a file reads from the wrong place. Of the other faults only power losses touch these files, and most worlds
have hardly any.
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import one_after_the_other
from squall.harness.simulation.swarm.drawn.kinds import LOSE_INDEXES
from squall.harness.simulation.world.disk import SimDisk

LOST: Final = 0.35
"""The share of seeds in which brokers lose index files."""
CLEAN: Final = 0.6
"""Below this amount, the broker stops cleanly before; otherwise it is killed."""
SUFFIXES: Final = (".index", ".timeindex")
OF_FILES: Final = (0.2, 1.0)
"""The share of a broker's index files that one fault takes, from and to."""


def draw_lost_indexes(seed: object, brokers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw this seed's losses, one after the other; the last broker is back before `load` seconds are over."""
    rng = Random(f"{seed}/lost indexes")
    if rng.random() >= LOST:
        return []
    return [
        SwarmFault(round(at, 6), LOSE_INDEXES, (rng.choice(brokers),), round(duration, 6), rng.random())
        for at, duration in one_after_the_other(rng, load, (1.0, 5.0), (0.2, 3.0), (1.0, 5.0))
    ]


def lose_indexes(disk: SimDisk, rng: Random) -> int:
    """Damage some index files of a broker that is down, durably. Return how many."""
    share, damaged = rng.uniform(*OF_FILES), 0
    with disk.at_no_cost():
        for path in disk.paths():
            if path.endswith(SUFFIXES) and rng.random() < share:
                damaged += _damage(disk, path, rng)
    disk.damaged_files += damaged
    return damaged


def _damage(disk: SimDisk, path: str, rng: Random) -> bool:
    """Remove a file, cut it off, or write zeros over its end. Return whether it differs then."""
    before = disk.content(path)
    assert before is not None, "a path of the disk has a file"
    how, kept = rng.choice(("remove", "cut", "zeros")), rng.randint(0, len(before))
    if how == "remove":
        disk.remove(path)
        disk.sync_directory(path.rpartition("/")[0])
        return True
    file = disk.open(path)
    file.truncate(kept)
    if how == "zeros":
        file.append(bytes(len(before) - kept))
    file.sync()
    return disk.content(path) != before
