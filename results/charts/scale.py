"""Scales of the drawn charts: extents, round ticks, and how values are written. `charts.js` does the same live."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from squall.results.charts.chart import Axis, Chart

TIME_STEPS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
DAY: Final = 86_400
DAYS: Final = (1, 2, 7, 14, 28, 91, 182, 364)
DATE_STEPS: Final = (60, 300, 900, 3600, 10_800, 21_600, 43_200, *(DAY * days for days in DAYS))


def x_extent(chart: Chart) -> tuple[float, float]:
    """Return the first and the last position that the chart shows."""
    if chart.x.kind == "category":
        return -0.5, max(1, len(chart.categories)) - 0.5
    found = [float(x) for one in chart.series for x in one.x]
    found += [edge for one in chart.spans for edge in (one.start, one.end)]
    if chart.heat is not None:
        heat = chart.heat
        found += [heat.start + heat.step * column for one in heat.columns for column in (one, one + 1)]
    low, high = min(found, default=0.0), max(found, default=1.0)
    dots = any(one.kind in ("points", "whisker") for one in chart.series)
    room = 0.015 * (high - low) if dots and chart.x.kind != "time" else 0.0
    start = low - room if chart.x.start is None else chart.x.start
    end = high + room if chart.x.end is None else chart.x.end
    return (start, end) if end > start else (start - 0.5, start + 0.5)


def y_extent(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """Return the extent of a y axis that shows all of the values."""
    finite = [one for one in values if math.isfinite(one) and (one > 0 or not axis.log)]
    low, high = min(finite, default=1.0 if axis.log else 0.0), max(finite, default=1.0)
    if axis.log:
        return low / 1.3, max(high, low * 1.5) * 1.3
    if axis.zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = 0.06 * (high - low) or max(abs(high), 1.0) * 0.5
    return (low if axis.zero and low == 0 else low - room), high + room


def ticks(axis: Axis, low: float, high: float, most: int) -> list[float]:
    """Return at most about `most` round positions between the two."""
    if axis.log:
        return _log_ticks(low, high, most)
    rough = (high - low) / max(1, most)
    steps: Sequence[float] = {"time": TIME_STEPS, "date": DATE_STEPS}.get(axis.kind, ())
    step = next((one for one in steps if one >= rough), None) or _round_step(rough)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _round_step(rough: float) -> float:
    power = 10 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(power * one for one in (1, 2, 5, 10) if power * one >= rough * (1 - 1e-9))


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for within in ((1, 2, 5), (1, 3), (1,)):
        found = [one * 10.0**decade for decade in decades for one in within if low <= one * 10.0**decade <= high]
        if len(found) <= most:
            return found
    return found[:: math.ceil(len(found) / most)]


def written(value: float, unit: str) -> str:
    """A value with its unit: `41.2 ms`, `3.1 MB`, `1 500 /s`."""
    if unit == "s":
        for size, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if abs(value) >= size:
                return f"{_digits(value / size)} {name}"
        return "0 s" if value == 0 else f"{_digits(value * 1e9)} ns"
    if unit in ("B", "B/s"):
        for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size:
                return f"{_digits(value / size)} {name}{unit}"
    return f"{_digits(value)} {unit}".rstrip()


def _digits(value: float) -> str:
    """At most three significant digits below a thousand, and no needless zeros; above, groups of three digits."""
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{float(f'{value:.3g}'):g}"


def position_written(axis: Axis, position: float, span: float) -> str:
    """A position on the x axis, as precise as an axis of that length needs."""
    if axis.kind == "date":
        when = datetime.fromtimestamp(position, UTC)
        return when.strftime("%Y-%m-%d" if span > 300 * DAY else "%m-%d" if span > 2 * DAY else "%H:%M")
    if axis.kind == "time":
        if span <= 300:
            return f"{position:g} s"
        minutes, seconds = divmod(round(position), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return written(position, axis.unit)
