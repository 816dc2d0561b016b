"""Find the nights at which the level of a metric changed, looking back over the whole series.

The energy statistic of Székely and Rizzo finds the split after which two parts differ most; a rank test decides
whether they do. The series is split again and again at a weak level first, so that two shifts which cancel each other
are found. Then the least certain points are removed until each of the others separates its two neighbouring segments
at the strict level. Memory grows with the square of the number of nights: 24 MB for a thousand.

For decisions on the night itself see `alarms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import Literal

import numpy as np
import numpy.typing as npt

from squall.results.trends.ranks import Floats, rank_test

Cause = Literal["metric", "environment"]
"""What changed: what the metric measures, or the machine, since the canary changed on the same nights."""


@dataclass(frozen=True)
class ChangeRules:
    """What counts as a change.

    `alpha` bounds the p-value of a point, `weak_alpha` that of a split in the first pass, `minimum_shift` the change
    of the median relative to the one before. A segment has at least `minimum_segment` nights.
    """

    alpha: float = 0.001
    weak_alpha: float = 0.05
    minimum_segment: int = 3
    minimum_shift: float = 0.03

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= self.weak_alpha < 1:
            raise ValueError("alpha and weak_alpha lie between 0 and 1, and alpha is at most weak_alpha")
        if self.minimum_segment < 2 or self.minimum_shift < 0:
            raise ValueError("a segment has at least two nights, and the minimum shift is not negative")


DEFAULT_RULES = ChangeRules()


@dataclass(frozen=True)
class ChangePoint:
    """A change of level. `night` is the first of the new level, as a position in the series.

    `before` and `after` are the medians of the two neighbouring segments, `shift` their relative difference. A
    provisional point rests on the last night: without it there would be no such point.
    """

    night: int
    before: float
    after: float
    shift: float
    p: float
    provisional: bool = False
    cause: Cause = "metric"


def change_points(
    values: npt.ArrayLike, canary: npt.ArrayLike | None = None, rules: ChangeRules = DEFAULT_RULES
) -> tuple[ChangePoint, ...]:
    """List the change points of a series with one value a night; a night without a figure is NaN.

    `canary` is a series of the same nights that measures the machine and not the system. Raises ValueError for
    infinite values and for series of different lengths.
    """
    nights, figures = measured_nights(values)
    found = _segmented(figures, rules)
    shorter = [one.night for one in _segmented(figures[:-1], rules)]
    points = [
        replace(one, night=int(nights[one.night]), provisional=not _near(one.night, shorter, rules)) for one in found
    ]
    return with_causes(tuple(points), values, canary, rules)


def with_causes(
    points: tuple[ChangePoint, ...],
    values: npt.ArrayLike,
    canary: npt.ArrayLike | None,
    rules: ChangeRules = DEFAULT_RULES,
) -> tuple[ChangePoint, ...]:
    """Attribute the change points of a series to the environment where the canary changed on the same nights.

    Raises ValueError for series of different lengths.
    """
    if canary is None:
        return points
    changed = _nights_changed(tuple(np.asarray(same_length(values, canary), dtype=np.float64).tolist()), rules)
    return tuple(replace(one, cause="environment") if _near(one.night, changed, rules) else one for one in points)


@lru_cache(maxsize=16)
def _nights_changed(canary: tuple[float, ...], rules: ChangeRules) -> tuple[int, ...]:
    """The nights on which a canary changed; it is the same for all metrics of a machine."""
    nights, machine = measured_nights(canary)
    return tuple(int(nights[one.night]) for one in _segmented(machine, rules))


def measured_nights(values: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], Floats]:
    """The positions of the nights that have a figure, and these figures. Raises ValueError for infinite ones."""
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1 or np.isinf(series).any():
        raise ValueError("a series has one finite number a night, or NaN")
    nights = np.flatnonzero(~np.isnan(series))
    return nights, series[nights]


def same_length(values: npt.ArrayLike, canary: npt.ArrayLike) -> npt.ArrayLike:
    """The canary. Raises ValueError if it has other nights than the metric."""
    if np.shape(values) != np.shape(canary):
        raise ValueError("the canary has as many nights as the metric")
    return canary


def relative_shift(before: float, after: float) -> float:
    """The change relative to the level before; infinite if that is zero."""
    if before == after:
        return 0.0
    return (after - before) / abs(before) if before else inf if after > 0 else -inf


def _near(night: int, others: Sequence[int], rules: ChangeRules) -> bool:
    """Whether one of the others is closer than two points can be to each other."""
    return any(abs(night - other) < rules.minimum_segment for other in others)


def _segmented(figures: Floats, rules: ChangeRules) -> tuple[ChangePoint, ...]:
    distances = _Distances(figures)
    splits = sorted(_weak_splits(figures, distances, 0, len(figures), rules))
    while splits:
        points = _between_neighbours(figures, splits)
        wrong = [one for one in points if one.p >= rules.alpha or abs(one.shift) < rules.minimum_shift]
        if not wrong:
            return tuple(points)
        splits.remove(max(wrong, key=lambda one: (one.p, -abs(one.shift), one.night)).night)
        splits = _moved_to_the_best(distances, splits, rules)
    return ()


def _weak_splits(figures: Floats, distances: _Distances, start: int, end: int, rules: ChangeRules) -> list[int]:
    """Where the first pass splits a part of the series: at its best split, then within both halves."""
    if end - start < 2 * rules.minimum_segment:
        return []
    split = distances.best_split(start, end, rules.minimum_segment)
    if rank_test(figures[start:split], figures[split:end]).p >= rules.weak_alpha:
        return []
    before = _weak_splits(figures, distances, start, split, rules)
    return [*before, split, *_weak_splits(figures, distances, split, end, rules)]


def _moved_to_the_best(distances: _Distances, splits: list[int], rules: ChangeRules) -> list[int]:
    """The same points, each at the best split between its two neighbours, from left to right."""
    moved = list(splits)
    for number in range(len(moved)):
        start = moved[number - 1] if number else 0
        end = moved[number + 1] if number + 1 < len(moved) else len(distances)
        moved[number] = distances.best_split(start, end, rules.minimum_segment)
    return moved


def _between_neighbours(figures: Floats, splits: list[int]) -> list[ChangePoint]:
    edges = [0, *splits, len(figures)]
    points = []
    for (start, split), (_, end) in pairwise(pairwise(edges)):
        before, after = figures[start:split], figures[split:end]
        low, high = float(np.median(before)), float(np.median(after))
        points.append(ChangePoint(split, low, high, relative_shift(low, high), rank_test(before, after).p))
    return points


class _Distances:
    """The sums of |x - y| over any two stretches of a series, by one table cumulated in both directions."""

    def __init__(self, figures: Floats) -> None:
        number = len(figures)
        self._cumulated = np.zeros((number + 1, number + 1))
        between = np.abs(figures[:, None] - figures[None, :])
        self._cumulated[1:, 1:] = between.cumsum(axis=0).cumsum(axis=1)

    def __len__(self) -> int:
        return len(self._cumulated) - 1

    def best_split(self, start: int, end: int, minimum: int) -> int:
        """The split of a stretch with the largest energy statistic; of equal ones the first."""
        split = np.arange(start + minimum, end - minimum + 1)
        table = self._cumulated
        a, b = (split - start).astype(np.float64), (end - split).astype(np.float64)
        diagonal = table[split, split]
        to_start, to_end = table[start, split], table[split, end]
        first = diagonal - 2 * to_start + table[start, start]
        second = table[end, end] - 2 * to_end + diagonal
        cross = to_end - diagonal - table[start, end] + to_start
        statistic = a * b / (a + b) * (2 * cross / (a * b) - first / (a * (a - 1)) - second / (b * (b - 1)))
        return int(split[np.argmax(statistic)])
