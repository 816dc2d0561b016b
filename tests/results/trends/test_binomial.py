"""Intervals of a probability and the exact binomial test, against their definitions and published values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.trends.binomial import (
    Interval,
    beta_below,
    beta_interval,
    beta_quantile,
    probability_of_at_least,
    wilson_interval,
)

COUNTS = st.integers(1, 200).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs)))


def exactly(events: int, runs: int, probability: Fraction) -> Fraction:
    return sum(
        (comb(runs, k) * probability**k * (1 - probability) ** (runs - k) for k in range(events, runs + 1)), Fraction(0)
    )


@given(COUNTS, st.integers(0, 20))
def test_the_tail_is_that_of_exact_arithmetic(counts: tuple[int, int], twentieths: int) -> None:
    probability = Fraction(twentieths, 20)
    tail = probability_of_at_least(*counts, float(probability))
    assert tail == pytest.approx(float(exactly(*counts, probability)), rel=1e-9, abs=1e-300)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 19))
def test_the_incomplete_beta_function_is_a_binomial_tail(a: int, b: int, twentieths: int) -> None:
    value = Fraction(twentieths, 20)
    assert beta_below(float(value), a, b) == pytest.approx(float(exactly(a, a + b - 1, value)), rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.5, 30.5), (3.5, 7.5), (200.5, 2.5), (1000.5, 1000.5)])
@pytest.mark.parametrize("share", [0.025, 0.5, 0.975])
def test_quantiles_invert_the_distribution(a: float, b: float, share: float) -> None:
    assert beta_below(beta_quantile(share, a, b), a, b) == pytest.approx(share, rel=1e-9)


def test_half_integers_agree_with_integration() -> None:
    steps = (np.arange(200_000) + 0.5) / 200_000
    density = steps**2.5 * (1 - steps) ** 6.5
    assert beta_below(0.4, 3.5, 7.5) == pytest.approx(float(density[steps < 0.4].sum() / density.sum()), rel=1e-8)


def test_wilson_interval_is_the_published_one() -> None:
    """Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for events, runs, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)):
        one = wilson_interval(events, runs)
        assert (one.low, one.high) == pytest.approx((low, high), abs=5e-5)
    assert wilson_interval(1, 29).high == pytest.approx(0.1718, abs=5e-5)


@given(COUNTS)
def test_intervals_contain_the_share_and_mirror_each_other(counts: tuple[int, int]) -> None:
    events, runs = counts
    for interval in (wilson_interval, beta_interval):
        one, mirrored = interval(events, runs), interval(runs - events, runs)
        assert 0 <= one.low <= events / runs <= one.high <= 1
        assert (one.low, one.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-12)


@pytest.mark.parametrize("interval", [wilson_interval, beta_interval])
def test_intervals_cover_as_often_as_they_say_on_average(interval: Callable[[int, int], Interval]) -> None:
    """Exactly, for 50 runs: the probability of a count whose interval has the true rate in it."""
    covered = []
    ends = [interval(events, 50) for events in range(51)]
    for percent in range(5, 96, 5):
        rate = percent / 100
        within = [events for events in range(51) if ends[events].low <= rate <= ends[events].high]
        covered.append(sum(comb(50, k) * rate**k * (1 - rate) ** (50 - k) for k in within))
    assert min(covered) > 0.88
    assert 0.94 < sum(covered) / len(covered) < 0.96


@pytest.mark.parametrize(("events", "runs"), [(0, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(events: int, runs: int) -> None:
    for refusing in (wilson_interval, beta_interval):
        with pytest.raises(ValueError, match="no count"):
            refusing(events, runs)
    with pytest.raises(ValueError, match="probability"):
        probability_of_at_least(1, 2, 1.5)
