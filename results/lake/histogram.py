"""Latency histograms of the lake: add them up, and read quantiles off the sum.

The classes are those of `checkers/kernels/series.py`: class n holds latencies up to its edge, one per cent above the
edge below. Counts of any number of runs add up, so a quantile over runs is read off the sum. Percentiles are never
averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from squall.results.verdict.latency import quantile


def added(histograms: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Counter[int]:
    """Add up histograms, each given as classes and counts."""
    total: Counter[int] = Counter()
    for classes, counts in histograms:
        for number, count in zip(classes, counts, strict=True):
            total[number] += count
    return total


def quantile_seconds(histogram: Counter[int], share: float) -> float | None:
    """Return the seconds that this share of all latencies does not exceed; None for an empty histogram."""
    return quantile(histogram, share) / 1e9 if histogram.total() else None
