"""The rank test against its definition, counted over all arrangements, and against published critical values."""

from __future__ import annotations

from itertools import combinations
from math import comb, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.trends import ranks
from squall.results.trends.ranks import pairwise_interval, rank_test, smallest_p

FEW = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=6)
DISTINCT = st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=30, unique=True)


def wins(first: list[float], second: list[float]) -> float:
    return sum((b > a) + (b == a) / 2 for a in first for b in second)


def tails_by_counting(first: list[float], second: list[float]) -> tuple[float, float]:
    """Over all ways to say which values are those of the second sample."""
    both = first + second
    seen = wins(first, second)
    counts = []
    for chosen in combinations(range(len(both)), len(second)):
        rest = [both[at] for at in range(len(both)) if at not in chosen]
        counts.append(wins(rest, [both[at] for at in chosen]))
    return sum(one <= seen for one in counts) / len(counts), sum(one >= seen for one in counts) / len(counts)


@given(FEW, FEW)
def test_small_samples_get_the_probabilities_of_all_arrangements(first: list[float], second: list[float]) -> None:
    test = rank_test(first, second)
    assert test.exact
    assert test.u == wins(first, second)
    assert (test.smaller, test.larger) == pytest.approx(tails_by_counting(first, second), abs=1e-12)


@given(FEW, FEW)
def test_exchanging_the_samples_exchanges_the_tails(first: list[float], second: list[float]) -> None:
    test, mirrored = rank_test(first, second), rank_test(second, first)
    assert (test.smaller, test.larger) == pytest.approx((mirrored.larger, mirrored.smaller), abs=1e-12)
    assert test.delta == -mirrored.delta


@pytest.mark.parametrize(("first", "second", "critical"), [(5, 5, 2), (8, 8, 13), (10, 10, 23), (6, 12, 14)])
def test_critical_values_are_those_of_published_tables(first: int, second: int, critical: int) -> None:
    """Two-sided, 5 %: the largest U that is significant."""

    def p_of(u: int) -> float:
        cumulated = ranks._cumulated(tuple(range(2, 2 * (first + second) + 1, 2)), first)
        return float(2 * cumulated[first * (first + 1) :: 2][u] / cumulated[-1])

    assert p_of(critical) <= 0.05 < p_of(critical + 1)
    assert ranks._outside(first, second, 0.025) == critical + 1


@pytest.mark.parametrize(("values", "more"), [(40, 4), (3, 0)])
def test_the_normal_approximation_agrees_with_exact_tails(
    values: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few ties, and with samples of three different values only."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, values, 30), rng.integers(more, values + more, 30)
    exact = rank_test(first, second)
    monkeypatch.setattr(ranks, "EXACT_WORK_MAX", 0)
    approximate = rank_test(first, second)
    assert exact.exact and not approximate.exact
    assert approximate.p == pytest.approx(exact.p, rel=0.05)
    assert approximate.larger == pytest.approx(exact.larger, rel=0.05)
    assert approximate.smaller == pytest.approx(exact.smaller, rel=0.05)


def test_equal_values_throughout_show_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rank_test([1.0] * 8, [1.0] * 9).p == 1
    monkeypatch.setattr(ranks, "EXACT_WORK_MAX", 0)
    assert rank_test([1.0] * 8, [1.0] * 9).p == 1


def test_the_smallest_p_is_that_of_one_arrangement_on_each_side() -> None:
    assert smallest_p(57, 3) == pytest.approx(2 / comb(60, 3))
    assert smallest_p(3, 57) == smallest_p(57, 3)


@given(DISTINCT, st.data())
def test_the_interval_leaves_out_zero_exactly_when_significant(both: list[float], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(both) - 1))
    first, second = np.array(both[:cut]), np.array(both[cut:])
    differences = np.sort((second[:, None] - first[None, :]).ravel())
    low, high = pairwise_interval(len(first), len(second), differences, 0.95)
    assert (low > 0 or high < 0) == (rank_test(first, second).p <= 0.05)


def test_samples_too_small_for_an_interval_have_one_without_ends() -> None:
    assert pairwise_interval(3, 3, np.arange(9.0), 0.95) == (-inf, inf)
    assert pairwise_interval(4, 4, np.arange(16.0), 0.95) == (0, 15)


@pytest.mark.parametrize("wrong", [[], [float("nan")], [float("inf")], [[1.0]]])
def test_what_is_no_sample_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="sample"):
        rank_test([1.0], wrong)
