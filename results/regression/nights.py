"""Figures over nights: a series for each scenario and metric, its change points and its alarms.

A night has one figure: latencies of its runs are added up as histograms and the quantile is read off the sum, sends and
seconds of load are added up, outages and recoveries are the longest, times of checks the median. Runs with nodes that
are broken on purpose count only if there are no others. Nights are called by the day on which they began, and those of
one day count together. `squall trends` and the dashboard both use these functions, so that they say the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import nan
from statistics import median
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from squall.results.history.manifest import CANARIES
from squall.results.regression.measured_run import MeasuredRun, quantile_ms
from squall.results.regression.metrics import METRICS, Metric
from squall.results.trends.alarms import Alarm, alarms
from squall.results.trends.change_points import Cause, ChangePoint, change_points, with_causes
from squall.results.trends.ranks import Floats

COMBINED: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {
    "longest-outage": max,
    "recovery": max,
    "check": median,
}
"""How the figures of several runs of a night become one, where they are neither quantiles nor rates."""


@dataclass(frozen=True)
class NightSeries:
    """A figure of a scenario by night; a night without one is NaN. `commits` are those of each night's runs."""

    scenario: str
    metric: Metric
    nights: tuple[str, ...]
    values: Floats
    canaries: Mapping[str, Floats]
    commits: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class NightChange:
    """A change of level of a series. `night` is the first of the new level, `previous` the one measured before it.

    `kind` says whether it was found looking back (`change point`) or decided on a night (`alarm`, raised on `raised`).
    """

    id: str
    kind: Literal["change point", "alarm"]
    scenario: str
    metric: Metric
    night: str
    previous: str
    before: float
    after: float
    shift: float
    p: float
    cause: Cause
    commits_before: tuple[str, ...]
    commits_after: tuple[str, ...]
    provisional: bool = False
    raised: str = ""

    @property
    def worse(self) -> bool:
        return (self.shift < 0) == self.metric.higher_is_better

    @property
    def commits(self) -> str:
        """Return the range of commits between the two nights, as `git log` takes it."""
        if not self.commits_before or not self.commits_after:
            return "unknown commits"
        first, last = self.commits_before[-1][:10], self.commits_after[0][:10]
        return f"{first}..{last}" if first != last else f"no commit between, {last} on both nights"


def point_id(scenario: str, metric: str, night: str) -> str:
    """Return the id of a change of a series that begins on a night: eight hexadecimal digits."""
    return hashlib.blake2b("\n".join((scenario, metric, night)).encode(), digest_size=4).hexdigest()


def days_of_nights(begun: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the day of each night that has a name, of pairs of a night's name and a day; the first one counts."""
    found: dict[str, str] = {}
    for night, day in begun:
        if night:
            found.setdefault(night, day)
    return found


def on_their_days(runs: Sequence[MeasuredRun], recorded: Iterable[tuple[str, str]] = ()) -> list[MeasuredRun]:
    """Return the runs, which are in order of time, with their night called by its day.

    `recorded` has names and days of nights; another began on the day of its first run.
    """
    days = days_of_nights([*recorded, *((one.night, one.date) for one in runs)])
    return [replace(one, night=days.get(one.night, one.date)) for one in runs]


def counted(runs: Sequence[MeasuredRun]) -> Sequence[MeasuredRun]:
    """Return the runs of a night whose figures count: those with nodes that are broken on purpose only if alone."""
    return [one for one in runs if not one.mutants] or runs


def canaries_by_night(measured: Iterable[tuple[str, Mapping[str, float | None]]]) -> dict[str, dict[str, float]]:
    """Return each canary by night, of pairs of a run's night and its canaries: the median of all runs of the night."""
    found: dict[str, dict[str, list[float | None]]] = {name: defaultdict(list) for name in CANARIES}
    for night, canaries in measured:
        for name, by_night in found.items():
            by_night[night].append(canaries.get(name))
    return {name: {night: _middle(some) for night, some in by_night.items()} for name, by_night in found.items()}


def series_of(
    runs: Sequence[MeasuredRun],
    metrics: Sequence[str] = (),
    machine: Mapping[str, Mapping[str, float]] | None = None,
) -> Iterator[NightSeries]:
    """Yield the series of each scenario and metric with a figure on at least one night, in order of their names.

    `machine` has the canaries by night, if there were more runs than these.
    """
    by_scenario: dict[str, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        by_scenario[run.scenario].append(run)
    if machine is None:
        machine = canaries_by_night((one.night or one.date, one.canaries) for one in runs)
    for title, some in sorted(by_scenario.items()):
        some.sort(key=lambda one: (one.night or one.date, one.started))
        nights = {night: list(group) for night, group in groupby(some, key=lambda one: one.night or one.date)}
        commits = tuple(tuple(dict.fromkeys(one.commit for one in group if one.commit)) for group in nights.values())
        canaries = {name: np.array([by_night[night] for night in nights]) for name, by_night in machine.items()}
        for name, metric in METRICS.items():
            if metrics and name not in metrics:
                continue
            values = np.array([figure_of_night(metric, counted(group)) for group in nights.values()], dtype=np.float64)
            if not np.isnan(values).all():
                yield NightSeries(title, metric, tuple(nights), values, canaries, commits)


def figure_of_night(metric: Metric, runs: Sequence[MeasuredRun]) -> float:
    """Return the one figure of the runs of a night; NaN if they have none."""
    found: float | None
    if metric.share is not None:
        total: Counter[int] = Counter()
        for one in runs:
            total.update(one.classes)
        found = quantile_ms(total, metric.share)
        return nan if found is None else found
    if metric.name == "throughput":
        measured = [one for one in runs if "throughput" in one.figures]
        seconds = sum(one.load_s for one in measured)
        return sum(one.acknowledged for one in measured) / seconds if seconds else nan
    values = [one.figures[metric.name] for one in runs if metric.name in one.figures]
    return float(COMBINED[metric.name](values)) if values else nan


def _middle(values: Iterable[float | None]) -> float:
    known = [one for one in values if one is not None]
    return median(known) if known else nan


def changes_of(series: NightSeries) -> list[NightChange]:
    """Return the change points of a series, and the alarms that it raised, each in order of time.

    One that a canary shares is the environment's.
    """
    canaries = list(series.canaries.values())
    found = [
        _change(series, "change point", one.night, one, provisional=one.provisional)
        for one in points_with_causes(change_points(series.values), series.values, canaries)
    ]
    return found + [
        _change(series, "alarm", one.since, one, raised=series.nights[one.night])
        for one in alarms_with_causes(alarms(series.values), series.values, canaries)
    ]


def points_with_causes(
    points: tuple[ChangePoint, ...], values: npt.ArrayLike, canaries: Iterable[npt.ArrayLike]
) -> tuple[ChangePoint, ...]:
    """Attribute the change points to the environment where any of the canaries changed on the same nights."""
    shared = {
        one.night
        for canary in (_known(canaries) if points else ())
        for one in with_causes(points, values, canary)
        if one.cause == "environment"
    }
    return tuple(replace(one, cause="environment") if one.night in shared else one for one in points)


def alarms_with_causes(
    raised: Sequence[Alarm], values: npt.ArrayLike, canaries: Iterable[npt.ArrayLike]
) -> tuple[Alarm, ...]:
    """Attribute alarms to the environment where any of the canaries differs on the same nights."""
    shared = {
        one.night
        for canary in (_known(canaries) if raised else ())
        for one in alarms(values, canary)
        if one.cause == "environment"
    }
    return tuple(replace(one, cause="environment") if one.night in shared else one for one in raised)


def _known(canaries: Iterable[npt.ArrayLike]) -> list[npt.ArrayLike]:
    """Return the canaries that were measured on more than one night."""
    return [one for one in canaries if (~np.isnan(np.asarray(one, dtype=np.float64))).sum() > 1]


def _change(
    series: NightSeries,
    kind: Literal["change point", "alarm"],
    night: int,
    found: ChangePoint | Alarm,
    *,
    provisional: bool = False,
    raised: str = "",
) -> NightChange:
    previous = next(at for at in range(night - 1, -1, -1) if not np.isnan(series.values[at]))
    return NightChange(
        id=point_id(series.scenario, series.metric.name, series.nights[night]),
        kind=kind,
        scenario=series.scenario,
        metric=series.metric,
        night=series.nights[night],
        previous=series.nights[previous],
        before=found.before,
        after=found.after,
        shift=found.shift,
        p=found.p,
        cause=found.cause,
        commits_before=series.commits[previous],
        commits_after=series.commits[night],
        provisional=provisional,
        raised=raised,
    )
