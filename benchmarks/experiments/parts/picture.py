"""Write a chart as an SVG file of its own: the static picture of `results/charts` with its style sheet in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from squall.benchmarks.parts.measurement import Measurement
from squall.results.charts.chart import Axis, Chart, Series
from squall.results.charts.figure import style
from squall.results.charts.still import still

TITLE_HEIGHT = 24
HEIGHT = 320


def svg(chart: Chart) -> str:
    """Return the text of an SVG file, which opens offline."""
    drawn = str(still(chart)).replace('class="chart-still"', 'class="chart chart-still"', 1)
    head, body = drawn.split(">", 1)
    left, box = head.split('viewBox="0 0 ', 1)
    width, height = box.split('"', 1)[0].split()
    tall = float(height) + TITLE_HEIGHT
    rest = box.split('"', 1)[1]
    heading = "font-size: 13px; font-weight: 600; fill: var(--chart-ink)"
    opened = f'{left}viewBox="0 -{TITLE_HEIGHT} {width} {tall:.0f}" width="{width}" height="{tall:.0f}"{rest}>'
    return "\n".join(
        [
            opened,
            f"<style>{style()}</style>",
            f'<rect y="-{TITLE_HEIGHT}" width="100%" height="100%" style="fill: var(--chart-paper)"/>',
            f'<text x="12" y="-8" style="{heading}">{chart.title}</text>',
            body,
            "",
        ]
    )


def bars(
    title: str,
    groups: Sequence[str],
    arms: Mapping[str, Sequence[float | None]],
    label: str,
    unit: str,
    *,
    log: bool = False,
) -> str:
    """Return bars of several arms, side by side, for each group; on a logarithmic axis, points."""
    series = tuple(
        Series(f"{name}, {label}", tuple(groups), tuple(values), kind="points" if log else "bars")
        for name, values in arms.items()
    )
    y = Axis(label, unit=unit, log=log)
    return svg(Chart(title, Axis("", kind="category"), y, series, step=1.0, height=HEIGHT))


def by_name(measurements: Sequence[Measurement]) -> dict[str, Measurement]:
    """Return measurements by the name of their figure."""
    return {one.name.strip(): one for one in measurements}
