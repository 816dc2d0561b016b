"""Figures over nights: one a night, never an average of percentiles; changes with the commits between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from math import isnan

import numpy as np
import pytest

from squall.results.checkers.kernels.series import class_nanoseconds
from squall.results.regression.measured_run import MeasuredRun
from squall.results.regression.nights import (
    NightChange,
    NightSeries,
    changes_of,
    on_their_days,
    point_id,
    series_of,
)
from tests.results.regression.forged_samples import run
from tests.results.trends.forged_nights import REPETITIONS_A_NIGHT, figures

FIRST = date(2026, 9, 26)
STEP = 40


def night(number: int) -> str:
    return (FIRST + timedelta(number)).isoformat()


def nights(
    check: Callable[[int], float], nights: int = 60, *, loop: Callable[[int], float] = lambda _: 10.0
) -> list[MeasuredRun]:
    """A run a night; the commit changes every fourth night."""
    noise = np.exp(np.random.default_rng(1).normal(0, 0.02, (2, nights)))
    return [
        run(
            f"run-{at}", night=night(at), started=f"{night(at)}T01:00", commit=f"{at // 4:040x}",
            figures={"check": check(at) * noise[0, at]}, canaries={"loop_ms": loop(at) * noise[1, at]},
        )
        for at in range(nights)
    ]  # fmt: skip


def of_check(runs: list[MeasuredRun]) -> NightSeries:
    (series,) = series_of(runs, ["check"])
    return series


def stepped(at: int, by: float = 1.2) -> float:
    return 5.0 if at < STEP else 5.0 * by


def test_a_change_has_its_night_and_the_commits_between() -> None:
    point, alarm = changes_of(of_check(nights(stepped)))
    assert (point.kind, point.night, point.previous, point.worse) == (
        "change point",
        night(STEP),
        night(STEP - 1),
        True,
    )
    assert (point.commits_before, point.commits_after) == ((f"{9:040x}",), (f"{10:040x}",))
    assert (alarm.kind, alarm.night, alarm.raised) == ("alarm", night(STEP), night(STEP + 2))
    assert point.id == alarm.id == point_id("kills", "check", night(STEP))


def test_a_change_that_a_canary_shares_is_the_environments() -> None:
    point, alarm = changes_of(of_check(nights(stepped, loop=lambda at: 10.0 if at < STEP else 12.0)))
    assert point.cause == alarm.cause == "environment"
    point, alarm = changes_of(of_check(nights(stepped)))
    assert point.cause == alarm.cause == "metric"


def test_noise_alone_changes_nothing() -> None:
    assert changes_of(of_check(nights(lambda _: 5.0))) == []


def test_nights_without_the_figure_are_none_and_the_previous_one_is_measured() -> None:
    runs = nights(stepped)
    runs[STEP - 1] = run("without", night=night(STEP - 1), started=f"{night(STEP - 1)}T01:00")
    series = of_check(runs)
    assert isnan(series.values[STEP - 1])
    assert changes_of(series)[0].previous == night(STEP - 2)


def test_equal_commits_on_both_nights_are_said() -> None:
    runs = [replace(one, commit="c" * 40) for one in nights(stepped)]
    assert changes_of(of_check(runs))[0].commits == "no commit between, cccccccccc on both nights"


def test_runs_of_broken_nodes_count_only_if_there_are_no_others() -> None:
    good, broken = run("a", figures={"check": 1.0}), run("b", figures={"check": 9.0}, mutants=("truncate-to-hw",))
    assert of_check([good, broken]).values.tolist() == [1.0]
    assert of_check([broken]).values.tolist() == [9.0]


def test_nights_are_called_by_the_day_on_which_they_began() -> None:
    late = run("a", night="n1", date="2026-11-25", figures={"check": 1.0})
    other = run("b", night="shard-2", date="2026-11-24", figures={"check": 3.0})
    by_hand = run("c", night="", date="2026-11-23", figures={"check": 5.0})
    series = of_check(on_their_days([by_hand, other, late], [("n1", "2026-11-24")]))
    assert (series.nights, series.values.tolist()) == (("2026-11-23", "2026-11-24"), [5.0, 2.0])


def with_real_noise(seed: int, series: int, factor: float) -> Iterator[tuple[int, list[NightChange]]]:
    """Series of sixty nights with the noise of a real benchmark, a step on a night from the 31st on, and the alarms."""
    rng = np.random.default_rng(seed)
    for values in figures(rng, series, 60, REPETITIONS_A_NIGHT):
        step = int(rng.integers(30, 58))
        runs = [
            run(f"{at}", night=night(at), started=night(at), figures={"check": value * (factor if at >= step else 1)})
            for at, value in enumerate(values.tolist())
        ]
        yield step, [one for one in changes_of(of_check(runs)) if one.kind == "alarm"]


SIZES = [30, pytest.param(200, marks=pytest.mark.full)]


@pytest.mark.parametrize("series", SIZES)
def test_nine_of_ten_steps_of_a_tenth_raise_an_alarm_in_three_nights(series: int) -> None:
    found = 0
    for step, raised in with_real_noise(1, series, 1.1):
        found += any(night(step) <= one.raised < night(step + 3) for one in raised)
    assert found >= 0.9 * series


@pytest.mark.parametrize("series", SIZES)
def test_noise_raises_an_alarm_on_at_most_one_night_in_a_thousand(series: int) -> None:
    raised = sum(len(some) for _, some in with_real_noise(2, series, 1.0))
    assert raised <= 60 * series * 0.001 + 2 * (60 * series * 0.001) ** 0.5


def test_latencies_of_a_night_are_added_up_and_never_averaged() -> None:
    """Nine of ten sends are quick, so the median of the night is theirs."""
    runs = [run("quick", classes={100: 900}), run("slow", classes={900: 100})]
    found = {one.metric.name: one.values.tolist() for one in series_of(runs)}
    assert found["p50"] == [pytest.approx(class_nanoseconds(100) / 1e6)]
    assert found["p99"] == [pytest.approx(class_nanoseconds(900) / 1e6)]


def test_rates_are_of_all_sends_outages_the_longest_and_checks_the_median() -> None:
    figures = [{"throughput": 10.0, "longest-outage": 1.0, "check": 1.0}, {"throughput": 40.0, "longest-outage": 7.0}]
    runs = [
        run("a", acknowledged=600, load_s=60.0, figures=figures[0]),
        run("b", acknowledged=1200, load_s=30.0, figures=figures[1]),
    ]
    found = {one.metric.name: one.values.tolist() for one in series_of(runs)}
    assert found == {"throughput": [20.0], "longest-outage": [7.0], "check": [1.0]}
