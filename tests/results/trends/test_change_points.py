"""The segmentation: shifts that are there are found where they are, others are not, and nothing else matters."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.trends.change_points import (
    ChangeRules,
    _Distances,
    change_points,
    relative_shift,
)
from tests.results.trends.forged_nights import REPETITIONS_A_NIGHT, figures, with_step

Floats = npt.NDArray[np.float64]


def noisy(nights: int = 60, *, seed: int = 1, noise: float = 0.02) -> Floats:
    return 100 * np.exp(np.random.default_rng(seed).normal(0, noise, nights))


def nights_of(values: Floats, **rules: float) -> list[int]:
    return [one.night for one in change_points(values, rules=ChangeRules(**rules))]  # type: ignore[arg-type]


def test_a_step_is_found_on_its_night_with_its_size() -> None:
    (point,) = change_points(with_step(noisy(), 40, 1.1))
    assert (point.night, point.cause, point.provisional) == (40, "metric", False)
    assert point.shift == pytest.approx(0.1, abs=0.02)
    assert point.before == pytest.approx(100, rel=0.01) and point.after == pytest.approx(110, rel=0.01)
    assert point.p < 0.001


def test_a_series_that_only_varies_has_no_point() -> None:
    assert change_points(noisy()) == ()


def test_a_step_smaller_than_the_minimum_shift_is_none() -> None:
    series = with_step(noisy(noise=0.002), 30, 1.025)
    assert nights_of(series) == []
    assert nights_of(series, minimum_shift=0.02) == [30]


def test_two_shifts_that_cancel_each_other_are_both_found() -> None:
    """Neither alone separates the whole series: before and after have the same level."""
    series = with_step(with_step(noisy(90), 40, 1.15), 50, 1 / 1.15)
    assert nights_of(series) == [40, 50]


def test_one_outlier_is_no_change_of_level() -> None:
    series = noisy()
    series[30] *= 3
    assert change_points(series) == ()


def test_three_nights_are_a_segment_and_two_are_not() -> None:
    assert nights_of(with_step(noisy(), 57, 1.2)) == [57]
    assert nights_of(with_step(noisy(), 58, 1.2)) == []


def test_a_point_that_rests_on_the_last_night_is_provisional() -> None:
    """Three nights after 22 are as few as a point can rest on; of 24 nights the last three would not do."""
    series = with_step(noisy(26), 22, 1.2)
    assert [(one.night, one.provisional) for one in change_points(series[:25])] == [(22, True)]
    assert [(one.night, one.provisional) for one in change_points(series)] == [(22, False)]


def test_a_point_shared_with_the_canary_is_the_environments() -> None:
    metric = with_step(with_step(noisy(100), 35, 1.2), 70, 1.2)
    canary = with_step(noisy(100, seed=2), 36, 0.8)
    assert [(one.night, one.cause) for one in change_points(metric, canary)] == [(35, "environment"), (70, "metric")]


def test_a_canary_that_changed_on_other_nights_explains_nothing() -> None:
    metric, canary = with_step(noisy(100), 70, 1.2), with_step(noisy(100, seed=2), 35, 0.8)
    assert [one.cause for one in change_points(metric, canary)] == ["metric"]


def test_nights_without_a_figure_are_left_out_and_keep_their_number() -> None:
    series = with_step(noisy(80), 50, 1.1)
    series[[0, 10, 11, 12, 60]] = nan
    assert nights_of(series) == [50]
    assert change_points(np.full(20, nan)) == ()


@pytest.mark.parametrize("nights", range(7))
def test_a_short_series_has_no_point(nights: int) -> None:
    assert change_points(np.arange(float(nights))) == ()


def test_an_infinite_value_or_a_canary_of_other_nights_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        change_points([1.0, inf])
    with pytest.raises(ValueError, match="canary"):
        change_points([1.0, 2.0], [1.0])


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 0.1}, {"minimum_segment": 1}, {"minimum_shift": -0.1}])
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        ChangeRules(**wrong)  # type: ignore[arg-type]


def test_a_shift_from_zero_is_infinite() -> None:
    assert relative_shift(0, 1) == inf and relative_shift(0, -1) == -inf and relative_shift(0, 0) == 0
    assert relative_shift(-2, -1) == 0.5


SERIES = st.lists(st.integers(1, 50).map(float), min_size=6, max_size=40)


@given(SERIES, st.integers(-8, 8))
def test_the_unit_of_a_metric_does_not_matter(values: list[float], exponent: int) -> None:
    plain, scaled = change_points(values), change_points(np.array(values) * 2.0**exponent)
    assert [(one.night, one.shift, one.p) for one in plain] == [(one.night, one.shift, one.p) for one in scaled]


@given(SERIES)
def test_every_point_keeps_the_rules_it_was_found_by(values: list[float]) -> None:
    rules = ChangeRules(alpha=0.05, weak_alpha=0.2)
    nights = [0, *(one.night for one in change_points(values, rules=rules)), len(values)]
    assert all(after - before >= rules.minimum_segment for before, after in pairwise(nights))
    assert all(one.p < 0.05 and abs(one.shift) >= 0.03 for one in change_points(values, rules=rules))


@given(st.lists(st.integers(0, 100).map(float), min_size=6, max_size=20))
def test_the_best_split_is_that_of_the_definition(values: list[float]) -> None:
    def energy(split: int) -> float:
        first, second = values[:split], values[split:]
        a, b = len(first), len(second)
        cross = sum(abs(x - y) for x in first for y in second)
        within = [sum(abs(x - y) for x in part for y in part) / (n * (n - 1)) for part, n in ((first, a), (second, b))]
        return a * b / (a + b) * (2 * cross / (a * b) - sum(within))

    best = _Distances(np.array(values)).best_split(0, len(values), 3)
    assert energy(best) == pytest.approx(max(energy(one) for one in range(3, len(values) - 2)))


def test_steps_are_found_in_real_noise_and_hardly_anything_else() -> None:
    """100 series of 60 nights, a step of 10 % on a random night."""
    rng = np.random.default_rng(4)
    found, others = 0, 0
    for series in figures(rng, 100, 60, REPETITIONS_A_NIGHT):
        night = int(rng.integers(10, 51))
        nights = nights_of(with_step(series, night, 1.1))
        found += any(abs(one - night) <= 3 for one in nights)
        others += sum(abs(one - night) > 3 for one in nights)
    assert found >= 97, found
    assert others <= 5, others
