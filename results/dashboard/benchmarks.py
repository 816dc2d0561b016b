"""Each figure of each benchmark over time and commits, with its bars and its change points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from squall.results.dashboard.lake_facts import LakeFacts, Row
from squall.results.dashboard.series_cache import SeriesCache
from squall.results.regression.benchmark_nights import (
    FigureKey,
    benchmark_rows,
    canaries_of,
    commits_of,
    figure_of_day,
    series_name,
)
from squall.results.regression.nights import point_id, points_with_causes
from squall.results.trends.change_points import ChangePoint


@dataclass(frozen=True)
class BenchmarkPoint:
    """A figure of a day's executions of a benchmark: their median, and the least and greatest of all samples."""

    date: str
    commit: str
    value: float
    low: float
    high: float
    machine: str
    peer: float | None = None
    """The same figure of another system, measured with it or published."""


@dataclass(frozen=True)
class BenchmarkFigure:
    """A figure over time on one machine. `must` is its required value, `stretch` its ambitious one.

    `peer` names the other system whose figure stands beside it, as its newest row or `squall bench peer` has it.
    """

    benchmark: str
    figure: str
    unit: str
    better: str
    machine: str
    points: tuple[BenchmarkPoint, ...]
    changes: tuple[ChangePoint, ...]
    must: float | None
    stretch: float | None
    peer: str = ""
    series: str = ""
    """Its name in `squall trends`."""

    def point_id(self, change: ChangePoint) -> str:
        """Return the id that `squall trends` gives a change point."""
        return point_id(self.series, self.figure, self.points[change.night].date)

    @property
    def to_peer(self) -> float | None:
        """The newest value relative to that of the other system."""
        last = self.points[-1]
        return last.value / last.peer if last.peer else None

    @property
    def missed(self) -> bool:
        """Whether the newest value misses the required one."""
        if self.must is None:
            return False
        value = self.points[-1].value
        return value < self.must if self.better == "higher" else value > self.must

    @property
    def worse_since(self) -> ChangePoint | None:
        """The newest change point, if it was for the worse."""
        last = self.changes[-1] if self.changes else None
        return last if last is not None and self.is_worse(last) else None

    def is_worse(self, change: ChangePoint) -> bool:
        return (change.shift > 0) != (self.better == "higher")


def benchmark_figures(facts: LakeFacts, cache: SeriesCache) -> list[BenchmarkFigure]:
    """Return all figures, in order of benchmark, figure and machine."""
    grouped = benchmark_rows(facts.benchmarks)
    newest = {name: next(reversed(days.values()))[-1] for name, days in grouped.items()}
    peers = {name[1:]: row for name, row in newest.items() if row["peer_value"] is not None}
    several = {name[:2] for name in grouped if sum(other[:2] == name[:2] for other in grouped) > 1}
    return [
        _figure(name, days, peers.get(name[1:]), facts, cache, series_name(name[0], name[2] * (name[:2] in several)))
        for name, days in grouped.items()
    ]


def _figure(
    name: FigureKey,
    days: Mapping[str, Sequence[Row]],
    peer: Row | None,
    facts: LakeFacts,
    cache: SeriesCache,
    series: str,
) -> BenchmarkFigure:
    """`peer` is the newest row of a figure of this name that has a peer, of this or another benchmark."""
    own = any(row["peer_value"] is not None for rows in days.values() for row in rows)
    points = tuple(_point(rows, rows[-1] if own else peer) for rows in days.values())
    newest = list(days.values())[-1][-1]
    values = [one.value for one in points]
    changes = cache.change_points(values) if len(values) > 1 else ()
    return BenchmarkFigure(
        benchmark=name[0],
        figure=name[1],
        unit=newest["unit"] or "",
        better=newest["better"] or "lower",
        machine=name[2],
        points=points,
        changes=points_with_causes(changes, values, canaries_of(days, facts.machines).values()),
        must=newest["must"],
        stretch=newest["stretch"],
        peer=(peer["peer"] or "") if peer is not None else "",
        series=series,
    )


def _point(rows: Sequence[Row], peer: Row | None) -> BenchmarkPoint:
    samples = [one for row in rows for one in row["samples"] or () if one is not None] or [row["value"] for row in rows]
    commits = commits_of(rows)
    return BenchmarkPoint(
        date=rows[-1]["date"],
        commit=commits[-1] if commits else "",
        value=figure_of_day(rows),
        low=min(samples),
        high=max(samples),
        machine=rows[-1]["machine"] or "",
        peer=None if peer is None else peer["peer_value"],
    )
