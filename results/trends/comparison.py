"""Compare a metric of two samples of runs: by how much it differs, how certainly, and how often.

One number a run: operations of one run are not independent of each other. No assumption about the shape of the noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from squall.results.trends.change_points import relative_shift
from squall.results.trends.false_discovery import adjusted_p_values
from squall.results.trends.ranks import pairwise_interval, rank_test, sample

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """A candidate beside its baseline.

    `shift` is Hodges and Lehmann's: the median of all differences between a run of the candidate and one of the
    baseline, in the unit of the metric; `low` and `high` are the ends of its 95 % interval, infinite if there are too
    few runs for one. `relative` is the shift relative to the baseline's median. `p` is the two-sided p-value of the
    Mann-Whitney test, `adjusted_p` the same among all metrics that were compared together. `delta` is Cliff's: 1 if
    every run of the candidate has a larger value than every one of the baseline, -1 if a smaller one.
    """

    baseline_runs: int
    candidate_runs: int
    shift: float
    low: float
    high: float
    relative: float
    p: float
    adjusted_p: float
    delta: float


def compare(baseline: npt.ArrayLike, candidate: npt.ArrayLike) -> Comparison:
    """Compare two samples. Raises ValueError if one is empty or has a value that is not finite."""
    before, after = sample(baseline), sample(candidate)
    differences = np.sort((after[:, None] - before[None, :]).ravel())
    test = rank_test(before, after)
    low, high = pairwise_interval(len(before), len(after), differences, CONFIDENCE)
    level, shift = float(np.median(before)), float(np.median(differences))
    return Comparison(
        baseline_runs=len(before),
        candidate_runs=len(after),
        shift=shift,
        low=low,
        high=high,
        relative=relative_shift(level, level + shift),
        p=test.p,
        adjusted_p=test.p,
        delta=test.delta,
    )


def compare_all(metrics: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]) -> dict[str, Comparison]:
    """Compare many metrics, each a pair of baseline and candidate, with p-values adjusted for their number."""
    found = {name: compare(*samples) for name, samples in metrics.items()}
    adjusted = adjusted_p_values([one.p for one in found.values()])
    return {name: replace(one, adjusted_p=p) for (name, one), p in zip(found.items(), adjusted, strict=True)}
