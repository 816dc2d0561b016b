"""Decide from which instants of a run to continue it, and how often; numbers in, numbers out.

The probability that a run fails is a function of the instant at which all later draws are seeded again. It is estimated
from continuations at a few instants. The search begins with instants at equal distances, bisects where the probability
rises most, and then adds continuations where the interval is wide: an instant where every continuation fails needs
fewer than one where half of them do.

The search works in rounds. A round depends on the outcomes of earlier rounds only, never on the order in which they
came in, so the result does not depend on how many continuations run at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from squall.results.trends.binomial import Interval, wilson_interval

RESOLUTION_US = 1_000
"""A shorter stretch is not bisected: it holds a few events."""
NOTABLE = 0.2
"""A smaller change of the estimate is not bisected, and alone is no change worth a sentence."""
WIDE = 0.2
"""An interval that is not wider needs no more continuations."""
MOST = 0.75
"""A part of a stretch with this share of its rise stands for all of it."""
BATCH = 10


@dataclass(frozen=True, order=True)
class Instant:
    """An instant of a run (virtual microseconds) with the outcomes of its continuations, in order of their seeds."""

    at: int
    outcomes: tuple[bool, ...] = ()

    @property
    def runs(self) -> int:
        return len(self.outcomes)

    @property
    def failed(self) -> int:
        return sum(self.outcomes)

    @property
    def probability(self) -> float:
        """The share of continuations that failed."""
        return self.failed / self.runs

    @property
    def interval(self) -> Interval:
        return wilson_interval(self.failed, self.runs)

    @property
    def width(self) -> float:
        return self.interval.high - self.interval.low


@dataclass(frozen=True)
class Change:
    """A stretch of a run over which the probability changes, beyond what chance explains."""

    before: Instant
    after: Instant

    @property
    def rise(self) -> float:
        return self.after.probability - self.before.probability

    @property
    def length(self) -> int:
        return self.after.at - self.before.at


@dataclass(frozen=True)
class Request:
    """Continuations that a round asks for: the one from `at` with the given number, counted from 0."""

    at: int
    number: int


class Search:
    """The instants of one run, and what to run next."""

    def __init__(self, begins: int, ends: int, *, continuations: int, instants: int) -> None:
        """Search from the start of the world (0) to `ends`; `begins` is where the load begins.

        `continuations` is the most of one instant, `instants` the most of the run.
        """
        self.continuations = continuations
        self.instants = instants
        self._found: dict[int, list[bool]] = {at: [] for at in _grid(begins, ends, max(2, instants // 3))}
        self._first = min(continuations, max(5, min(BATCH, continuations // 3)))

    def results(self) -> tuple[Instant, ...]:
        """Return the instants with outcomes, in order of time."""
        return tuple(Instant(at, tuple(outcomes)) for at, outcomes in sorted(self._found.items()) if outcomes)

    def next_round(self) -> list[Request]:
        """Return the continuations to run next; none if the search is done."""
        new = [at for at, outcomes in self._found.items() if not outcomes]
        if not new and (middle := self._middle_left()) is not None:
            self._found[middle] = []
            new = [middle]
        if new:
            return [Request(at, number) for at in sorted(new) for number in range(self._first)]
        return [request for instant in self.results() for request in self._more(instant)]

    def record(self, requests: Sequence[Request], outcomes: Sequence[bool]) -> None:
        """Record the outcomes of a round, in the order of its requests."""
        for request, failed in zip(requests, outcomes, strict=True):
            assert request.number == len(self._found[request.at])
            self._found[request.at].append(failed)

    def is_complete(self) -> bool:
        """Return whether no round is left; a round that was asked for and not recorded is left."""
        return all(self._found.values()) and self._middle_left() is None and not any(map(self._more, self.results()))

    def still_planned(self) -> int:
        """Return at most how many continuations are still to come, judged by the intervals so far."""
        to_bisect = 0 if self._middle_left() is None else (self.instants - len(self._found)) * self._first
        known = sum(
            self.continuations - len(outcomes) for at, outcomes in self._found.items() if outcomes and self._is_wide(at)
        )
        return to_bisect + known + sum(self._first for outcomes in self._found.values() if not outcomes)

    def _is_wide(self, at: int) -> bool:
        return Instant(at, tuple(self._found[at])).width > WIDE

    def _middle_left(self) -> int | None:
        """Return the next instant of the bisection, as long as the number of instants allows another."""
        return self._middle() if len(self._found) < self.instants else None

    def _middle(self) -> int | None:
        """Return the middle of the stretch with the largest rise, else fall, or None if no stretch is worth it."""
        pairs = itertools.pairwise(self.results())
        gaps = [Change(before, after) for before, after in pairs if after.at - before.at > RESOLUTION_US]
        gaps = [gap for gap in gaps if abs(gap.rise) >= NOTABLE]
        if not gaps:
            return None
        steepest = max(gaps, key=lambda gap: (gap.rise > 0, abs(gap.rise), -gap.before.at))
        return (steepest.before.at + steepest.after.at) // 2

    def _more(self, instant: Instant) -> list[Request]:
        missing = min(BATCH, self.continuations - instant.runs) if instant.width > WIDE else 0
        return [Request(instant.at, instant.runs + number) for number in range(missing)]


def _grid(begins: int, ends: int, number: int) -> list[int]:
    """Return the start of the world, and instants at equal distances from the start of the load to the failure."""
    begins = min(begins, ends)
    return sorted({0, *(begins + (ends - begins) * step // (number - 1) for step in range(number))})


def decisive_change(instants: Sequence[Instant]) -> Change | None:
    """Return the stretch in which the probability rises most suddenly; None if it hardly rises.

    This is the shortest stretch with at least half of the whole rise whose ends have disjoint intervals, narrowed to
    the shortest part of it with `MOST` of its own rise. Of two equally short ones the steeper counts.
    """
    every = [Change(before, after) for before, after in itertools.combinations(instants, 2)]
    whole = max((change.rise for change in every), default=0.0)
    if whole < NOTABLE:
        return None
    certain = [change for change in every if change.rise >= whole / 2 and _disjoint(change)]
    if not certain:
        return None
    shortest = min(certain, key=_suddenness)
    inside = [one for one in every if shortest.before <= one.before and one.after <= shortest.after]
    return min((one for one in inside if one.rise >= MOST * shortest.rise), key=_suddenness)


def _suddenness(change: Change) -> tuple[int, float]:
    return change.length, -change.rise


def other_changes(instants: Sequence[Instant], decisive: Change | None) -> list[Change]:
    """Return further changes between neighbouring instants whose intervals are disjoint, rises and falls."""
    found = [Change(before, after) for before, after in itertools.pairwise(instants)]
    return [
        change
        for change in found
        if abs(change.rise) >= NOTABLE and _disjoint(change) and not _overlap(change, decisive)
    ]


def _disjoint(change: Change) -> bool:
    first, second = change.before.interval, change.after.interval
    return first.high < second.low or second.high < first.low


def _overlap(change: Change, other: Change | None) -> bool:
    return other is not None and change.before.at < other.after.at and other.before.at < change.after.at
