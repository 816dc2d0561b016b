"""Alarms: within three nights of a step, and their false alarm rate over forged nights with real noise."""

from __future__ import annotations

from collections.abc import Callable
from math import comb, inf, nan

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squall.results.trends.alarms import RECENT, alarm_of_the_last_night, alarms, least_p, nights_needed
from squall.results.trends.change_points import ChangeRules
from squall.results.trends.ranks import rank_test
from tests.results.trends.forged_nights import REPETITIONS_A_NIGHT, figures, with_step

Floats = npt.NDArray[np.float64]


def noisy(nights: int = 60, *, seed: int = 1, noise: float = 0.02) -> Floats:
    return 100 * np.exp(np.random.default_rng(seed).normal(0, noise, nights))


def test_an_alarm_is_raised_on_the_third_night_of_a_step() -> None:
    (alarm,) = alarms(with_step(noisy(), 40, 1.1))
    assert (alarm.night, alarm.since, alarm.cause) == (42, 40, "metric")
    assert alarm.shift == pytest.approx(0.1, abs=0.03)


def test_each_alarm_is_that_of_the_series_up_to_its_night() -> None:
    """Nothing later changes it: what a night decided stays decided."""
    series = with_step(with_step(noisy(120), 40, 1.1), 90, 0.85)
    found = alarms(series)
    assert [one.night for one in found] == [42, 92]
    by_night = [alarm_of_the_last_night(series[: night + 1]) for night in range(len(series))]
    assert tuple(one for one in by_night if one is not None) == found


def test_only_the_last_120_nights_are_the_reference() -> None:
    """Before them the metric varied so much that nothing after would stand out."""
    series = np.concatenate((np.where(np.arange(100) % 2, 80.0, 120.0), noisy(123, noise=0.005)))
    (alarm,) = alarms(with_step(series, 220, 1.1))
    assert alarm.night == 222
    assert alarm.p == pytest.approx(2 / comb(123, 3))


def test_two_bad_nights_raise_no_alarm() -> None:
    series = noisy()
    series[40:42] *= 1.5
    assert alarms(series) == ()


def test_a_lasting_step_raises_one_alarm_only() -> None:
    assert len(alarms(with_step(noisy(120), 30, 1.3))) == 1


def test_a_step_below_the_minimum_shift_raises_none() -> None:
    assert alarms(with_step(noisy(noise=0.001), 40, 1.02)) == ()


@given(
    st.lists(st.integers(0, 12).map(float), min_size=3, max_size=40),
    st.lists(st.integers(0, 14).map(float), min_size=RECENT, max_size=RECENT),
)
def test_the_bound_that_spares_a_rank_test_is_never_above_its_p(reference: list[float], recent: list[float]) -> None:
    assert least_p(np.array(reference), np.array(recent)) <= rank_test(reference, recent).p * (1 + 1e-12)


def test_the_bound_is_that_p_where_nothing_overlaps() -> None:
    reference, recent = np.arange(40.0), np.array([50.0, 51.0, 52.0])
    assert least_p(reference, recent) == pytest.approx(rank_test(reference, recent).p) == pytest.approx(2 / comb(43, 3))


def test_the_nights_needed_follow_from_the_number_of_arrangements() -> None:
    assert nights_needed() == 21
    assert 2 / comb(21 + 3, 3) <= 0.001 < 2 / comb(20 + 3, 3)
    assert nights_needed(ChangeRules(alpha=0.01)) == 9


def test_no_alarm_is_raised_before_enough_nights_are_known() -> None:
    assert alarms(with_step(noisy(23), 20, 2.0)) == ()
    assert [one.night for one in alarms(with_step(noisy(24), 21, 2.0))] == [23]


def test_an_alarm_on_nights_when_the_canary_differs_is_the_environments() -> None:
    metric = with_step(noisy(), 40, 1.2)
    assert alarms(metric, with_step(noisy(seed=2), 40, 0.8))[0].cause == "environment"
    assert alarms(metric, noisy(seed=2))[0].cause == "metric"


def test_a_canary_without_figures_on_those_nights_explains_nothing() -> None:
    canary = with_step(noisy(seed=2), 40, 0.8)
    canary[40:43] = nan
    assert alarms(with_step(noisy(), 40, 1.2), canary)[0].cause == "metric"


def test_a_night_without_a_figure_neither_raises_nor_counts() -> None:
    series = with_step(noisy(), 40, 1.2)
    series[41] = nan
    assert [(one.night, one.since) for one in alarms(series)] == [(43, 40)]
    assert alarm_of_the_last_night(series[:42]) is None
    assert alarm_of_the_last_night([]) is None


def test_an_infinite_value_or_a_canary_of_other_nights_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        alarms([1.0, inf])
    with pytest.raises(ValueError, match="canary"):
        alarms([1.0, 2.0], [1.0])


@settings(max_examples=25)
@given(st.lists(st.integers(1, 40).map(float), min_size=20, max_size=40), st.integers(-8, 8))
def test_the_unit_of_a_metric_does_not_matter(values: list[float], exponent: int) -> None:
    rules = ChangeRules(alpha=0.05)
    plain, scaled = alarms(values, rules=rules), alarms(np.array(values) * 2.0**exponent, rules=rules)
    assert [(one.night, one.since, one.p) for one in plain] == [(one.night, one.since, one.p) for one in scaled]


def false_alarms(seed: int, series: int) -> int:
    rng = np.random.default_rng(seed)
    some = min(series, 200)  # at once, for the sake of memory
    parts = (figures(rng, some, 60, REPETITIONS_A_NIGHT) for _ in range(series // some))
    return sum(len(alarms(one)) for part in parts for one in part)


def found_in_time(seed: int, series: int) -> int:
    """Of series with a step of 10 % on a random night, how many raise an alarm on one of its first three nights."""
    rng = np.random.default_rng(seed)
    found = 0
    for one in figures(rng, series, 60, REPETITIONS_A_NIGHT):
        night = int(rng.integers(30, 61 - RECENT))
        raised = [alarm.night for alarm in alarms(with_step(one, night, 1.1))]
        found += any(night <= other < night + RECENT for other in raised)
    return found


def test_of_12_000_nights_at_most_one_in_a_thousand_raises_a_false_alarm() -> None:
    assert false_alarms(1, 200) <= 12


def test_nine_of_ten_steps_of_ten_per_cent_are_found_in_three_nights() -> None:
    assert found_in_time(2, 200) >= 180


@pytest.mark.full
def test_the_false_alarm_rate_holds_over_300_000_nights() -> None:
    """At one in a thousand there would be 300; the bound leaves no doubt that the rate is smaller."""
    assert false_alarms(3, 5_000) < 250


def skewed(rng: np.random.Generator) -> Floats:
    return np.exp(rng.normal(0, 1, (60, 60)))


def with_outliers(rng: np.random.Generator) -> Floats:
    return np.where(rng.random((60, 60)) < 0.03, 10.0, 1.0) * np.exp(rng.normal(0, 0.05, (60, 60)))


def tied(rng: np.random.Generator) -> Floats:
    return rng.integers(1, 4, (60, 60)).astype(np.float64)


@pytest.mark.parametrize("noise", [skewed, with_outliers, tied])
def test_the_false_alarm_rate_needs_no_normal_noise(noise: Callable[[np.random.Generator], Floats]) -> None:
    assert sum(len(alarms(one)) for one in noise(np.random.default_rng(5))) <= 4
