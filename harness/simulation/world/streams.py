"""Hand out the streams of randomness of one run, and seed them all again in the middle of it.

Each user of randomness has its own stream, keyed by the run's seed and the user's name, so that a change in one place
does not shift the draws of another. `reseed` gives every stream, present and future, the key of another seed: up to
that event the run equals the run of the first seed, from there on it is another one. `squall why` continues runs this
way. Without `reseed` the draws are those of `Random(f"{seed}/{name}")`.
"""

from __future__ import annotations

from random import Random


class Streams:
    """The streams of one run. A name that is asked for twice gives two streams with equal draws."""

    def __init__(self, seed: object) -> None:
        self._key = str(seed)
        self._reseeded = 0
        self._given: list[tuple[str, Random]] = []

    def stream(self, name: str) -> Random:
        """Return a new stream for the user of this name."""
        rng = Random(f"{self._key}/{name}")
        self._given.append((name, rng))
        return rng

    def reseed(self, seed: object) -> None:
        """Continue every stream with this seed. The same seed at another place of a run gives other draws."""
        self._reseeded += 1
        self._key = f"continued {self._reseeded}/{seed}"
        for name, rng in self._given:
            rng.seed(f"{self._key}/{name}")
