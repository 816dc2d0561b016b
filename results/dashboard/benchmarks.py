"""Each figure of each benchmark over time and commits, with its bars and its change points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from squall.results.dashboard.lake_facts import LakeFacts, Row
from squall.results.dashboard.series_cache import SeriesCache
from squall.results.trends.change_points import ChangePoint


@dataclass(frozen=True)
class BenchmarkPoint:
    """A figure of one execution of a benchmark: the median of its samples, and the least and greatest of them."""

    date: str
    commit: str
    value: float
    low: float
    high: float
    machine: str


@dataclass(frozen=True)
class BenchmarkFigure:
    """A figure over time on one machine. `must` is its required value, `stretch` its ambitious one."""

    benchmark: str
    figure: str
    unit: str
    better: str
    machine: str
    points: tuple[BenchmarkPoint, ...]
    changes: tuple[ChangePoint, ...]
    must: float | None
    stretch: float | None

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
        if last is None or (last.shift > 0) == (self.better == "higher"):
            return None
        return last


def benchmark_figures(facts: LakeFacts, cache: SeriesCache) -> list[BenchmarkFigure]:
    """Return all figures, in order of benchmark, figure and machine."""
    grouped: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in facts.benchmarks:
        if row["value"] is not None:
            grouped[row["benchmark"] or "", row["figure"] or "", row["machine"] or ""].append(row)
    return [_figure(*name, rows, cache) for name, rows in sorted(grouped.items())]


def _figure(benchmark: str, figure: str, machine: str, rows: Sequence[Row], cache: SeriesCache) -> BenchmarkFigure:
    points = tuple(_point(row) for row in rows)
    newest = rows[-1]
    values = [one.value for one in points]
    return BenchmarkFigure(
        benchmark=benchmark,
        figure=figure,
        unit=newest["unit"] or "",
        better=newest["better"] or "lower",
        machine=machine,
        points=points,
        changes=cache.change_points(values) if len(values) > 1 else (),
        must=newest["must"],
        stretch=newest["stretch"],
    )


def _point(row: Row) -> BenchmarkPoint:
    samples = [one for one in row["samples"] or () if one is not None] or [row["value"]]
    return BenchmarkPoint(
        row["date"], row["commit"] or "", row["value"], min(samples), max(samples), row["machine"] or ""
    )
