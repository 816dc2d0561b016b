"""Make the charts of a run from its series: faults, throughput, latency, its heat map, errors, leaders and outages.

All have the time since the load began in common, the faults as bands, and a mark with a link for each witness.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from squall.results.charts.chart import Axis, Band, Chart, Heat, Mark, Span
from squall.results.charts.chart import Series as Drawn
from squall.results.checkers.kernels.series import Frame, class_edges
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.report.tables import LATENCY_BY_TIME, Series

MOST_ERRORS: Final = 6
MOST_BANDS: Final = 40
"""Topic-partitions that have a row each."""
MOST_CELLS_ACROSS: Final = 300
ROWS_PER_DECADE: Final = 12
QUANTILES: Final = {"p50": "median", "p99": "p99", "p999": "p99.9", "max": "longest"}
CONTROLLER: Final = "controller"
NO_LEADER: Final = "none"

Where = tuple[str, int]


@dataclass(frozen=True)
class Setting:
    """What the charts of a run have in common."""

    x: Axis
    bands: tuple[Band, ...]
    marks: tuple[Mark, ...] = ()

    @property
    def end(self) -> float:
        assert self.x.end is not None
        return self.x.end


def setting_of(
    series: Series, faults: Sequence[FaultWindow], frame: Frame, marks: Sequence[Mark], origin: float | None
) -> Setting:
    """Return it; `origin` is the time of day at second 0, in seconds since 1970, if that is known."""
    end = _last_second(series, faults, frame)
    bands = [_band(one, frame, end) for one in faults if one.injected is not None]
    return Setting(
        Axis("time since the load began", "time", origin=origin, start=0.0, end=end), tuple(bands), tuple(marks)
    )


def _last_second(series: Series, faults: Sequence[FaultWindow], frame: Frame) -> float:
    ends = [second + frame.width / 1e9 for second in series["throughput"]["second"].to_pylist()]
    ends += [(one.healed - frame.start) / 1e9 for one in faults if one.healed is not None]
    return max([*ends, frame.width / 1e9])


def run_charts(
    series: Series,
    faults: Sequence[FaultWindow],
    topic_partitions: Sequence[Where],
    cluster: Sequence[ClusterObservation],
    frame: Frame,
    setting: Setting,
) -> dict[str, Chart]:
    """Return the charts by their names, in the order in which they are shown."""
    charts = {
        "faults": _faults(faults, frame, setting),
        "throughput": _throughput(series, frame, setting),
        "latency": _latency(series, frame, setting),
        "heat-map": _heat_map(series, frame, setting),
        "errors": _errors(series, frame, setting),
        "leaders": _leaders(series, topic_partitions, cluster, frame, setting),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


def _band(fault: FaultWindow, frame: Frame, end: float) -> Band:
    start, until = _held(fault, frame, end)
    said = fault.name if fault.took else f"{fault.name} (no evidence)"
    return Band(start, until, said, "fault" if fault.took else "doubtful")


def _held(fault: FaultWindow, frame: Frame, end: float) -> tuple[float, float]:
    """Return when a fault began and ended. A fault that was never healed lasts to the end of the run."""
    assert fault.injected is not None
    return (fault.injected - frame.start) / 1e9, end if fault.healed is None else (fault.healed - frame.start) / 1e9


def _faults(faults: Sequence[FaultWindow], frame: Frame, setting: Setting) -> Chart | None:
    """A row for each kind of fault, and more where faults of a kind overlap; each fault by its targets."""
    free: dict[str, float] = {}
    spans = []
    for fault in faults:
        if fault.injected is None:
            continue
        start, until = _held(fault, frame, setting.end)
        row = next(name for name in _names(fault.fault) if free.get(name, -math.inf) <= start)
        free[row] = until
        spans.append(Span(row, start, until, ", ".join(fault.targets) or "cluster"))
    rows = tuple(sorted(free))
    return (
        Chart("Faults", setting.x, Axis(""), (), setting.bands, setting.marks, rows=rows, spans=tuple(spans))
        if rows
        else None
    )


def _names(kind: str) -> Iterator[str]:
    """`isolate`, `isolate, 2`, …"""
    yield kind
    yield from (f"{kind}, {number}" for number in itertools.count(2))


def _throughput(series: Series, frame: Frame, setting: Setting) -> Chart:
    width = frame.width / 1e9
    table = series["throughput"]
    columns = (table[name].to_pylist() for name in ("second", "f", "type", "operations"))
    rates: defaultdict[str, dict[int, float]] = defaultdict(dict)
    names = {
        ("send", "ok"): "sends acknowledged",
        ("send", "fail"): "sends failed",
        ("send", "info"): "sends of unknown outcome",
        ("poll", "ok"): "polls",
    }
    for second, f, kind, operations in zip(*columns, strict=True):
        if (f, kind) in names:
            rates[names[f, kind]][round(second / width)] = operations / width
    buckets = range(round(setting.end / width))
    seconds = [number * width for number in buckets]
    drawn = tuple(
        Drawn(name, seconds, [rates[name].get(number, 0.0) for number in buckets], "step")
        for name in names.values()
        if name in rates
    )
    return Chart("Throughput", setting.x, Axis("operations", unit="/s"), drawn, setting.bands, setting.marks)


def _latency(series: Series, frame: Frame, setting: Setting) -> Chart | None:
    table = series["latency"]
    if not table.num_rows:
        return None
    width = frame.width / 1e9
    rows = {round(second / width): row for row, second in enumerate(table["second"].to_pylist())}
    first, last = min(rows), max(rows)
    seconds = [(number + 0.5) * width for number in range(first, last + 1)]
    drawn = []
    for name, said in QUANTILES.items():
        values = table[name].to_pylist()
        drawn.append(Drawn(said, seconds, [values[rows[n]] if n in rows else None for n in range(first, last + 1)]))
    axis = Axis("latency", unit="s", log=True)
    title = "Latency of acknowledged sends, by when they were due"
    return Chart(title, setting.x, axis, tuple(drawn), setting.bands, setting.marks)


def _heat_map(series: Series, frame: Frame, setting: Setting) -> Chart | None:
    """Count sends by time and latency, in cells of `ROWS_PER_DECADE` and at most `MOST_CELLS_ACROSS`."""
    table = series.tables.get(LATENCY_BY_TIME)
    if table is None or not table.num_rows:
        return None
    width = frame.width / 1e9
    step = width * max(1, math.ceil(setting.end / width / MOST_CELLS_ACROSS))
    columns = np.floor(table["second"].to_numpy() / step + 1e-9).astype(np.int64)
    latency = class_edges()[table["latency_class"].to_numpy()].astype(np.float64)
    rows = np.floor(ROWS_PER_DECADE * np.log10(latency * (1 - 1e-9))).astype(np.int64)
    lowest, highest = int(rows.min()), int(rows.max())
    cells, place = np.unique(np.stack([columns, rows - lowest]), axis=1, return_inverse=True)
    counts = np.bincount(place.ravel(), weights=table["sends"].to_numpy()).astype(np.int64)
    edges = [10 ** (row / ROWS_PER_DECADE) / 1e9 for row in range(lowest, highest + 2)]
    heat = Heat(0.0, step, edges, cells[0].tolist(), cells[1].tolist(), counts.tolist(), "acknowledged sends")
    title = "Heat map of latency: darker where more sends fell"
    return Chart(title, setting.x, Axis("latency", unit="s", log=True), (), setting.bands, setting.marks, heat=heat)


def _errors(series: Series, frame: Frame, setting: Setting) -> Chart | None:
    table = series["errors"]
    if not table.num_rows:
        return None
    width = frame.width / 1e9
    columns = (table[name].to_pylist() for name in ("second", "error", "operations"))
    rows = list(zip(*columns, strict=True))
    totals: Counter[str] = Counter()
    for _, error, operations in rows:
        totals[error] += operations
    ranked = sorted(totals, key=lambda error: (-totals[error], error))
    named = ranked if len(ranked) <= MOST_ERRORS else ranked[: MOST_ERRORS - 1]
    counts: dict[str, Counter[int]] = {error: Counter() for error in [*named, *(["others"] if named != ranked else [])]}
    for second, error, operations in rows:
        counts[error if error in counts else "others"][round(second / width)] += operations
    drawn = tuple(
        Drawn(
            f"{error.replace('_', ' ')[:60]}",
            [n * width for n in sorted(found)],
            [found[n] for n in sorted(found)],
            "bars",
        )
        for error, found in counts.items()
    )
    title = "Operations that ended with an error, by kind"
    axis = Axis("operations")
    return Chart(title, setting.x, axis, drawn, setting.bands, setting.marks, stacked=True, step=width, height=140)


def _leaders(
    series: Series,
    topic_partitions: Sequence[Where],
    cluster: Sequence[ClusterObservation],
    frame: Frame,
    setting: Setting,
) -> Chart:
    shown = list(topic_partitions)[:MOST_BANDS]
    rows = {where: f"{where[0]}-{where[1]}" for where in shown}
    spans = list(_reigns(CONTROLLER, [one for one in cluster if one.kind == "controller"], frame, setting.end))
    by_place: defaultdict[Where, list[ClusterObservation]] = defaultdict(list)
    for one in cluster:
        if one.topic is not None and one.partition is not None:
            by_place[one.topic, one.partition].append(one)
    for where, name in rows.items():
        spans += _reigns(name, [one for one in by_place[where] if one.kind == "leader"], frame, setting.end)
    for outage in series["outages"].to_pylist():
        where = outage["topic"], outage["partition"]
        if where in rows:
            spans.append(Span(rows[where], outage["start"], outage["end"], "no send acknowledged", "outage"))
    instant = setting.end / 800
    for where, name in rows.items():
        for one in by_place[where]:
            second = (one.time - frame.start) / 1e9
            if one.kind == "in_sync" and second > 0.5:
                spans.append(Span(name, second, second + instant, f"in sync: {', '.join(one.nodes)}", "event"))
    more = len(topic_partitions) - len(shown)
    title = "Leaders; hatched: no send was acknowledged; dark: the ISR changed" + (
        f" ({more} more rows)" if more else ""
    )
    names = (CONTROLLER, *rows.values())
    return Chart(title, setting.x, Axis(""), (), setting.bands, setting.marks, rows=names, spans=tuple(spans))


def _reigns(row: str, seen: Sequence[ClusterObservation], frame: Frame, end: float) -> Iterator[Span]:
    """Yield who led, from when that was first observed until the next observation."""
    for number, one in enumerate(seen):
        start = max(0.0, (one.time - frame.start) / 1e9)
        until = min(end, (seen[number + 1].time - frame.start) / 1e9 if number + 1 < len(seen) else end)
        if until > start:
            yield Span(row, start, until, one.node or NO_LEADER)
