"""A recipe: a run that begins with one seed and goes on with others, as a short text.

    7@12.5s:99                        seed 7 until 12.5 s of virtual time, then seed 99
    7@12.5s:99+rpc-hold@20s:3         and from 20 s on seed 3; between them, faults of the kind rpc-hold only
    7+crash-broker+disk-slow          seed 7, with faults of these two kinds

At each instant every stream of randomness is seeded again (`world/streams.py`), and the faults that a swarm would still
begin are drawn anew, by the new seed. A simulation has no snapshots of its state: the run up to the instant is
repeated, bit for bit, which needs nothing but the recipe. Times count from the start of the world, not of the load.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from squall.harness.errors import UsageError
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import KINDS

_PART = re.compile(r"(?:(?P<at>\d+(?:\.\d{1,6})?)s:)?(?P<seed>\d+)(?P<kinds>(?:\+[a-z-]+)*)")


@dataclass(frozen=True, order=True)
class Continuation:
    """From `at` on (virtual microseconds) the run goes on with `seed`. `kinds`: see `SimOptions.kinds`."""

    at: int
    seed: int
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, order=True)
class Recipe:
    """Everything that repeats a run, but for the mutants."""

    scenario: str
    seed: int
    kinds: tuple[str, ...] = ()
    continuations: tuple[Continuation, ...] = ()

    def __str__(self) -> str:
        return f"{self.scenario} {recipe_text(self.seed, self.kinds, self.continuations)}"

    def continued(self, at: int, seed: int, kinds: tuple[str, ...] = ()) -> Recipe:
        """Return this recipe until `at`, then the new seed; its own later continuations are dropped."""
        kept = tuple(one for one in self.continuations if one.at < at)
        return Recipe(self.scenario, self.seed, self.kinds, (*kept, Continuation(at, seed, kinds)))


def recipe_text(seed: int, kinds: Sequence[str], continuations: Sequence[Continuation]) -> str:
    """Return the short text; `parse_recipe` reads it."""
    parts = [_seed_text(seed, kinds)]
    for one in continuations:
        seconds = f"{Decimal(one.at) / 1_000_000:f}"
        parts.append(f"{seconds}s:{_seed_text(one.seed, one.kinds)}")
    return "@".join(parts)


def _seed_text(seed: int, kinds: Sequence[str]) -> str:
    return "+".join((str(seed), *kinds))


def parse_recipe(scenario: str, text: str) -> Recipe:
    """Read the short text. Raises UsageError."""
    first, *others = [_part(text, part) for part in text.split("@")]
    if first[0] is not None or any(at is None for at, _, _ in others):
        raise _wrong(text, "only the first seed has no time")
    continuations = tuple(Continuation(at, seed, kinds) for at, seed, kinds in others if at is not None)
    if any(one.at >= after.at for one, after in itertools.pairwise(continuations)):
        raise _wrong(text, "the times must grow")
    return Recipe(scenario, first[1], first[2], continuations)


def _part(text: str, part: str) -> tuple[int | None, int, tuple[str, ...]]:
    found = _PART.fullmatch(part)
    if found is None:
        raise _wrong(text, f"cannot read {part!r}")
    kinds = tuple(found["kinds"].split("+")[1:])
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise _wrong(text, f"no kind of fault is called {unknown[0]}")
    at = None if found["at"] is None else int(Decimal(found["at"]) * 1_000_000)
    return at, int(found["seed"]), kinds


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"recipe {text!r}: {why}", remedy="write SEED, or SEED@TIMEs:SEED, such as 7@12.5s:99")


def spliced(
    draw: Callable[[int, tuple[str, ...]], list[SwarmFault]],
    seed: int,
    kinds: tuple[str, ...],
    continuations: Sequence[Continuation],
    now: int,
) -> list[SwarmFault]:
    """Draw the faults of a run: each seed's faults as far as the next continuation.

    `now` is the instant from which faults count their times.
    """
    faults = draw(seed, kinds)
    for one in continuations:
        since = (one.at - now) / 1_000_000
        faults = [fault for fault in faults if fault.at < since]
        faults += [fault for fault in draw(one.seed, one.kinds) if fault.at >= since]
    return faults
