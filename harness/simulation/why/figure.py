"""Draw the probability of a failure over a run's time as one SVG that opens offline.

Above, the whole run: the probability with its intervals, and below it the faults of the run on the same axis. Then the
stretch that decided, much enlarged, with the events in it numbered and named. Colour is never the only mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from textwrap import wrap
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from squall.harness.simulation.explain.spacetime import BLUE, FONT, GREY, INK, PALE, RED, SHADE
from squall.harness.simulation.why.account import Explanation, other_lines, percent, same_failure, sentence
from squall.harness.simulation.why.search import Change, Instant

WIDTH = 960
LEFT, RIGHT = 110, 30
PANEL = 190
ROW = 22
LINE = 18
CHARACTERS = 128
MARKS = 8
"""At most so many marks on an axis."""
AROUND = 1.5
"""The enlarged part shows this many lengths of the decisive stretch before it and after it."""

Scale = Callable[[float], float]


class Figure:
    """The picture of one explanation."""

    def __init__(self, found: Explanation, heading: str) -> None:
        self.found = found
        self.parent = found.parent
        self.heading = heading
        self.svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": FONT, "font-size": "12"})
        self.svg.set("role", "img")
        SubElement(self.svg, "title").text = heading
        self._add("rect", width="100%", height="100%", fill="white")
        self._hatch()

    def text(self) -> str:
        """Return the whole picture as the text of an SVG file."""
        y = self._head()
        y = self._whole_run(y + 24)
        if self.found.decisive is not None:
            y = self._enlarged(y + 44, self.found.decisive)
        self.svg.set("viewBox", f"0 0 {WIDTH} {y + 20:.0f}")
        self.svg.set("width", str(WIDTH))
        self.svg.set("height", f"{y + 20:.0f}")
        ElementTree.indent(self.svg)
        return ElementTree.tostring(self.svg, encoding="unicode") + "\n"

    # -- parts ----------------------------------------------------------------------------------------------------

    def _head(self) -> float:
        self._write(16, 28, self.heading, font_size=17, font_weight="bold", fill=INK)
        y = 30.0
        for text, colour, weight in (
            (f"Baked in: {sentence(self.found)}.", INK, "bold"),
            *((f"Also {line}.", INK, None) for line in other_lines(self.found)),
            (f"Counted as the same failure: {same_failure(self.parent)}.", GREY, None),
        ):
            for line in wrap(text, CHARACTERS):
                y += LINE
                self._write(16, y, line, fill=colour, font_weight=weight)
        return y

    def _whole_run(self, top: float) -> float:
        begins, ends = self._seconds(0), self._seconds(self.parent.ended)
        x = _scale(begins, ends)
        if self.found.decisive is not None:
            left, right = (x(self._seconds(one.at)) for one in (self.found.decisive.before, self.found.decisive.after))
            left, right = left - max(0.0, 3 - (right - left)) / 2, right + max(0.0, 3 - (right - left)) / 2
            self._add("rect", x=left, y=top, width=right - left, height=PANEL, fill=RED, fill_opacity=0.25)
        self._curve(top, x, self.found.instants)
        y = self._faults(top + PANEL + 8, x, ends)
        self._axis(y, x, begins, ends)
        self._add("line", x1=x(ends), y1=top, x2=x(ends), y2=y, stroke=RED, stroke_width=2)
        self._write(x(ends) - 5, top - 6, f"✕ {' and '.join(self.parent.broken)}", fill=RED, text_anchor="end")
        self._write(x(0) + 4, top - 6, "load begins", fill=GREY)
        self._add("line", x1=x(0), y1=top, x2=x(0), y2=y, stroke=GREY, stroke_dasharray="2 3")
        return y + 28

    def _enlarged(self, top: float, change: Change) -> float:
        begins, ends = self._seconds(change.before.at), self._seconds(change.after.at)
        around = (ends - begins) * AROUND
        begins, ends = begins - around, min(ends + around, self._seconds(self.parent.ended))
        x = _scale(begins, ends)
        self._write(16, top - 12, "The stretch that decided, enlarged", font_weight="bold", fill=INK)
        left, right = (x(self._seconds(one.at)) for one in (change.before, change.after))
        self._add("rect", x=left, y=top, width=right - left, height=PANEL, fill=RED, fill_opacity=0.12)
        self._curve(top, x, [one for one in self.found.instants if begins <= self._seconds(one.at) <= ends])
        for number, event in enumerate(self.found.events, 1):
            at = x(event.at / 1e6)
            self._add("line", x1=at, y1=top, x2=at, y2=top + PANEL, stroke=INK, stroke_dasharray="1 3")
            y = top + 10 + (number - 1) % 3 * 18
            self._add("circle", cx=at, cy=y, r=8, fill="white", stroke=INK)
            self._write(at, y + 4, str(number), text_anchor="middle", fill=INK, font_size=11)
        self._axis(top + PANEL, x, begins, ends)
        y = top + PANEL + 34
        for number, event in enumerate(self.found.events, 1):
            for place, line in enumerate(wrap(f"{event.at / 1e6:.6f} s  {event.text}", CHARACTERS - 12)):
                y += LINE
                if place == 0:
                    self._write(LEFT - 14, y, f"{number}", text_anchor="end", fill=INK, font_weight="bold")
                self._write(LEFT, y, line, fill=INK)
        return y

    def _curve(self, top: float, x: Scale, instants: Sequence[Instant]) -> None:
        """Draw the probability with its intervals, and the axis at its left."""
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            y = top + PANEL * (1 - share)
            self._add("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, stroke=PALE)
            self._write(LEFT - 8, y + 4, percent(share), text_anchor="end", fill=GREY, font_size=11)
        self._write(16, top + PANEL / 2, "P(bug)", fill=INK, font_weight="bold")
        points = [(x(self._seconds(one.at)), top + PANEL * (1 - one.probability), one) for one in instants]
        if not points:
            return
        self._add("polyline", points=" ".join(f"{a:.1f},{b:.1f}" for a, b, _ in points), fill="none", stroke=BLUE)
        for a, b, one in points:
            low, high = (top + PANEL * (1 - end) for end in (one.interval.low, one.interval.high))
            self._add("line", x1=a, y1=low, x2=a, y2=high, stroke=BLUE, stroke_opacity=0.55, stroke_width=3)
            dot = self._add("circle", cx=a, cy=b, r=3.6, fill=BLUE, stroke="white")
            interval = f"{percent(one.interval.low)} to {percent(one.interval.high)}"
            words = (
                f"{self._seconds(one.at):.4f} s: {percent(one.probability)} ({interval}), {one.failed} of {one.runs}"
            )
            SubElement(dot, "title").text = words

    def _faults(self, top: float, x: Scale, ends: float) -> float:
        """Draw a row for each host with faults. Return where the rows end."""
        windows = [one for one in self.found.trace.faults if one.begin / 1e6 < ends]
        hosts = sorted({host for window in windows for host in window.hosts})
        if not hosts:
            self._write(LEFT, top + 15, "no faults", fill=GREY)
            return top + ROW
        for row, host in enumerate(hosts):
            y = top + row * ROW
            self._write(LEFT - 8, y + 15, host, text_anchor="end", fill=INK)
            self._add("line", x1=LEFT, y1=y + ROW, x2=WIDTH - RIGHT, y2=y + ROW, stroke=PALE)
            for window in windows:
                if host in window.hosts:
                    begin = window.begin / 1e6
                    end = ends if window.end is None else min(ends, window.end / 1e6)
                    width = max(3.0, x(end) - x(begin))
                    bar = self._add(
                        "rect", x=x(begin), y=y + 3, width=width, height=ROW - 6, rx=3, fill="url(#fault)",
                        stroke=SHADE, stroke_opacity=0.6,
                    )  # fmt: skip
                    SubElement(
                        bar, "title"
                    ).text = f"{window.kind} {', '.join(window.hosts)}: {begin:.3f} s to {end:.3f} s"
                    outside = width < 7 * len(window.kind) and x(begin) > WIDTH - 180
                    at = x(begin) - 4 if outside else x(begin) + 5
                    self._write(
                        at, y + 15, window.kind, fill=SHADE, font_size=11, text_anchor="end" if outside else None,
                        stroke="white", stroke_width=3, paint_order="stroke",
                    )  # fmt: skip
        return top + len(hosts) * ROW

    def _axis(self, y: float, x: Scale, begins: float, ends: float) -> None:
        self._add("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, stroke=GREY)
        step, digits = _step(ends - begins)
        for number in range(ceil(begins / step), floor(ends / step) + 1):
            at = number * step
            self._add("line", x1=x(at), y1=y, x2=x(at), y2=y + 5, stroke=GREY)
            self._write(x(at), y + 18, f"{at:.{digits}f} s", text_anchor="middle", fill=GREY, font_size=11)

    # -- drawing --------------------------------------------------------------------------------------------------

    def _seconds(self, at: int) -> float:
        return self.parent.shown(at)

    def _hatch(self) -> None:
        hatch = self._add(
            "pattern", self._add("defs"), id="fault", width=7, height=7, patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        )  # fmt: skip
        self._add("rect", hatch, width=7, height=7, fill=SHADE, fill_opacity=0.06)
        self._add("line", hatch, x1=0, y1=0, x2=0, y2=7, stroke=SHADE, stroke_opacity=0.35, stroke_width=2)

    def _add(self, tag: str, parent: Element | None = None, **attributes: object) -> Element:
        named = {key.replace("_", "-"): value for key, value in attributes.items() if value is not None}
        values = {key: f"{value:.1f}" if isinstance(value, float) else str(value) for key, value in named.items()}
        return SubElement(self.svg if parent is None else parent, tag, values)

    def _write(self, x: float, y: float, text: str, **attributes: object) -> None:
        self._add("text", None, x=x, y=y, **attributes).text = text


def _step(length: float) -> tuple[float, int]:
    """Return a round distance of the marks on an axis of this length, and the digits that it needs."""
    power = floor(log10(max(length, 1e-9) / MARKS))
    step = next(factor * 10.0**power for factor in (1, 2, 5, 10) if factor * 10.0**power * MARKS >= length)
    return step, max(0, -power)


def _scale(begins: float, ends: float) -> Scale:
    length = max(ends - begins, 1e-9)
    return lambda seconds: LEFT + (WIDTH - LEFT - RIGHT) * (seconds - begins) / length
