"""Raise an alarm on the night on which a change of level has become certain, three nights after it began.

The three most recent nights are compared with the nights before them, back to the last alarm, by an exact rank test.
As long as nothing changes, the three ranks are any three with equal probability, for any distribution of the
noise. So the probability of a false alarm is at most `alpha` on each night, and after N nights the smallest p-value is
2 / C(N + 3, 3): with `alpha` 0.001 there can be no alarm before the 24th night.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
import numpy.typing as npt

from squall.results.trends.change_points import (
    DEFAULT_RULES,
    Cause,
    ChangeRules,
    measured_nights,
    relative_shift,
    same_length,
)
from squall.results.trends.ranks import Floats, rank_test, smallest_p

RECENT = 3
"""Nights that must all lie on the new level."""
REFERENCE_MAX = 120
"""Nights before them that they are compared with, at most, so that a drift over years is no reference."""


@dataclass(frozen=True)
class Alarm:
    """An alarm, raised on `night`; `since` is the first of the nights that differ. Both are positions in the series."""

    night: int
    since: int
    before: float
    after: float
    shift: float
    p: float
    cause: Cause = "metric"


def alarms(
    values: npt.ArrayLike, canary: npt.ArrayLike | None = None, rules: ChangeRules = DEFAULT_RULES
) -> tuple[Alarm, ...]:
    """List the alarms of a series, one value a night, each raised with what was known on its night.

    After an alarm the nights that raised it are the first of the new reference. A night without a figure is NaN and
    raises no alarm. With a canary, an alarm on nights on which the canary differs as well is the environment's.
    Raises ValueError for infinite values and for series of different lengths.
    """
    nights, figures = measured_nights(values)
    machine = None if canary is None else np.asarray(same_length(values, canary), dtype=np.float64)[nights]
    needed = nights_needed(rules)
    found: list[Alarm] = []
    start = 0
    for last in range(RECENT - 1, len(figures)):
        since = last - RECENT + 1
        if since - start < needed:
            continue
        reference = slice(max(start, since - REFERENCE_MAX), since)
        recent = slice(since, last + 1)
        changed = _changed(figures[reference], figures[recent], rules)
        if changed is None:
            continue
        before, after, p = changed
        environment = machine is not None and _changed(*_finite(machine[reference], machine[recent]), rules) is not None
        found.append(
            Alarm(
                night=int(nights[last]),
                since=int(nights[since]),
                before=before,
                after=after,
                shift=relative_shift(before, after),
                p=p,
                cause="environment" if environment else "metric",
            )
        )
        start = since
    return tuple(found)


def alarm_of_the_last_night(
    values: npt.ArrayLike, canary: npt.ArrayLike | None = None, rules: ChangeRules = DEFAULT_RULES
) -> Alarm | None:
    """The alarm that the last night of a series raises, or None."""
    last = len(np.asarray(values)) - 1
    return next((one for one in alarms(values, canary, rules) if one.night == last), None)


@lru_cache(maxsize=16)
def nights_needed(rules: ChangeRules = DEFAULT_RULES) -> int:
    """How many nights a reference has at least: fewer could not give a p-value of `alpha`."""
    number = RECENT
    while smallest_p(number, RECENT) > rules.alpha:
        number += 1
    return number


def _changed(reference: Floats, recent: Floats, rules: ChangeRules) -> tuple[float, float, float] | None:
    """Both levels and the p-value if they differ by the rules, else None."""
    if not len(reference) or not len(recent):
        return None
    before, after = _median(reference), _median(recent)
    if abs(relative_shift(before, after)) < rules.minimum_shift:
        return None
    if least_p(reference, recent) > rules.alpha:
        return None
    p = rank_test(reference, recent).p
    return (before, after, p) if p <= rules.alpha else None


def least_p(reference: Floats, recent: Floats) -> float:
    """A lower bound of the p-value of the rank test, without the work of that test; 0 if there are not three recent.

    Three values whose places in the order are all at most those of the recent ones have at most their sum of ranks, and
    these can be counted by a formula. Most nights differ so little that the bound decides.
    """
    if len(recent) != RECENT:
        return 0.0
    number = len(reference) + RECENT
    order = np.concatenate((reference, recent)).argsort(kind="stable")
    places = [int(one) + 1 for one in np.flatnonzero(order >= len(reference))]
    below, above = _threes_below(*places), _threes_below(*(number + 1 - one for one in reversed(places)))
    return min(1.0, 2 * min(below, above) / comb(number, RECENT))


def _threes_below(first: int, second: int, third: int) -> int:
    """Count the ascending places a, b, c with a, b and c at most the first, second and third of three such places."""
    pairs = first * second - first * (first + 1) // 2
    sums = (first * second * (second + 1) - first * (first + 1) * (first + 2) // 3) // 2
    return third * pairs - sums


def _median(figures: Floats) -> float:
    """The median; for few figures `numpy.median` takes ten times as long."""
    ordered = np.sort(figures)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _finite(reference: Floats, recent: Floats) -> tuple[Floats, Floats]:
    return reference[~np.isnan(reference)], recent[~np.isnan(recent)]
