"""The level of each scenario's metrics over nights, where it changed, and whether it changed tonight.

A night's figures, its canaries and the causes of changes are those of `squall trends` (`results.regression.nights`).
The duration of load and check is the page's own. Percentiles are never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Final

import msgspec

from squall.results.dashboard.lake_facts import Run
from squall.results.dashboard.nights import Cell, Nights
from squall.results.dashboard.series_cache import SeriesCache
from squall.results.lake.triage import State, Triage, decided
from squall.results.regression.metrics import METRICS as TRENDS
from squall.results.regression.nights import (
    alarms_with_causes,
    counted,
    figure_of_night,
    point_id,
    points_with_causes,
)
from squall.results.trends.alarms import Alarm
from squall.results.trends.change_points import ChangePoint

NIGHTS_MAX: Final = 120
CANARIES: Final = {
    "loop_ms": "a loop of arithmetic",
    "sync_ms": "an fsync of 4 KiB",
    "round_trip_ms": "a round trip over loopback",
}


@dataclass(frozen=True)
class Metric:
    """A metric of a scenario, and its figure of the runs of a night. `trend` is its name in `squall trends`, if any."""

    name: str
    title: str
    of: Callable[[Sequence[Run]], float | None]
    share: float | None = None
    trend: str = ""


def _median_seconds(runs: Sequence[Run]) -> float | None:
    found = [one.seconds for one in runs if one.seconds]
    return median(found) if found else None


def _as_in_trends(name: str) -> Callable[[Sequence[Run]], float | None]:
    """Return the figure of this name in `squall trends`, in seconds."""
    metric = TRENDS[name]
    scale = 1e-3 if metric.unit == "ms" else 1.0

    def figure(runs: Sequence[Run]) -> float | None:
        value = figure_of_night(metric, [one.measured for one in runs])
        return None if math.isnan(value) else value * scale

    return figure


METRICS: Final = (
    Metric("p50", "median latency", _as_in_trends("p50"), 0.5, "p50"),
    Metric("p99", "p99 latency", _as_in_trends("p99"), 0.99, "p99"),
    Metric("p999", "p99.9 latency", _as_in_trends("p99.9"), 0.999, "p99.9"),
    Metric("outage", "longest outage", _as_in_trends("longest-outage"), trend="longest-outage"),
    Metric("duration", "time of load and check", _median_seconds),
)
WITH_ALARM: Final = frozenset(one.name for one in METRICS if one.trend)


@dataclass(frozen=True)
class Change:
    """A change point on its day, with the commits that ran on the night before and on the night itself.

    `decision` is what a person has decided about it; without one it is open.
    """

    day: str
    day_before: str
    point: ChangePoint
    commits_before: tuple[str, ...]
    commits: tuple[str, ...]
    decision: Triage | None = None
    id: str = ""
    """Its id in `squall trends`; empty of a metric that only the page has."""

    @property
    def state(self) -> State:
        return self.decision.state if self.decision else "open"


@dataclass(frozen=True)
class Level:
    """A metric of a scenario over nights; None on a night without a figure. `decision` is that about its alarm."""

    scenario: str
    metric: Metric
    days: tuple[str, ...]
    values: tuple[float | None, ...]
    changes: tuple[Change, ...]
    alarm: Alarm | None
    decision: Triage | None = None

    @property
    def alarm_state(self) -> State:
        return self.decision.state if self.decision else "open"

    @property
    def latest(self) -> float | None:
        return next((one for one in reversed(self.values) if one is not None), None)


def canary_of(nights: Nights, days: Sequence[str], name: str = "loop_ms") -> list[float]:
    """Return the median of a canary on each night; NaN without one."""
    found = []
    for day in days:
        values = [
            getattr(run.machine, name)
            for run in nights.runs_of(day)
            if run.machine is not None and getattr(run.machine, name) is not None
        ]
        found.append(median(values) if values else math.nan)
    return found


@dataclass(frozen=True)
class Basis:
    """What the levels of all scenarios rest on: nights, each canary on each of the last, and what is known of series.

    `decisions` are those of people about change points, the oldest first.
    """

    nights: Nights
    canaries: Sequence[Sequence[float]]
    cache: SeriesCache
    decisions: Sequence[Triage] = ()

    def decision(self, scenario: str, metric: Metric, day: str) -> Triage | None:
        """Return what was decided last about the change of a metric that begins on a day."""
        return decided(self._by_day, scenario, metric.trend, day) if metric.trend and self.decisions else None

    @cached_property
    def _by_day(self) -> list[Triage]:
        """The decisions; nights that have a name are called by their day, as everywhere on the pages."""
        named = self.nights.named
        return [msgspec.structs.replace(one, night=named.get(one.night, one.night)) for one in self.decisions]


def levels_of(basis: Basis) -> dict[str, list[Level]]:
    """Return the levels of all metrics of all scenarios, over the last nights."""
    return {scenario: [_level(scenario, metric, basis) for metric in METRICS] for scenario in basis.nights.scenarios}


def _level(scenario: str, metric: Metric, basis: Basis) -> Level:
    days, cells = basis.nights.last(NIGHTS_MAX), basis.nights.cells[scenario]
    values = [metric.of(_measured(cells[day])) if day in cells else None for day in days]
    series = [math.nan if one is None else one for one in values]
    measured = sum(one is not None for one in values)
    points = basis.cache.change_points(series) if measured > 1 else ()
    changes = tuple(
        _change(one, scenario, metric, days, values, cells, basis.decision(scenario, metric, days[one.night]))
        for one in points_with_causes(points, series, basis.canaries)
    )
    alarm = None
    if metric.name in WITH_ALARM and measured and values[-1] is not None:
        alarm = basis.cache.alarm_of_the_last_night(series)
        alarm = None if alarm is None else alarms_with_causes((alarm,), series, basis.canaries)[0]
    about_alarm = None if alarm is None else basis.decision(scenario, metric, days[alarm.since])
    return Level(scenario, metric, days, tuple(values), changes, alarm, about_alarm)


def _measured(cell: Cell) -> list[Run]:
    """The runs whose figures mean something: nodes that are broken on purpose do not count with the others."""
    kept = {one.key for one in counted([run.measured for run in cell.runs])}
    return [one for one in cell.runs if one.key in kept]


def _change(
    point: ChangePoint,
    scenario: str,
    metric: Metric,
    days: Sequence[str],
    values: Sequence[float | None],
    cells: Mapping[str, Cell],
    decision: Triage | None,
) -> Change:
    before = next(at for at in range(point.night - 1, -1, -1) if values[at] is not None)
    return Change(
        day=days[point.night],
        day_before=days[before],
        point=point,
        commits_before=_commits(cells[days[before]]),
        commits=_commits(cells[days[point.night]]),
        decision=decision,
        id=point_id(scenario, metric.trend, days[point.night]) if metric.trend else "",
    )


def _commits(cell: Cell) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.commit for one in cell.runs if one.commit))
