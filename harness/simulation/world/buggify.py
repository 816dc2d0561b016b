"""Decide in simulation what `nodes/buggify.py` asks: seeded, counted, and traced.

Two levels, as in FoundationDB: a run draws which places are active (`draw_places`), and there each visit draws whether
the thing happens. A mix of all places at once would hide the effect of one, as with faults, and would keep the run from
ever taking its usual course.

Each place of each user (a node, the network) has a separate random stream, so that another place, or another visit at
one, shifts no other draw. The probability of a visit is drawn once for each run and place, log-uniform between a tenth
of the place's largest probability and that. Nothing rare happens once `quiet` is set: a run ends by showing that the
cluster becomes whole under ordinary conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import exp, log
from random import Random

from squall.harness.scenario.buggify_places import PLACES
from squall.harness.simulation.world.streams import Streams

ACTIVE = 0.25
"""The probability that a place is active in a run."""


def draw_places(seed: object) -> tuple[str, ...]:
    """Return the places that are active in the run of this seed."""
    return tuple(name for name in PLACES if Random(f"{seed}/buggify/{name}").random() < ACTIVE)


def draw_chance(seed: object, name: str) -> float:
    """Return the probability with which this run lets the thing happen at each visit of a place."""
    most = PLACES[name].chance
    return exp(Random(f"{seed}/buggify/{name}/chance").uniform(log(most / 10), log(most)))


class WorldBuggify:
    """What may happen in one run, at all of its users. `counts` has how often each active place did."""

    def __init__(self, seed: object, places: Iterable[str], streams: Streams) -> None:
        """Raises KeyError for an unknown place."""
        self.quiet = False
        self.counts: dict[str, int] = dict.fromkeys(places, 0)
        self._chances: Mapping[str, float] = {name: draw_chance(seed, name) for name in self.counts}
        self._streams = streams

    def of(self, user: str, happened: Callable[[str], None]) -> SeededBuggify:
        """Return the decisions for one user; `happened` is called with a place's name each time."""
        return SeededBuggify(self, user, self._chances, self._streams, happened)


class SeededBuggify:
    """The decisions for one user; see `nodes.buggify.Buggify`. It outlives the incarnations of a node."""

    def __init__(
        self,
        world: WorldBuggify,
        user: str,
        chances: Mapping[str, float],
        streams: Streams,
        happened: Callable[[str], None],
    ) -> None:
        self._world = world
        self._drawn = {name: (streams.stream(f"{user}/buggify/{name}"), chance) for name, chance in chances.items()}
        self._happened = happened

    def happens(self, name: str) -> bool:
        """Draw whether the thing happens at an active place; False at any other."""
        drawn = self._drawn.get(name)
        if drawn is None or self._world.quiet:
            return False
        rng, chance = drawn
        if rng.random() >= chance:
            return False
        self._world.counts[name] += 1
        self._happened(name)
        return True

    def amount(self, name: str, low: int, high: int) -> int:
        """Draw how much of it happens, from the place's own stream."""
        return self._drawn[name][0].randint(low, high)
