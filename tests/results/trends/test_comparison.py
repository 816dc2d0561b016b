"""Two samples beside each other: shift, interval, p-value, effect size, and many metrics at once."""

from __future__ import annotations

from itertools import product
from math import inf, isclose
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.trends.comparison import compare, compare_all
from squall.results.trends.false_discovery import adjusted_p_values
from tests.results.trends.forged_nights import REPETITIONS_A_RUN, figures

SAMPLE = st.lists(st.integers(-100, 100).map(float), min_size=1, max_size=12)
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def test_a_shift_is_the_median_of_all_differences() -> None:
    one = compare([10, 11, 12, 13, 14], [12, 13, 14, 15, 26])
    assert one.shift == median(b - a for a, b in product([10, 11, 12, 13, 14], [12, 13, 14, 15, 26]))
    assert (one.relative, one.baseline_runs, one.candidate_runs) == (one.shift / 12, 5, 5)


def test_samples_without_overlap_have_the_largest_effect() -> None:
    one = compare([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    assert (one.delta, one.shift) == (1, 5)
    assert one.p == pytest.approx(2 / 252)
    assert 0 < one.low <= one.shift <= one.high
    assert compare([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]).delta == -1


def test_three_runs_each_give_no_interval() -> None:
    one = compare([1, 2, 3], [11, 12, 13])
    assert (one.low, one.high) == (-inf, inf)


@given(SAMPLE, SAMPLE)
def test_exchanging_baseline_and_candidate_turns_the_sign(first: list[float], second: list[float]) -> None:
    one, mirrored = compare(first, second), compare(second, first)
    assert (one.shift, one.low, one.high, one.delta) == (
        -mirrored.shift,
        -mirrored.high,
        -mirrored.low,
        -mirrored.delta,
    )
    assert isclose(one.p, mirrored.p, abs_tol=1e-12)


@given(SAMPLE, st.integers(-50, 50))
def test_adding_to_every_run_shifts_by_as_much(first: list[float], more: int) -> None:
    second = list(reversed(first))
    assert compare(first, np.array(second) + more).shift == compare(first, second).shift + more == more


@given(SAMPLE, SAMPLE, st.integers(-8, 8))
def test_the_unit_of_a_metric_does_not_matter(first: list[float], second: list[float], exponent: int) -> None:
    unit = 2.0**exponent
    one, scaled = compare(first, second), compare(np.array(first) * unit, np.array(second) * unit)
    assert (scaled.shift, scaled.low, scaled.high) == (one.shift * unit, one.low * unit, one.high * unit)
    assert (scaled.p, scaled.delta, scaled.relative) == (one.p, one.delta, one.relative)


def test_the_interval_covers_the_true_shift_as_often_as_it_says() -> None:
    """400 pairs of ten runs with real noise, the candidate larger by a constant."""
    rng = np.random.default_rng(6)
    first, second = figures(rng, 400, 10, REPETITIONS_A_RUN), figures(rng, 400, 10, REPETITIONS_A_RUN) + 0.1
    covered = sum(one.low <= 0.1 <= one.high for one in map(compare, first, second))
    assert 370 <= covered <= 395


def test_a_figure_that_is_significant_alone_may_not_be_among_many() -> None:
    different = ([1.0, 2, 3, 4], [4.5, 6, 7, 8])
    alike = ([1.0, 2, 3, 4], [1.5, 2.5, 3.5, 2.7])
    found = compare_all({"p99": different, **{f"m{number}": alike for number in range(9)}})
    assert next(iter(found)) == "p99"
    assert found["p99"].p == compare(*different).p < 0.05 < found["p99"].adjusted_p


def test_adjusted_p_values_are_those_of_the_procedure() -> None:
    assert adjusted_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.02, 0.04, 0.04, 0.02))
    assert adjusted_p_values([]) == ()


@given(P_VALUES, st.floats(0.001, 1))
def test_adjusting_rejects_what_the_step_up_procedure_rejects(p_values: list[float], level: float) -> None:
    """Benjamini and Hochberg: reject the k smallest for the largest k with p(k) <= k/m * level."""
    ordered = sorted(p_values)
    margin = 1e-12
    sure = [k for k, p in enumerate(ordered, 1) if p <= k / len(ordered) * level * (1 - margin)]
    possible = [k for k, p in enumerate(ordered, 1) if p <= k / len(ordered) * level * (1 + margin)]
    rejected = sum(one <= level for one in adjusted_p_values(p_values))
    assert max(sure, default=0) <= rejected <= max(possible, default=0)


@given(P_VALUES)
def test_adjusting_keeps_the_order_and_never_lowers(p_values: list[float]) -> None:
    adjusted = adjusted_p_values(p_values)
    assert all(p <= after * (1 + 1e-12) <= 1 + 1e-9 for p, after in zip(p_values, adjusted, strict=True))
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert [one for _, one in pairs] == sorted(adjusted)


def test_what_is_no_p_value_is_refused() -> None:
    with pytest.raises(ValueError):
        adjusted_p_values([0.5, 1.5])
    with pytest.raises(ValueError):
        adjusted_p_values([float("nan")])
