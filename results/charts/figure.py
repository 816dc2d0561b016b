"""Write a chart into a page: a static picture, and the data from which the script draws a live one.

    page.head   <style>{{ style() }}</style>
    page.body   {{ figure(chart, "throughput", group="run") }}  …  <script>{{ script() }}</script>

Nothing is loaded from elsewhere; the page may lie on a disk. Charts of one `group` zoom together. The script replaces
each static picture; on paper and without scripts these stay. Data is JSON in an inert element: nothing in it, such as
the name of a topic, can end that element or run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from markupsafe import Markup

from squall.results.charts.chart import Axis, Chart, Position, Series
from squall.results.charts.still import still

ASSETS: Final = Path(__file__).parent
VALUE_DIGITS: Final = 5
POSITION_DIGITS: Final = 3
UNSAFE: Final = re.compile("[<>&\u2028\u2029]")


def figure(chart: Chart, identity: str, *, group: str = "") -> Markup:
    """Return the chart as a `<figure>` with that id."""
    return Markup(
        '<figure class="chart" id="{identity}"{group}><figcaption>{title}</figcaption>{still}'
        '<script type="application/json">{data}</script></figure>'
    ).format(
        identity=identity,
        group=Markup(' data-group="{}"').format(group) if group else "",
        title=chart.title,
        still=still(chart),
        data=Markup(embedded(chart_data(chart))),
    )


@cache
def script() -> Markup:
    """Return the text of the script; once in a page, after its figures or in the head with `defer`."""
    return Markup((ASSETS / "charts.js").read_text("utf-8"))


@cache
def style() -> Markup:
    """Return the text of the style sheet."""
    return Markup((ASSETS / "charts.css").read_text("utf-8"))


def embedded(value: Any) -> str:
    """JSON that is safe within an element of HTML: characters that could end it are escaped."""
    text = msgspec.json.encode(value).decode()
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def chart_data(chart: Chart) -> dict[str, Any]:
    """Return what the script needs, without what is empty; `xs` holds each distinct list of positions once."""
    xs: list[Any] = []
    series = [_series_data(one, chart, xs) for one in chart.series]
    labels = sorted({one.label for one in chart.spans})
    rows = {name: place for place, name in enumerate(chart.rows)}
    data = {
        "title": chart.title,
        "x": _axis_data(chart.x),
        "y": _axis_data(chart.y),
        "height": chart.height,
        "stacked": chart.stacked,
        "step": chart.step,
        "categories": list(chart.categories),
        "xs": xs,
        "series": series,
        "bands": [[_at(one.start), _at(one.end), one.label, one.kind] for one in chart.bands],
        "marks": [[_at(one.x), one.label, one.href, one.kind] for one in chart.marks],
        "rows": list(chart.rows),
        "labels": labels,
        "spans": [
            [rows[one.row], _at(one.start), _at(one.end), labels.index(one.label), one.kind] for one in chart.spans
        ],
        "heat": None if chart.heat is None else _heat_data(chart),
    }
    return {name: value for name, value in data.items() if value not in (None, [], False)}


def _axis_data(axis: Axis) -> dict[str, Any]:
    facts = {
        "label": axis.label,
        "kind": axis.kind,
        "unit": axis.unit,
        "log": axis.log,
        "any": not axis.zero,
        "origin": axis.origin,
        "start": axis.start,
        "end": axis.end,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", False) or value == 0.0}


def _series_data(series: Series, chart: Chart, xs: list[Any]) -> dict[str, Any]:
    if chart.x.kind == "category":
        places = {name: place for place, name in enumerate(chart.categories)}
        positions: Any = [places[str(x)] for x in series.x]
    else:
        positions = _positions([float(x) for x in series.x])
    if positions not in xs:
        xs.append(positions)
    facts = {
        "name": series.name,
        "kind": series.kind,
        "x": xs.index(positions),
        "y": [_value(one) for one in series.y],
        "low": [_value(one) for one in series.low],
        "high": [_value(one) for one in series.high],
        "labels": list(series.labels),
        "hrefs": list(series.hrefs),
    }
    return {name: value for name, value in facts.items() if value != [] or name == "y"}


def _positions(xs: Sequence[float]) -> Any:
    """Evenly spaced positions as their first, step and number; others one by one."""
    if len(xs) > 3:
        step = (xs[-1] - xs[0]) / (len(xs) - 1)
        if step > 0 and all(abs(x - xs[0] - number * step) < 1e-6 * step for number, x in enumerate(xs)):
            return {"from": round(xs[0], 6), "step": round(step, 9), "count": len(xs)}
    return [_at(x) for x in xs]


def _at(position: Position) -> Position:
    if isinstance(position, str):
        return position
    return _short(round(position, POSITION_DIGITS))


def _value(value: float | None) -> float | None:
    """Enough digits for a plot and its readout; None for what JSON cannot say."""
    if value is None or not math.isfinite(value):
        return None
    return _short(float(f"{value:.{VALUE_DIGITS}g}"))


def _short(value: float) -> float:
    return int(value) if value == int(value) else value


def _heat_data(chart: Chart) -> dict[str, Any]:
    heat = chart.heat
    assert heat is not None
    return {
        "start": heat.start,
        "step": heat.step,
        "edges": [_value(one) for one in heat.edges],
        "columns": list(heat.columns),
        "rows": list(heat.rows),
        "counts": list(heat.counts),
        "counted": heat.counted,
    }
