"""The Mann-Whitney test of two samples, and the interval of Hodges and Lehmann that belongs to it.

Ranks need no assumption about the shape of the noise. Small samples get exact probabilities, ties included: those of
all ways to choose the ranks of one sample among the ranks of both. Larger ones get the normal approximation with
corrections for ties and continuity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import erfc, floor, gcd, inf, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

EXACT_WORK_MAX = 30_000_000
"""Additions that an exact distribution may take; samples of 45 and 45, or of 3 and 1 200, need about as many."""


@dataclass(frozen=True)
class RankTest:
    """How the second of two samples lies beside the first.

    `u` counts the pairs in which the value of the second sample is larger; a tie counts one half. `smaller` and
    `larger` are one-sided p-values: the probability, if both samples come from one distribution, of a `u` as small as
    this, or as large.
    """

    u: float
    pairs: int
    smaller: float
    larger: float
    exact: bool

    @property
    def p(self) -> float:
        """The two-sided p-value: twice the smaller tail."""
        return min(1.0, 2 * min(self.smaller, self.larger))

    @property
    def delta(self) -> float:
        """Cliff's delta: the share of pairs with the second value larger, minus the share with it smaller."""
        return (2 * self.u - self.pairs) / self.pairs


def rank_test(first: npt.ArrayLike, second: npt.ArrayLike) -> RankTest:
    """Test two samples by the ranks of their values. Raises ValueError if one is empty or has a value not finite."""
    one, other = sample(first), sample(second)
    doubled = doubled_midranks(np.concatenate((one, other)))
    fewer, more = sorted((len(one), len(other)))
    u = (int(doubled[len(one) :].sum()) - len(other) * (len(other) + 1)) / 2
    pairs = len(one) * len(other)
    if not is_exact(fewer, more):
        smaller, larger = _normal_tails(u, len(one), len(other), doubled)
        return RankTest(u, pairs, smaller, larger, exact=False)
    chosen = doubled[len(one) :] if len(other) == fewer else doubled[: len(one)]
    below, above = _exact_tails(tuple(np.sort(doubled).tolist()), fewer, int(chosen.sum()))
    smaller, larger = (below, above) if len(other) == fewer else (above, below)
    return RankTest(u, pairs, smaller, larger, exact=True)


def sample(values: npt.ArrayLike) -> Floats:
    """A sample as an array. Raises ValueError if it is empty, has more than one dimension, or a value is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError("a sample is a sequence of at least one number")
    if not np.isfinite(array).all():
        raise ValueError("a sample has a value that is not finite")
    return array


def doubled_midranks(values: Floats) -> npt.NDArray[np.int64]:
    """Twice the rank of each value; equal values share the mean of their ranks, which makes the doubled ones whole."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (2 * ends - counts + 1)[inverse]


def is_exact(fewer: int, more: int) -> bool:
    """Whether samples of these sizes get exact probabilities."""
    return (fewer + more) * fewer * fewer * (2 * more + fewer + 1) <= EXACT_WORK_MAX


def _exact_tails(doubled: tuple[int, ...], chosen: int, total: int) -> tuple[float, float]:
    """The share of choices with a sum of doubled ranks at most `total`, and at least `total`."""
    cumulated = _cumulated(doubled, chosen)
    below = float(cumulated[min(total, len(cumulated) - 1)])
    less = float(cumulated[total - 1]) if total > 0 else 0.0
    every = float(cumulated[-1])
    return below / every, (every - less) / every


@lru_cache(maxsize=1024)
def _cumulated(doubled: tuple[int, ...], chosen: int) -> Floats:
    """By sum of doubled ranks: in how many ways `chosen` of the ranks have this sum or a smaller one.

    `doubled` is sorted. Ranks are counted from the smallest, in the largest unit that divides their distances, and only
    numbers of ranks that can still become `chosen` are followed, over the sums that they can have.
    """
    least = doubled[0]
    unit = gcd(*(rank - least for rank in doubled)) or 1
    ranks = [(rank - least) // unit for rank in doubled]
    sums = [0, *accumulate(ranks)]
    ways = np.zeros((chosen + 1, sums[-1] - sums[-1 - chosen] + 1))
    ways[0, 0] = 1
    for number, rank in enumerate(ranks, 1):
        low, high = max(1, chosen - (len(ranks) - number)), min(chosen, number)
        start, end = sums[low - 1], sums[number] - sums[number - high] - rank + 1
        ways[low : high + 1, start + rank : end + rank] += ways[low - 1 : high, start:end]
    below = np.zeros(chosen * least)
    cumulated = np.concatenate((below, np.repeat(np.cumsum(ways[chosen]), unit)))[: sum(doubled[-chosen:]) + 1]
    cumulated.setflags(write=False)
    return cumulated


def _normal_tails(u: float, first: int, second: int, doubled: npt.NDArray[np.int64]) -> tuple[float, float]:
    both, pairs = first + second, first * second
    _, ties = np.unique(doubled, return_counts=True)
    tied = float((ties.astype(np.float64) ** 3 - ties).sum())
    variance = pairs / 12 * (both + 1 - tied / (both * (both - 1)))
    if variance <= 0:
        return 1.0, 1.0
    spread = sqrt(variance)
    return _upper((pairs / 2 - u - 0.5) / spread), _upper((u - pairs / 2 - 0.5) / spread)


def _upper(z: float) -> float:
    return 0.5 * erfc(z / sqrt(2))


def smallest_p(first: int, second: int) -> float:
    """The smallest two-sided p-value that samples of these sizes can have: that of two samples without overlap."""
    test = rank_test(np.arange(first), np.arange(first, first + second))
    return test.p


def pairwise_interval(first: int, second: int, differences: Floats, confidence: float) -> tuple[float, float]:
    """The confidence interval of a shift, from the sorted differences of all pairs.

    Zero lies outside it exactly if the two-sided p-value is at most 1 - confidence. Samples that are too small for the
    confidence have an interval without ends.
    """
    cut = _outside(first, second, (1 - confidence) / 2)
    if not cut:
        return -inf, inf
    return float(differences[cut - 1]), float(differences[-cut])


@lru_cache(maxsize=256)
def _outside(first: int, second: int, tail: float) -> int:
    """How many differences lie outside the interval on each side: the most with P(U < that) <= tail."""
    fewer, more = sorted((first, second))
    pairs = first * second
    if not is_exact(fewer, more):
        spread = sqrt(pairs * (first + second + 1) / 12)
        return max(0, floor(pairs / 2 + NormalDist().inv_cdf(tail) * spread))
    cumulated = _cumulated(tuple(range(2, 2 * (first + second) + 1, 2)), fewer)
    by_u = cumulated[fewer * (fewer + 1) :: 2] / cumulated[-1]
    assert all(one <= other for one, other in pairwise(by_u[:3]))
    return int(np.searchsorted(by_u, tail * (1 + 1e-12), side="right"))
