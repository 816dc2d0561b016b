"""The level of each scenario's metrics over nights, where it changed, and whether it changed tonight.

A night's latency quantile is read off the sum of the histograms of its runs, its outage is the longest of all, its
duration the median. Percentiles are never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from squall.results.dashboard.lake_facts import Run
from squall.results.dashboard.nights import Cell, Nights
from squall.results.dashboard.series_cache import SeriesCache
from squall.results.lake.histogram import added, quantile_seconds
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
    """A metric of a scenario: its name, its unit, and its figure of the runs of a night."""

    name: str
    title: str
    of: Callable[[Sequence[Run]], float | None]
    share: float | None = None


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
    Metric("p50", "median latency", _quantile("p50", 0.5), 0.5),
    Metric("p99", "p99 latency", _quantile("p99", 0.99), 0.99),
    Metric("p999", "p99.9 latency", _quantile("p999", 0.999), 0.999),
    Metric("outage", "longest outage", _greatest_outage),
    Metric("duration", "time of load and check", _median_seconds),
)
WITH_ALARM: Final = ("p50", "p99", "outage")


@dataclass(frozen=True)
class Change:
    """A change point on its day, with the commits that ran on the night before and on the night itself."""

    day: str
    day_before: str
    point: ChangePoint
    commits_before: tuple[str, ...]
    commits: tuple[str, ...]


@dataclass(frozen=True)
class Level:
    """A metric of a scenario over nights; None on a night without a figure."""

    scenario: str
    metric: Metric
    days: tuple[str, ...]
    values: tuple[float | None, ...]
    changes: tuple[Change, ...]
    alarm: Alarm | None

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


def levels_of(nights: Nights, canary: Sequence[float], cache: SeriesCache) -> dict[str, list[Level]]:
    """Return the levels of all metrics of all scenarios, over the last nights; `canary` has those nights."""
    days = nights.last(NIGHTS_MAX)
    return {
        scenario: [_level(scenario, metric, days, nights, canary, cache) for metric in METRICS]
        for scenario in nights.scenarios
    }


def _level(
    scenario: str,
    metric: Metric,
    days: tuple[str, ...],
    nights: Nights,
    canary: Sequence[float],
    cache: SeriesCache,
) -> Level:
    cells = nights.cells[scenario]
    values = [metric.of(_measured(cells[day])) if day in cells else None for day in days]
    series = [math.nan if one is None else one for one in values]
    measured = sum(one is not None for one in values)
    machine = canary if sum(not math.isnan(one) for one in canary) > 1 else None
    points = cache.change_points(series, machine) if measured > 1 else ()
    alarm = None
    if metric.name in WITH_ALARM and measured and values[-1] is not None:
        alarm = cache.alarm_of_the_last_night(series, machine)
    return Level(
        scenario, metric, days, tuple(values), tuple(_change(one, days, values, cells) for one in points), alarm
    )


def _measured(cell: Cell) -> list[Run]:
    """The runs whose figures mean something: nodes that are broken on purpose do not count with the others."""
    return [one for one in cell.runs if not one.row["mutants"]] or list(cell.runs)


def _change(
    point: ChangePoint, days: Sequence[str], values: Sequence[float | None], cells: Mapping[str, Cell]
) -> Change:
    before = next(at for at in range(point.night - 1, -1, -1) if values[at] is not None)
    return Change(
        day=days[point.night],
        day_before=days[before],
        point=point,
        commits_before=_commits(cells[days[before]]),
        commits=_commits(cells[days[point.night]]),
    )


def _commits(cell: Cell) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.commit for one in cell.runs if one.commit))
