"""The charts of the dashboard's pages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from squall.results.charts.chart import Axis, Chart, Mark, Series
from squall.results.dashboard.benchmarks import BenchmarkFigure
from squall.results.dashboard.fleet import Canary, HostSeries
from squall.results.dashboard.lake_facts import Run
from squall.results.dashboard.levels import Level
from squall.results.dashboard.night_table import NightFacts
from squall.results.dashboard.nights import Nights
from squall.results.dashboard.simulation import CampaignDay
from squall.results.dashboard.words import day_seconds, percent, short_commit

NIGHTS: Final = Axis("night", "date")
RECOVERIES_MAX: Final = 600
_PLAIN: Final = re.compile(r"[\w#=.-]*")


def latency_chart(levels: Sequence[Level]) -> Chart:
    """Latency quantiles of a scenario over nights, with their change points."""
    shown = [one for one in levels if one.metric.share is not None]
    return Chart(
        "Latency of acknowledged sends",
        NIGHTS,
        Axis("latency", unit="s", log=True),
        series=tuple(_series(one) for one in shown),
        marks=tuple(mark for one in shown for mark in _changes(one)),
        height=190,
    )


def level_chart(level: Level, title: str) -> Chart:
    """One metric over nights, with its change points."""
    return Chart(
        title, NIGHTS, Axis(level.metric.title, unit="s"), series=(_series(level),), marks=_changes(level), height=110
    )


def _series(level: Level) -> Series:
    found = [(day, value) for day, value in zip(level.days, level.values, strict=True) if value is not None]
    return Series(
        level.metric.title,
        [day_seconds(day) for day, _ in found],
        [value for _, value in found],
        hrefs=[f"#night={day}" for day, _ in found],
    )


def _changes(level: Level) -> tuple[Mark, ...]:
    return tuple(
        Mark(
            day_seconds(one.day),
            f"{level.metric.title} {percent(one.point.shift)}"
            + (", with the machine" if one.point.cause == "environment" else "")
            + (f", commit {short_commit(one.commits[-1])}" if one.commits else "")
            + (f", {one.state}" if one.state != "open" else ""),
            f"#night={one.day}",
            "change",
        )
        for one in level.changes
        if one.state != "hidden"
    )


def canary_chart(canary: Canary, title: str = "") -> Chart:
    """A figure of the machine over nights."""
    found = [(day, value) for day, value in zip(canary.days, canary.values, strict=True) if value is not None]
    return Chart(
        title or f"Machine: {canary.title}",
        NIGHTS,
        Axis(canary.title, unit="s", zero=False),
        series=(Series(canary.title, [day_seconds(day) for day, _ in found], [value / 1e3 for _, value in found]),),
        marks=tuple(
            Mark(day_seconds(canary.days[one.night]), f"{canary.title} {percent(one.shift)}", kind="change")
            for one in canary.changes
        ),
        height=90,
    )


def recovery_chart(runs: Iterable[tuple[str, Run]]) -> Chart | None:
    """How long each fault was felt, by kind; None if none was. `runs` have their night."""
    points: dict[str, list[tuple[float, float, str, str]]] = defaultdict(list)
    for day, run in list(runs)[-RECOVERIES_MAX:]:
        for fault in run.faults:
            if fault.recovered_s is not None:
                label = f"{fault.id} on {', '.join(fault.targets)}, seed {run.row['seed']}"
                points[fault.kind].append((day_seconds(day), fault.recovered_s, label, f"#run={run.key}"))
    if not points:
        return None
    return Chart(
        "From injection until sends were acknowledged again",
        NIGHTS,
        Axis("recovery", unit="s"),
        series=tuple(
            Series(
                kind,
                [one[0] for one in some],
                [one[1] for one in some],
                "points",
                labels=[one[2] for one in some],
                hrefs=[one[3] if _PLAIN.fullmatch(one[3]) else "" for one in some],
            )
            for kind, some in sorted(points.items())
        ),
        height=150,
    )


def night_chart(nights: Nights, days: Sequence[str], recorded: dict[str, NightFacts]) -> Chart:
    """The time of each night: load and check of its runs, and the whole night where that was recorded."""
    xs = [day_seconds(day) for day in days]
    busy = Series(
        "load and check of all runs", xs, [sum(run.seconds for run in nights.runs_of(day)) for day in days], "bars"
    )
    whole = [recorded[day].seconds if day in recorded else None for day in days]
    series = (busy, Series("the whole night", xs, whole, "points")) if any(whole) else (busy,)
    return Chart("Time", NIGHTS, Axis("time", unit="s"), series=series, height=110)


def benchmark_chart(figure: BenchmarkFigure) -> Chart:
    """A figure over time, with its bars and change points."""
    points = figure.points
    xs = [day_seconds(one.date) for one in points]
    series = [
        Series(
            figure.figure,
            xs,
            [one.value for one in points],
            "line",
            low=[one.low for one in points],
            high=[one.high for one in points],
            labels=[f"commit {short_commit(one.commit)}" if one.commit else "" for one in points],
        )
    ]
    for name, value in (("required", figure.must), ("ambitious", figure.stretch)):
        if value is not None:
            series.append(Series(name, [xs[0], xs[-1]], [value, value]))
    if figure.peer:
        series.append(Series(figure.peer, xs, [one.peer for one in points]))
    marks = tuple(
        Mark(xs[one.night], f"{percent(one.shift)} with commit {short_commit(points[one.night].commit)}", kind="change")
        for one in figure.changes
    )
    return Chart(
        figure.figure, Axis("day", "date"), Axis(figure.unit, unit=figure.unit), tuple(series), marks=marks, height=120
    )


def host_chart(series: HostSeries) -> Chart:
    """A metric of all hosts, by day."""
    units = {"bytes": "B", "bytes_s": "B/s", "share": "%"}
    unit = next((unit for ending, unit in units.items() if series.metric.endswith(f"_{ending}")), "")
    scale = 100.0 if unit == "%" else 1.0
    xs = [day_seconds(day) for day in series.days]
    return Chart(
        series.metric,
        Axis("day", "date"),
        Axis(series.metric, unit=unit),
        tuple(
            Series(host, xs, [None if one is None else one * scale for one in values])
            for host, values in series.hosts.items()
        ),
        height=120,
    )


def campaign_charts(days: Sequence[CampaignDay]) -> list[Chart]:
    """Seeds a minute, and behaviours, of campaigns by day."""
    xs = [day_seconds(one.date) for one in days]
    axis = Axis("day", "date")
    pace = Series("seeds", xs, [one.seeds_per_minute for one in days])
    speed = Chart("Seeds a minute", axis, Axis("seeds", unit="/min"), (pace,), height=120)
    if not any(one.new_behaviours is not None for one in days):
        return [speed]
    return [
        speed,
        Chart(
            "New behaviours",
            axis,
            Axis("behaviours"),
            (Series("new", xs, [one.new_behaviours for one in days], "bars"),),
            height=120,
        ),
        Chart(
            "Behaviours known, and an estimate of those that nothing has shown yet",
            axis,
            Axis("behaviours"),
            (
                Series("known", xs, [one.known for one in days]),
                Series("estimated unseen, at least", xs, [one.unseen for one in days]),
            ),
            height=120,
        ),
    ]
