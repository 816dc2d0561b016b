"""Draw measured figures beside published ones: horizontal bars in panels, as one SVG that opens offline.

Measured bars are filled, published ones are hatched, so colour is not the only mark. All bars of a panel share one
linear axis that begins at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from squall.harness.simulation.explain.spacetime import BLUE, FONT, GREY, INK, RED

WIDTH, LEFT, RIGHT = 860, 330, 90
TOP, ROW, BAR, HEADING, GAP = 44, 26, 16, 26, 22
COLOURS = (RED, BLUE, GREY)
"""Of the series, in their order."""
LEAST = 1.5
"""A bar is at least so wide: a figure that is small beside the others is still to be seen."""


@dataclass(frozen=True)
class Bar:
    """One bar. `series` is the number of what it belongs to, such as a system; it decides the colour."""

    label: str
    value: float
    series: int
    published: bool = False


@dataclass(frozen=True)
class Panel:
    """Bars that are compared with each other."""

    heading: str
    unit: str
    bars: Sequence[Bar]


def bar_chart(title: str, panels: Sequence[Panel], note: str) -> str:
    """Return the text of an SVG file."""
    svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": FONT, "font-size": "13", "role": "img"})
    SubElement(svg, "title").text = title
    SubElement(svg, "rect", width="100%", height="100%", fill="white")
    _hatches(svg)
    _text(svg, 16, 26, title, **{"font-size": "16", "font-weight": "bold"})
    y = TOP
    for panel in panels:
        y = _panel(svg, panel, y)
    _text(svg, 16, y + 6, note, fill=GREY, **{"font-size": "11"})
    svg.set("viewBox", f"0 0 {WIDTH} {y + 20}")
    svg.set("width", str(WIDTH))
    svg.set("height", str(y + 20))
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def _hatches(svg: Element) -> None:
    definitions = SubElement(svg, "defs")
    for number, colour in enumerate(COLOURS):
        pattern = SubElement(
            definitions, "pattern", id=f"hatch-{number}", width="6", height="6",
            patternUnits="userSpaceOnUse", patternTransform="rotate(45)",
        )  # fmt: skip
        SubElement(pattern, "rect", width="6", height="6", fill="white")
        SubElement(pattern, "line", {"x1": "0", "y1": "0", "x2": "0", "y2": "6", "stroke": colour, "stroke-width": "4"})


def _panel(svg: Element, panel: Panel, y: int) -> int:
    _text(svg, 16, y + 16, panel.heading, **{"font-weight": "bold"})
    y += HEADING
    longest = max((one.value for one in panel.bars), default=0.0) or 1.0
    for one in panel.bars:
        width = max(one.value / longest * (WIDTH - LEFT - RIGHT), LEAST)
        colour = COLOURS[one.series % len(COLOURS)]
        fill = f"url(#hatch-{one.series % len(COLOURS)})" if one.published else colour
        _text(svg, LEFT - 8, y + 13, one.label, **{"text-anchor": "end"})
        SubElement(svg, "rect", x=str(LEFT), y=str(y), width=f"{width:.1f}", height=str(BAR), fill=fill, stroke=colour)
        _text(svg, LEFT + width + 6, y + 13, f"{one.value:.3g} {panel.unit}")
        y += ROW
    return y + GAP


def _text(svg: Element, x: float, y: float, content: str, **attributes: str) -> None:
    SubElement(svg, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "fill": INK, **attributes}).text = content
