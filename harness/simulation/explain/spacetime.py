"""Draw the space-time diagram of a run as one SVG that opens offline: nodes side by side, time downwards.

Messages cross between the nodes. Time is not to scale: the important events lie within milliseconds, followed by
seconds of nothing. Every event has a row, so that no two labels overlap, and the times stand at the left; a quiet time
is marked as such.

Colour is never the only mark: responses are dashed and labelled, what was lost ends in a cross, faults are hatched and
named. The colours are those of Okabe and Ito, which most colour-blind people can distinguish.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from squall.harness.simulation.explain.account import is_lost, render_trace
from squall.harness.simulation.explain.traced import CLIENTS, FaultWindow, Happening, RunTrace, Sent

LANE = 200
LEFT = 120
TOP = 108
ROW = 24
QUIET_ROW = 40
QUIET_US = 100_000
MOST_ROWS = 250
CHARACTER = 6.0
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"

BLUE, GREEN, ORANGE, PINK, RED, SKY = "#0072B2", "#007a5a", "#b86e00", "#a8407f", "#c03a00", "#3a86b8"
INK, GREY, PALE, SHADE = "#1c2733", "#66727f", "#d5dbe1", "#b3261e"
API_COLOURS = {
    "Produce": BLUE,
    "Fetch": GREEN,
    "AlterPartition": PINK,
    "metadata": ORANGE,
    "Metadata": SKY,
    "Vote": ORANGE,
    "BeginQuorumEpoch": ORANGE,
    "EndQuorumEpoch": ORANGE,
}
DEADLY = ("kill", "power-loss", "wipe-disk", "leader-kill-lagging")
LOUD = ("truncate", "death", "recovery_cut")


@dataclass(frozen=True)
class _Row:
    """One row of the picture: a message sent, or another event, at a time."""

    at: int
    y: float
    what: Sent | Happening | FaultWindow


def save_picture(trace: RunTrace, path: Path) -> str:
    """Write the picture, and beside it the trace in words. Return the words."""
    story = render_trace(trace)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".txt").write_text(story + "\n", encoding="utf-8")
    path.with_suffix(".svg").write_text(drawn(trace), encoding="utf-8")
    return story


def drawn(trace: RunTrace) -> str:
    """Return the whole picture as the text of an SVG file."""
    return _Picture(trace).text()


class _Picture:
    def __init__(self, trace: RunTrace) -> None:
        self.trace = trace
        self.rows, self.quiet = _rows(trace)
        self.lanes = _lanes_of(trace, self.rows)
        self.bottom = (self.rows[-1].y if self.rows else TOP) + ROW
        self.width = LEFT + LANE * len(self.lanes)
        self.height = self.bottom + 20 + 18 * len(self._problem())
        self.svg = Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {self.width} {self.height:.0f}",
                "width": str(self.width),
                "height": f"{self.height:.0f}",
                "font-family": FONT,
                "font-size": "12",
                "role": "img",
            },
        )
        SubElement(self.svg, "title").text = self._title()
        self._definitions()
        self._add("rect", width="100%", height="100%", fill="white")

    def text(self) -> str:
        self._heading()
        self._faults()
        self._lifelines()
        self._boxes = self._add("g")  # under the arrows, so that arrows crossing a box stay whole
        for row in self.rows:
            if isinstance(row.what, Sent):
                self._arrow(row.what, row.y)
        self._quiet_times()
        self._times()
        for row in self.rows:
            self._label(row)
        self._breach()
        ElementTree.indent(self.svg)
        return ElementTree.tostring(self.svg, encoding="unicode") + "\n"

    # -- places ---------------------------------------------------------------------------------------------------

    def x(self, lane: str) -> float:
        return LEFT + LANE * (self.lanes.index(lane) + 0.5)

    def y(self, at: int) -> float:
        """Return the position of a time: between the rows before and after it, in proportion."""
        times = [row.at for row in self.rows]
        index = bisect_right(times, at)
        if index == 0:
            return self.rows[0].y - ROW / 2 if self.rows else TOP
        before = self.rows[index - 1]
        if index == len(self.rows):
            return min(self.bottom, before.y + ROW / 2)
        after = self.rows[index]
        return before.y + (after.y - before.y) * (at - before.at) / max(1, after.at - before.at)

    # -- drawing --------------------------------------------------------------------------------------------------

    def _add(self, tag: str, parent: Element | None = None, **attributes: object) -> Element:
        named = {key.replace("_", "-"): value for key, value in attributes.items()}
        values = {key: _written(value) for key, value in named.items() if value is not None}
        return SubElement(self.svg if parent is None else parent, tag, values)

    def _write(self, x: float, y: float, text: str, **attributes: object) -> Element:
        element = self._add("text", None, x=x, y=y, **attributes)
        element.text = text
        return element

    def _definitions(self) -> None:
        definitions = self._add("defs")
        for colour in sorted({*API_COLOURS.values(), GREY}):
            arrow = self._add(
                "marker", definitions, id=_marker(colour), viewBox="0 0 8 8", refX=7.5, refY=4, markerWidth=8,
                markerHeight=8, orient="auto-start-reverse", markerUnits="userSpaceOnUse",
            )  # fmt: skip
            self._add("path", arrow, d="M0,0.5 L8,4 L0,7.5 z", fill=colour)
        hatch = self._add(
            "pattern", definitions, id="fault", width=7, height=7, patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        )  # fmt: skip
        self._add("rect", hatch, width=7, height=7, fill=SHADE, fill_opacity=0.06)
        self._add("line", hatch, x1=0, y1=0, x2=0, y2=7, stroke=SHADE, stroke_opacity=0.35, stroke_width=2)

    def _title(self) -> str:
        return f"{self.trace.log_name}, seed {self.trace.seed}: {' and '.join(self.trace.broken) or 'nothing broke'}"

    def _heading(self) -> None:
        self._write(16, 26, self._title(), font_size=17, font_weight="bold", fill=INK)
        x = 16.0
        for text, colour, dash in (
            ("request", INK, None), ("answer", INK, "5 3"), ("Produce", BLUE, None), ("Fetch", GREEN, None),
            ("AlterPartition", PINK, None), ("metadata log, quorum", ORANGE, None),
        ):  # fmt: skip
            self._add("line", x1=x, y1=46, x2=x + 26, y2=46, stroke=colour, stroke_width=1.6, stroke_dasharray=dash)
            self._write(x + 31, 50, text, fill=GREY)
            x += 48 + CHARACTER * len(text)
        self._add("rect", x=x, y=39, width=26, height=14, fill="url(#fault)")
        self._write(x + 31, 50, "fault", fill=GREY)
        self._write(x + 78, 50, "✕ lost, or a death", fill=GREY)
        for lane in self.lanes:
            box = 92
            self._add(
                "rect", x=self.x(lane) - box / 2, y=66, width=box, height=24, rx=4,
                fill="#eef2f6" if lane != CLIENTS else "white", stroke=GREY,
            )  # fmt: skip
            self._write(self.x(lane), 82, lane, text_anchor="middle", font_weight="bold", fill=INK)

    def _lifelines(self) -> None:
        for lane in self.lanes:
            x, alive, since = self.x(lane), True, 90.0
            for row in self.rows:
                one = row.what
                if not isinstance(one, Happening) or one.lane != lane or one.kind not in ("start", "death"):
                    continue
                self._lifeline(x, since, row.y, alive)
                since, alive = row.y, one.kind == "start"
            self._lifeline(x, since, self.bottom, alive)

    def _lifeline(self, x: float, since: float, until: float, alive: bool) -> None:
        dash, colour = (None, GREY) if alive else ("2 5", PALE)
        self._add("line", x1=x, y1=since, x2=x, y2=until, stroke=colour, stroke_width=1.4, stroke_dasharray=dash)

    def _faults(self) -> None:
        for window in self.trace.faults:
            begin = self.y(window.begin)
            end = self.bottom if window.end is None or window.end > self.trace.ended else self.y(window.end)
            for host in window.hosts:
                if host in self.lanes:
                    self._add(
                        "rect", x=self.x(host) - 34, y=begin, width=68, height=max(4.0, end - begin), rx=3,
                        fill="url(#fault)", stroke=SHADE, stroke_opacity=0.5,
                    )  # fmt: skip

    def _arrow(self, message: Sent, y: float) -> None:
        colour = API_COLOURS.get(message.said.api, GREY)
        start, end = self.x(message.source), self.x(message.target)
        dash = "5 3" if message.said.is_answer else None
        if message.arrived is None:
            stop = start + (end - start) * 0.6
            self._line(start, y + 2, stop, y + ROW / 3, colour, dash, None)
            if is_lost(message, self.trace.ended):
                self._cross(stop, y + ROW / 3, colour)
            return
        until = max(self.y(message.arrived), y + 8)
        self._line(start, y + 2, end - 3 if end > start else end + 3, until, colour, dash, f"url(#{_marker(colour)})")

    def _line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, dash: str | None, marker: str | None
    ) -> None:
        self._add(
            "line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=1.6, stroke_dasharray=dash,
            marker_end=marker,
        )  # fmt: skip

    def _cross(self, x: float, y: float, colour: str) -> None:
        self._add("path", d=f"M{x - 5:.1f},{y - 5:.1f} l10,10 m0,-10 l-10,10", stroke=colour, stroke_width=2.2)

    def _label(self, row: _Row) -> None:
        one = row.what
        if isinstance(one, Sent):
            text = f"{one.said.api}: {one.said.text}" if one.said.is_answer else str(one.said)
            middle = (self.x(one.source) + self.x(one.target)) / 2
            self._boxed(middle - _length(text) / 2, row.y - 7, text, API_COLOURS.get(one.said.api, GREY))
        elif isinstance(one, Happening):
            self._mark(one, row.y)
            self._beside(one.lane, row, self._words(one), SHADE if one.kind in LOUD else INK, one.kind in LOUD)
        else:
            host = next((host for host in one.hosts if host in self.lanes), self.lanes[0])
            self._beside(host, row, f"{one.kind} {', '.join(one.hosts)}", SHADE, True)

    def _times(self) -> None:
        """Draw the times at the left, each once."""
        before = ""
        for row in self.rows:
            text = f"{row.at / 1e6:.4f} s"
            if text != before:
                self._margin(row.y, text)
            before = text

    def _margin(self, y: float, text: str, colour: str = GREY, style: str | None = None) -> None:
        x = LEFT - 22
        self._write(x, y + 4, text, text_anchor="end", font_size=11, fill=colour, font_style=style)

    def _words(self, one: Happening) -> str:
        if one.kind != "death":
            return one.text
        causes = [window.kind for window in self.trace.faults if one.lane in window.hosts and window.begin <= one.at]
        return f"{one.text}: {causes[-1]}" if causes else one.text

    def _mark(self, one: Happening, y: float) -> None:
        if one.kind == "death":
            self._cross(self.x(one.lane), y, SHADE)
        else:
            self._add("circle", cx=self.x(one.lane), cy=y, r=3.6, fill=SHADE if one.kind in LOUD else INK)

    def _beside(self, lane: str, row: _Row, text: str, colour: str, bold: bool) -> None:
        """Put a text to the right of a lane and its shade, or to the left where the page ends."""
        gap = 42 if self._is_shaded(lane, row.at) else 10
        left = self.x(lane) + gap
        if left + _length(text) > self.width - 6:
            left = self.x(lane) - gap - _length(text)
        self._boxed(left, row.y, text, colour, bold=bold)

    def _is_shaded(self, lane: str, at: int) -> bool:
        return any(
            lane in window.hosts and window.begin <= at <= (self.trace.ended if window.end is None else window.end)
            for window in self.trace.faults
        )

    def _boxed(self, left: float, y: float, text: str, colour: str, *, bold: bool = False) -> None:
        width = _length(text)
        left = min(max(left, LEFT), self.width - 6 - width)
        self._add("rect", self._boxes, x=left, y=y - 8, width=width, height=16, rx=3, fill="white", fill_opacity=0.9)
        middle, weight = left + width / 2, "bold" if bold else None
        self._write(
            middle, y + 4, text, text_anchor="middle", fill=colour, font_weight=weight, paint_order="stroke",
            stroke="white", stroke_width=3, stroke_linejoin="round",
        )  # fmt: skip

    def _quiet_times(self) -> None:
        for y, seconds in self.quiet:
            self._add(
                "line", x1=LEFT - 10, y1=y, x2=self.width - 10, y2=y, stroke=GREY, stroke_dasharray="1 6",
                stroke_linecap="round", stroke_width=2,
            )  # fmt: skip
            self._margin(y, f"{seconds:.2f} s later", style="italic")

    def _breach(self) -> None:
        if not self.trace.problem:
            return
        lane = self.trace.breach_lane
        if lane in self.lanes:
            there = [row.y for row in self.rows if isinstance(row.what, Happening) and row.what.lane == lane]
            y = there[-1] if there else self.bottom
            self._add("circle", cx=self.x(lane), cy=y, r=9, fill="none", stroke=RED, stroke_width=2.5)
        self._add("line", x1=16, y1=self.bottom, x2=self.width - 16, y2=self.bottom, stroke=RED, stroke_width=2)
        self._margin(self.bottom + 16, f"{self.trace.ended / 1e6:.4f} s", RED)
        for index, line in enumerate(self._problem()):
            self._write(LEFT, self.bottom + 20 + 18 * index, line, fill=RED, font_weight="bold")

    def _problem(self) -> list[str]:
        """Return the breach, in lines as wide as the page."""
        return _wrapped(self.trace.problem.partition("\n")[0], int((self.width - LEFT - 16) / (CHARACTER + 0.8)))


def _rows(trace: RunTrace) -> tuple[list[_Row], list[tuple[float, float]]]:
    """Return every event with its row, and the quiet times between them as (position, length in seconds)."""
    events: list[tuple[int, int, Sent | Happening | FaultWindow]] = [
        *((window.begin, 0, window) for window in trace.faults if window.kind not in DEADLY),
        *((one.at, 1, one) for one in trace.happenings),
        *((message.at, 2, message) for message in trace.messages),
    ]
    events = sorted(events, key=lambda event: event[:2])[-MOST_ROWS:]
    rows: list[_Row] = []
    quiet: list[tuple[float, float]] = []
    y, before = float(TOP), None
    for at, _, what in events:
        if before is not None and at - before > QUIET_US:
            quiet.append((y + ROW, (at - before) / 1e6))
            y += QUIET_ROW
        y += ROW
        rows.append(_Row(at, y, what))
        before = at
    return rows, quiet


def _lanes_of(trace: RunTrace, rows: list[_Row]) -> list[str]:
    """Return the lanes in which something happens: clients, brokers, controllers."""
    busy = {name for row in rows if isinstance(row.what, Sent) for name in (row.what.source, row.what.target)}
    busy |= {row.what.lane for row in rows if isinstance(row.what, Happening)}
    busy |= {host for window in trace.faults for host in window.hosts}
    return [lane for lane in trace.lanes if lane in busy] or list(trace.lanes)


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _length(text: str) -> float:
    return CHARACTER * len(text) + 8


def _marker(colour: str) -> str:
    return f"arrow-{colour.removeprefix('#')}"


def _written(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
