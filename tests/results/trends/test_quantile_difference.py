"""Quantiles of two samples of runs: of all operations together, with an interval over runs."""

from __future__ import annotations

import numpy as np
import pytest

from squall.results.trends.quantile_difference import Histogram, quantile_difference


def runs(seed: int, number: int, level: float = 1.0, between_runs: float = 0.05) -> list[Histogram]:
    """Runs of 500 latencies in classes one per cent wide; each run has a level of its own."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(number):
        latencies = level * np.exp(rng.normal(0, between_runs) + rng.normal(0, 0.5, 500))
        made.append(Histogram.of(np.exp(np.ceil(np.log(latencies) * 100) / 100)))
    return made


def test_a_quantile_is_that_of_all_operations_together() -> None:
    """It is no mean of the runs' quantiles: the second run is much longer."""
    short, long = Histogram.of([100.0] * 10), Histogram(np.array([1.0, 2.0]), np.array([900, 100]))
    one = quantile_difference([short, long], [short, long], 0.9, seed=1)
    assert one.baseline == 2.0 == np.quantile([100.0] * 10 + [1.0] * 900 + [2.0] * 100, 0.9, method="inverted_cdf")
    assert (one.difference, one.low, one.high) == (0, None, None)


def test_runs_that_are_slower_by_a_tenth_are_found_to_be() -> None:
    one = quantile_difference(runs(1, 20), runs(2, 20, 1.1), 0.99, seed=1)
    assert one.low is not None and one.high is not None
    assert 0 < one.low < one.difference < one.high
    assert one.difference / one.baseline == pytest.approx(0.1, abs=0.07)


def test_the_interval_is_wider_if_runs_differ_more_among_themselves() -> None:
    """Operations of one run are not independent: so many of them do not make it narrow."""
    alike = quantile_difference(runs(1, 20, between_runs=0.01), runs(2, 20, between_runs=0.01), 0.5, seed=1)
    different = quantile_difference(runs(1, 20, between_runs=0.2), runs(2, 20, between_runs=0.2), 0.5, seed=1)
    assert alike.low is not None and alike.high is not None
    assert different.low is not None and different.high is not None
    assert different.high - different.low > 3 * (alike.high - alike.low)


def test_the_seed_decides_the_interval_and_nothing_else() -> None:
    before, after = runs(1, 8), runs(2, 8)
    first, again, other = (quantile_difference(before, after, 0.99, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.difference == other.difference and (first.low, first.high) != (other.low, other.high)


def test_the_interval_covers_the_true_difference_nearly_as_often_as_said() -> None:
    """Two samples of 15 runs without a difference. A bootstrap over few runs claims a little too much."""
    covered = 0
    for seed in range(60):
        one = quantile_difference(runs(2 * seed, 15), runs(2 * seed + 1, 15), 0.9, seed=seed)
        assert one.low is not None and one.high is not None
        covered += one.low <= 0 <= one.high
    assert 0.87 * 60 <= covered <= 60


def test_the_unit_does_not_matter() -> None:
    before, after = runs(1, 6), runs(2, 6)
    scaled = [[Histogram(one.values * 8, one.counts) for one in sample] for sample in (before, after)]
    plain, larger = (quantile_difference(*pair, 0.99, seed=3) for pair in ((before, after), scaled))
    assert plain.low is not None and plain.high is not None
    assert (larger.low, larger.high, larger.difference) == (8 * plain.low, 8 * plain.high, 8 * plain.difference)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5])
def test_a_share_outside_zero_to_one_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        quantile_difference(runs(1, 5), runs(2, 5), share, seed=1)


def test_samples_without_runs_and_empty_histograms_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        quantile_difference([], runs(1, 5), 0.5, seed=1)
    for values, counts in (([], []), ([1.0], [0]), ([1.0], [-1]), ([1.0, 2.0], [1]), ([np.nan], [1])):
        with pytest.raises(ValueError, match="histogram"):
            Histogram(np.array(values), np.array(counts, dtype=np.int64))
