"""The level of each scenario's metrics over nights, where it changed, and whether it changed tonight.

A night's latency quantile is read off the sum of the histograms of its runs, its outage is the longest of all, its
duration the median. Percentiles are never averaged.
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
from squall.results.lake.histogram import added, quantile_seconds
from squall.results.lake.triage import State, Triage, decided
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


def _greatest_outage(runs: Sequence[Run]) -> float | None:
    return max((one.outage_s for one in runs if one.outage_s is not None), default=None)


def _median_seconds(runs: Sequence[Run]) -> float | None:
    found = [one.seconds for one in runs if one.seconds]
    return median(found) if found else None


def _quantile(name: str, share: float) -> Callable[[Sequence[Run]], float | None]:
    def figure(runs: Sequence[Run]) -> float | None:
        found = [one.latency for one in runs if one.latency is not None]
        if len(found) == 1:
            value: float | None = getattr(found[0], name)
            return value
        return quantile_seconds(added((one.classes, one.counts) for one in found), share)

    return figure


METRICS: Final = (
    Metric("p50", "median latency", _quantile("p50", 0.5), 0.5, "p50"),
    Metric("p99", "p99 latency", _quantile("p99", 0.99), 0.99, "p99"),
    Metric("p999", "p99.9 latency", _quantile("p999", 0.999), 0.999, "p99.9"),
    Metric("outage", "longest outage", _greatest_outage, trend="longest-outage"),
    Metric("duration", "time of load and check", _median_seconds),
)
WITH_ALARM: Final = ("p50", "p99", "outage")


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
    """What the levels of all scenarios rest on: nights, the canary on each of the last, and what is known of series.

    `decisions` are those of people about change points, the oldest first.
    """

    nights: Nights
    canary: Sequence[float]
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
    machine = basis.canary if sum(not math.isnan(one) for one in basis.canary) > 1 else None
    points = basis.cache.change_points(series, machine) if measured > 1 else ()
    changes = tuple(
        _change(one, days, values, cells, basis.decision(scenario, metric, days[one.night])) for one in points
    )
    alarm = None
    if metric.name in WITH_ALARM and measured and values[-1] is not None:
        alarm = basis.cache.alarm_of_the_last_night(series, machine)
    about_alarm = None if alarm is None else basis.decision(scenario, metric, days[alarm.since])
    return Level(scenario, metric, days, tuple(values), changes, alarm, about_alarm)


def _measured(cell: Cell) -> list[Run]:
    """The runs whose figures mean something: nodes that are broken on purpose do not count with the others."""
    return [one for one in cell.runs if not one.row["mutants"]] or list(cell.runs)


def _change(
    point: ChangePoint,
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
    )


def _commits(cell: Cell) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.commit for one in cell.runs if one.commit))
