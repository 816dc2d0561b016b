"""The level of each of many tests: all together keep the rate, and tests that cannot fail do not count."""

from __future__ import annotations

import numpy as np
import pytest

from squall.results.trends.family_wise import level_of_each


def test_one_test_has_the_whole_level() -> None:
    assert level_of_each(0.01, [1e-6]) == 0.01


def test_tests_that_can_reach_any_level_share_it() -> None:
    assert level_of_each(0.01, [1e-9] * 20) == pytest.approx(0.01 / 20)


def test_tests_with_too_few_runs_do_not_count() -> None:
    assert level_of_each(0.01, [1e-9, 1e-9, *[0.1] * 500]) == pytest.approx(0.01 / 2)
    assert level_of_each(0.01, [0.1] * 500) == 0.01


def test_all_together_raise_a_false_alarm_at_most_at_the_stated_rate() -> None:
    """Of discrete p-values: multiples of the smallest one that a test can have."""
    rng = np.random.default_rng(1)
    smallest = np.repeat([1e-5, 1e-3, 0.02], 10)
    steps = np.floor(1 / smallest)
    p_values = rng.integers(1, steps + 1, size=(20_000, len(smallest))) / steps
    alarms = (p_values <= level_of_each(0.05, smallest.tolist())).any(axis=1)
    assert alarms.mean() <= 0.05


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        level_of_each(0.01, [2.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        level_of_each(0.0, [0.5])
