"""Figures of benchmarks over days: a series for each figure on each machine, like those of runs over nights.

A day has one figure, the median of the executions of that day. The canaries are those that were measured with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan
from statistics import median
from typing import Any

import numpy as np

from squall.results.history.manifest import CANARIES
from squall.results.regression.metrics import Metric
from squall.results.regression.nights import NightSeries

Row = Mapping[str, Any]
FigureKey = tuple[str, str, str]
"""Benchmark, figure, machine."""


def benchmark_rows(rows: Iterable[Row]) -> dict[FigureKey, dict[str, list[Row]]]:
    """Return the rows of the table `benchmarks` by figure and day, in order of both."""
    found: dict[FigureKey, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda one: (one["date"], one["started"] or "", one["key"])):
        if row["value"] is not None:
            found[row["benchmark"] or "", row["figure"] or "", row["machine"] or ""][row["date"]].append(row)
    return {name: dict(days) for name, days in sorted(found.items())}


def figure_of_day(rows: Sequence[Row]) -> float:
    """Return the one figure of the executions of a day."""
    return float(median(row["value"] for row in rows))


def series_name(benchmark: str, machine: str = "") -> str:
    """Return what stands in the place of a scenario's name: two machines have two series."""
    return f"bench {benchmark}" + (f" on {machine}" if machine else "")


def commits_of(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row["commit"] for row in rows if row["commit"]))


def canaries_of(days: Mapping[str, Sequence[Row]], machines: Mapping[str, Row]) -> dict[str, list[float]]:
    """Return each canary on each day; `machines` has rows of the table `machines` by key."""
    found: dict[str, list[float]] = {}
    for name in CANARIES:
        values = [[machines.get(row["key"], {}).get(name) for row in rows] for rows in days.values()]
        found[name] = [median(some) if (some := [one for one in day if one is not None]) else nan for day in values]
    return found


def benchmark_series(rows: Iterable[Row], machines: Mapping[str, Row]) -> Iterator[NightSeries]:
    """Yield the series of each figure on each machine. A machine is named if a figure has several."""
    grouped = benchmark_rows(rows)
    number = {name[:2]: sum(other[:2] == name[:2] for other in grouped) for name in grouped}
    for (benchmark, figure, machine), days in grouped.items():
        newest = next(reversed(days.values()))[-1]
        metric = Metric(figure, figure, newest["unit"] or "", higher_is_better=newest["better"] == "higher")
        yield NightSeries(
            series_name(benchmark, machine if number[benchmark, figure] > 1 else ""),
            metric,
            tuple(days),
            np.array([figure_of_day(some) for some in days.values()], dtype=np.float64),
            {name: np.array(values) for name, values in canaries_of(days, machines).items()},
            tuple(commits_of(some) for some in days.values()),
        )
