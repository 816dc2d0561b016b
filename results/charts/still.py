"""Draw a chart once, as a small static SVG: for paper, for a browser without scripts, and until the script runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from squall.results.charts.chart import Chart, Heat, Series
from squall.results.charts.scale import position_written, ticks, written, x_extent, y_extent

WIDTH: Final = 720
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 16, 32
COLUMNS: Final = 300
"""Lines are thinned to the least and the greatest value in each of so many columns; many lines, to half as many."""
MANY: Final = 4
HEAT_COLUMNS: Final = 150
ROW_HEIGHT: Final = 14
COLOURS: Final = 8
SHADES: Final = 6

_Point = tuple[float, float]


@dataclass(frozen=True)
class Plane:
    """Where positions and values lie in the picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    log: bool
    height: float

    def across(self, position: float) -> float:
        start, end = self.x
        return LEFT + (position - start) / (end - start) * (WIDTH - LEFT - RIGHT)

    def up(self, value: float) -> float:
        low, high = self.y
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low * 1e-3))
        return TOP + (1 - (value - low) / (high - low)) * self.height


def still(chart: Chart) -> Markup:
    """Return the chart as an `<svg>` element."""
    x = x_extent(chart)
    if chart.rows:
        plane = Plane(x, (0, len(chart.rows)), False, ROW_HEIGHT * len(chart.rows))
    elif chart.heat is not None:
        edges = chart.heat.edges
        plane = Plane(x, (min(edges, default=0.1), max(edges, default=1.0)), chart.y.log, 0.6 * chart.height)
    else:
        plane = Plane(x, y_extent(chart.y, _values(chart, x)), chart.y.log, 0.6 * chart.height)
    legend, lines = _legend(chart, plane)
    parts = [*_bands(chart, plane), *_axes(chart, plane)]
    parts += [*_rows(chart, plane)] if chart.rows else []
    parts += [*_heat(chart.heat, plane)] if chart.heat is not None else []
    for number, one in enumerate(chart.series):
        parts += _series(chart, one, number, plane)
    parts += _marks(chart, plane)
    height = TOP + plane.height + BOTTOM + 14 * lines
    return Markup(
        '<svg class="chart-still" viewBox="0 0 {} {:.0f}" role="img" aria-label="{}" '
        'xmlns="http://www.w3.org/2000/svg">{}</svg>'
    ).format(WIDTH, height, chart.title, Markup("").join([*parts, *legend]))


def _positions(chart: Chart, series: Series) -> list[float]:
    if chart.x.kind != "category":
        return [float(x) for x in series.x]
    places = {name: place for place, name in enumerate(chart.categories)}
    return [float(places[str(x)]) for x in series.x]


def _values(chart: Chart, x: tuple[float, float]) -> Iterator[float]:
    sums: dict[float, float] = {}
    for one in chart.series:
        for name in ("y", "low", "high"):
            for position, value in zip(_positions(chart, one), getattr(one, name), strict=False):
                if value is None or not x[0] <= position <= x[1]:
                    continue
                yield value
                if chart.stacked and one.kind == "bars" and name == "y":
                    sums[position] = sums.get(position, 0.0) + value
        if one.kind in ("bars", "area") and not one.low and not chart.y.log:
            yield 0.0
    yield from sums.values()


def _bands(chart: Chart, plane: Plane) -> Iterator[Markup]:
    free = 0.0
    for one in sorted(chart.bands, key=lambda band: band.start):
        left, right = (min(max(plane.across(edge), LEFT), WIDTH - RIGHT) for edge in (one.start, one.end))
        yield Markup(
            '<rect class="chart-band {}" x="{:.1f}" y="{}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
        ).format(f"chart-band-{one.kind}", left, TOP, max(right - left, 0.8), plane.height, one.label)
        if left >= free:
            yield Markup('<text class="chart-band-name" x="{:.1f}" y="{}">{}</text>').format(left, TOP - 5, one.label)
            free = left + 5.6 * len(one.label) + 4


def _axes(chart: Chart, plane: Plane) -> Iterator[Markup]:
    low, high = plane.x
    bottom = TOP + plane.height
    if chart.x.kind == "category":
        names = chart.categories
        step = max(1, math.ceil(len(names) / 8))
        labels = [(float(place), names[place][:18]) for place in range(0, len(names), step)]
    else:
        labels = [(one, position_written(chart.x, one, high - low)) for one in ticks(chart.x, low, high, 9)]
    for place, name in labels:
        yield Markup('<text class="chart-tick" text-anchor="middle" x="{:.1f}" y="{:.1f}">{}</text>').format(
            plane.across(place), bottom + 12, name
        )
    yield Markup('<text class="chart-tick" text-anchor="end" x="{}" y="{:.1f}">{}</text>').format(
        WIDTH - RIGHT, bottom + 25, chart.x.label
    )
    if not chart.rows:
        for one in ticks(chart.y, *plane.y, 5):
            y = plane.up(one)
            yield Markup('<path class="chart-grid" d="M{} {:.1f}H{}"/>').format(LEFT, y, WIDTH - RIGHT)
            yield Markup('<text class="chart-tick" text-anchor="end" x="{}" y="{:.1f}">{}</text>').format(
                LEFT - 5, y + 3.5, written(one, chart.y.unit)
            )
    yield Markup('<path class="chart-axis" d="M{} {:.1f}H{}"/>').format(LEFT, bottom, WIDTH - RIGHT)


def _series(chart: Chart, one: Series, number: int, plane: Plane) -> Iterator[Markup]:
    colour = f"chart-s{number % COLOURS}"
    positions = _positions(chart, one)
    points = [
        (plane.across(x), plane.up(y))
        for x, y in zip(positions, one.y, strict=True)
        if y is not None and math.isfinite(y) and plane.x[0] <= x <= plane.x[1] and (y > 0 or not plane.log)
    ]
    if one.kind == "bars":
        yield from _bars(chart, number, plane)
    elif one.kind in ("points", "whisker"):
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        yield Markup('<path class="chart-dots {}" d="{}"/>').format(colour, dots)
    if one.low and one.high:
        stems = [
            (plane.across(x), plane.up(low), plane.up(high))
            for x, low, high in zip(positions, one.low, one.high, strict=True)
            if low is not None and high is not None and plane.x[0] <= x <= plane.x[1]
        ]
        if one.kind == "whisker":
            path = "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, low, high in stems)
            yield Markup('<path class="chart-line {}" d="{}"/>').format(colour, path)
        elif stems:
            edge = [(x, high) for x, _, high in stems] + [(x, low) for x, low, _ in reversed(stems)]
            yield Markup('<path class="chart-area {}" d="{}Z"/>').format(colour, _path(edge))
    if one.kind in ("line", "step", "area") and points:
        thin = _thinned(points, COLUMNS if len(chart.series) <= MANY else COLUMNS // 2)
        if one.kind == "area" and not one.low:
            base = plane.up(plane.y[0])
            closed = [(thin[0][0], base), *thin, (thin[-1][0], base)]
            yield Markup('<path class="chart-area {}" d="{}Z"/>').format(colour, _path(closed))
        path = _path(_stairs(thin) if one.kind == "step" else thin)
        yield Markup('<path class="chart-line {} {}" d="{}"/>').format(colour, f"chart-d{number % COLOURS}", path)


def _bars(chart: Chart, number: int, plane: Plane) -> Iterator[Markup]:
    bars = [one for one in chart.series if one.kind == "bars"]
    one = chart.series[number]
    positions = _positions(chart, one)
    every = sorted({x for bar in bars for x in _positions(chart, bar)})
    step = chart.step or min((later - earlier for earlier, later in pairwise(every)), default=1.0)
    beside = 1 if chart.stacked else len(bars)
    place = 0 if chart.stacked else bars.index(one)
    below: dict[float, float] = {}
    for other in bars[: bars.index(one)] if chart.stacked else []:
        for x, y in zip(_positions(chart, other), other.y, strict=True):
            below[x] = below.get(x, 0.0) + (y or 0.0)
    offset = -0.5 if chart.x.kind == "category" else 0.0
    path = []
    for x, y in zip(positions, one.y, strict=True):
        if y and plane.x[0] <= x <= plane.x[1]:
            left = plane.across(x + step * (0.1 + 0.8 * place / beside + offset))
            right = plane.across(x + step * (0.1 + 0.8 * (place + 1) / beside + offset))
            low, high = plane.up(below.get(x, 0.0)), plane.up(below.get(x, 0.0) + y)
            path.append(f"M{left:.1f} {low:.1f}V{high:.1f}H{right:.1f}V{low:.1f}Z")
    yield Markup('<path class="chart-bar {}" d="{}"/>').format(f"chart-s{number % COLOURS}", "".join(path))


def _thinned(points: Sequence[_Point], most: int) -> list[_Point]:
    """Keep the least and the greatest point in each of `most` columns."""
    if len(points) <= 2 * most:
        return list(points)
    columns: dict[int, list[_Point]] = {}
    for point in points:
        columns.setdefault(int((point[0] - LEFT) / (WIDTH - LEFT) * most), []).append(point)
    thin: list[_Point] = []
    for among in columns.values():
        thin += sorted({min(among, key=lambda one: one[1]), max(among, key=lambda one: one[1])})
    return thin


def _stairs(points: Sequence[_Point]) -> list[_Point]:
    stairs = list(points[:1])
    for x, y in points[1:]:
        stairs += [(x, stairs[-1][1]), (x, y)]
    return stairs


def _path(points: Sequence[_Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) if points else ""


def _rows(chart: Chart, plane: Plane) -> Iterator[Markup]:
    colours = span_colours(chart)
    for number, name in enumerate(chart.rows):
        yield Markup('<text class="chart-tick" text-anchor="end" x="{}" y="{}">{}</text>').format(
            LEFT - 5, TOP + ROW_HEIGHT * number + 10, name if len(name) < 14 else name[:12] + "…"
        )
    places = {name: TOP + ROW_HEIGHT * number + 1 for number, name in enumerate(chart.rows)}
    for one in chart.spans:
        left, right = (min(max(plane.across(edge), LEFT), WIDTH - RIGHT) for edge in (one.start, one.end))
        kind = f"chart-span-{one.kind}" if one.kind else f"chart-s{colours[one.label]}"
        yield Markup(
            '<rect class="chart-span {}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>'
        ).format(kind, left, places[one.row], max(right - left, 0.5), ROW_HEIGHT - 2, one.label)
        if not one.kind and right - left > 6 * len(one.label) + 4:
            yield Markup('<text class="chart-span-name" x="{:.1f}" y="{}">{}</text>').format(
                left + 3, places[one.row] + 9, one.label
            )


def span_colours(chart: Chart) -> dict[str, int]:
    """Return the colour of each label of the spans, in the order of their names."""
    labels = sorted({one.label for one in chart.spans if not one.kind})
    return {label: place % COLOURS for place, label in enumerate(labels)}


def _heat(heat: Heat, plane: Plane) -> Iterator[Markup]:
    """Draw the cells, those of one shade as one path."""
    together = math.ceil((max(heat.columns, default=0) + 1) / HEAT_COLUMNS)
    cells: dict[tuple[int, int], int] = {}
    for column, row, count in zip(heat.columns, heat.rows, heat.counts, strict=True):
        cells[column // together, row] = cells.get((column // together, row), 0) + count
    most = max(cells.values(), default=1)
    paths: list[list[str]] = [[] for _ in range(SHADES)]
    step = heat.step * together
    wide = plane.across(plane.x[0] + step) - LEFT
    for (column, row), count in cells.items():
        low, high = plane.up(heat.edges[row]), plane.up(heat.edges[row + 1])
        shade = min(SHADES - 1, int(SHADES * math.log1p(count) / math.log1p(most)))
        left = plane.across(heat.start + step * column)
        paths[shade].append(f"M{left:.1f} {low:.1f}h{wide:.1f}v{high - low:.1f}h-{wide:.1f}z")
    for shade, path in enumerate(paths):
        if path:
            yield Markup('<path class="chart-heat" fill-opacity="{:.2f}" d="{}"/>').format(
                (shade + 1) / SHADES, "".join(path)
            )


def _marks(chart: Chart, plane: Plane) -> Iterator[Markup]:
    places = {name: float(place) for place, name in enumerate(chart.categories)}
    for one in chart.marks:
        x = plane.across(places.get(one.x, 0.0) if isinstance(one.x, str) else one.x)
        if not LEFT <= x <= WIDTH - RIGHT:
            continue
        path = f"M{x:.1f} {TOP}l-4 -7h8Z M{x:.1f} {TOP}V{TOP + plane.height:.1f}"
        drawn = Markup('<path class="chart-mark chart-mark-{}" d="{}"><title>{}</title></path>').format(
            one.kind, path, one.label
        )
        yield Markup('<a href="{}">{}</a>').format(one.href, drawn) if one.href else drawn


def _legend(chart: Chart, plane: Plane) -> tuple[list[Markup], int]:
    """Return the names of the series, or of what rows show, below the picture, and how many lines they take."""
    if chart.rows:
        named = [(label, colour, False) for label, colour in span_colours(chart).items()]
    else:
        named = [(one.name, place % COLOURS, one.kind != "bars") for place, one in enumerate(chart.series)]
    parts: list[Markup] = []
    x, line = float(LEFT), 0
    for name, colour, dashed in named:
        width = 30 + 5.8 * len(name)
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, line = float(LEFT), line + 1
        y = TOP + plane.height + 34 + 14 * line
        classes = f"chart-line chart-s{colour} chart-d{colour}" if dashed else f"chart-swatch chart-s{colour}"
        parts.append(Markup('<path class="{}" d="M{:.0f} {:.0f}h18"/>').format(classes, x, y))
        parts.append(Markup('<text class="chart-tick" x="{:.0f}" y="{:.0f}">{}</text>').format(x + 22, y + 4, name))
        x += width
    return parts, line + 1 if named else 0
