"""Figures over nights: a series for each scenario and metric, its change points and its alarms.

A night has one figure: latencies of its runs are added up as histograms and the quantile is read off the sum, sends and
seconds of load are added up, outages and recoveries are the longest, times of checks the median.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import nan
from statistics import median
from typing import Final, Literal

import numpy as np

from squall.results.history.manifest import CANARIES
from squall.results.regression.measured_run import MeasuredRun, quantile_ms
from squall.results.regression.metrics import METRICS, Metric
from squall.results.trends.alarms import alarms
from squall.results.trends.change_points import Cause, change_points
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


def series_of(runs: Sequence[MeasuredRun], metrics: Sequence[str] = ()) -> Iterator[NightSeries]:
    """Yield the series of each scenario and metric with a figure on at least one night, in order of their names."""
    by_scenario: dict[str, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        by_scenario[run.scenario].append(run)
    for scenario, some in sorted(by_scenario.items()):
        some.sort(key=lambda one: (one.night or one.date, one.started))
        nights = {night: list(group) for night, group in groupby(some, key=lambda one: one.night or one.date)}
        commits = tuple(tuple(dict.fromkeys(one.commit for one in group if one.commit)) for group in nights.values())
        canaries = {
            name: np.array([_middle(one.canaries.get(name) for one in group) for group in nights.values()])
            for name in CANARIES
        }
        for name, metric in METRICS.items():
            if metrics and name not in metrics:
                continue
            values = np.array([_figure(metric, group) for group in nights.values()], dtype=np.float64)
            if not np.isnan(values).all():
                yield NightSeries(scenario, metric, tuple(nights), values, canaries, commits)


def _figure(metric: Metric, runs: Sequence[MeasuredRun]) -> float:
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
    points = change_points(series.values)
    raised = alarms(series.values)
    shared, alarmed = set[int](), set[int]()
    if points or raised:
        with_canaries = [canary for canary in series.canaries.values() if not np.isnan(canary).all()]
        for canary in with_canaries:
            shared |= {one.night for one in change_points(series.values, canary) if one.cause == "environment"}
            alarmed |= {one.night for one in alarms(series.values, canary) if one.cause == "environment"}
    found = [
        _change(
            series, "change point", one.night, one.before, one.after, one.shift, one.p,
            environment=one.night in shared, provisional=one.provisional,
        )
        for one in points
    ]  # fmt: skip
    return found + [
        _change(
            series, "alarm", one.since, one.before, one.after, one.shift, one.p,
            environment=one.night in alarmed, raised=series.nights[one.night],
        )
        for one in raised
    ]  # fmt: skip


def _change(
    series: NightSeries,
    kind: Literal["change point", "alarm"],
    night: int,
    before: float,
    after: float,
    shift: float,
    p: float,
    *,
    environment: bool,
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
        before=before,
        after=after,
        shift=shift,
        p=p,
        cause="environment" if environment else "metric",
        commits_before=series.commits[previous],
        commits_after=series.commits[night],
        provisional=provisional,
        raised=raised,
    )
