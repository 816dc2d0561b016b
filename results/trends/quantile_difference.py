"""The difference of a latency quantile between two samples of runs, with a bootstrap interval over runs.

A run is a histogram: values, and how many operations had each. Whole runs are drawn, with replacement, and the
histograms of the drawn ones added, since operations of one run share its circumstances. Quantiles are never averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from squall.results.trends.ranks import Floats

RESAMPLES = 2_000
CONFIDENCE = 0.95
RUNS_MIN = 5
"""With fewer runs in a sample the interval would claim too much, so there is none."""


@dataclass(frozen=True)
class Histogram:
    """The latencies of one run: distinct values, or upper ends of classes, and the number of operations of each."""

    values: Floats
    counts: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.values.shape != self.counts.shape or self.values.ndim != 1 or not len(self.values):
            raise ValueError("a histogram has one count for each of its values, and at least one")
        if not np.isfinite(self.values).all() or (self.counts < 0).any() or not self.counts.any():
            raise ValueError("a histogram has finite values, no negative count, and counts something")

    @classmethod
    def of(cls, latencies: npt.ArrayLike) -> Histogram:
        """The histogram of single latencies."""
        values, counts = np.unique(np.asarray(latencies, dtype=np.float64), return_counts=True)
        return cls(values, counts.astype(np.int64))


@dataclass(frozen=True)
class QuantileDifference:
    """The quantile of all operations of each sample, candidate minus baseline, and the ends of its interval.

    The ends are None if a sample has fewer than five runs.
    """

    share: float
    baseline: float
    candidate: float
    low: float | None
    high: float | None

    @property
    def difference(self) -> float:
        return self.candidate - self.baseline


def quantile_difference(
    baseline: Sequence[Histogram], candidate: Sequence[Histogram], share: float, *, seed: int
) -> QuantileDifference:
    """Compare a quantile, such as 0.99, of two samples of runs. The seed decides which runs are drawn.

    Raises ValueError for a sample without runs or a share that is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise ValueError("a quantile's share lies between 0 and 1")
    if not baseline or not candidate:
        raise ValueError("a sample has at least one run")
    rng = np.random.default_rng(seed)
    before, after = _Pooled(baseline), _Pooled(candidate)
    low = high = None
    if min(len(baseline), len(candidate)) >= RUNS_MIN:
        differences = after.drawn(share, rng) - before.drawn(share, rng)
        low, high = np.quantile(differences, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)).tolist()
    return QuantileDifference(share, before.quantile(share), after.quantile(share), low, high)


class _Pooled:
    """The histograms of a sample over the same values, cumulated: a row for each run."""

    def __init__(self, runs: Sequence[Histogram]) -> None:
        self._values = np.unique(np.concatenate([one.values for one in runs]))
        counts = np.zeros((len(runs), len(self._values)))
        for row, one in zip(counts, runs, strict=True):
            np.add.at(row, np.searchsorted(self._values, one.values), one.counts)
        self._cumulated = counts.cumsum(axis=1)

    def quantile(self, share: float) -> float:
        return float(self._quantiles(np.ones((1, len(self._cumulated))), share)[0])

    def drawn(self, share: float, rng: np.random.Generator) -> Floats:
        """The quantile of each of many samples of as many runs, drawn with replacement."""
        runs = len(self._cumulated)
        times = rng.multinomial(runs, np.full(runs, 1 / runs), size=RESAMPLES)
        parts = [self._quantiles(part, share) for part in np.array_split(times.astype(np.float64), 20)]
        return np.concatenate(parts)

    def _quantiles(self, times: Floats, share: float) -> Floats:
        """The smallest value that this share of the operations does not exceed, for each row of numbers of draws."""
        cumulated = times @ self._cumulated
        reached = cumulated >= share * cumulated[:, -1:] * (1 - 1e-12)
        return self._values[reached.argmax(axis=1)]
