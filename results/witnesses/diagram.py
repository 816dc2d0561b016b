"""Draw the picture beside a witness: its operations as bars over time, in order of invocation.

The order of all starts and ends is exact, because it is what a witness proves. Distances are not to scale, because a
send of milliseconds and the minute until the final read must fit into one picture. Each mark on the axis carries its
time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Final

from squall.results.checkers.common.text import grouped, value_name
from squall.results.checkers.log.result import OperationFacts
from squall.results.history.segments import FaultWindow
from squall.results.witnesses.witness import Surroundings, Witness, faults_between

WIDTH: Final = 860
LEFT: Final = 150
RIGHT: Final = 40
ROW: Final = 30
TOP: Final = 26
LEAST: Final = 58
COLOURS: Final = {"send": "#0072B2", "marker": "#0072B2", "poll": "#009E73", "final_poll": "#009E73"}


class Axis:
    """Maps times in ns to pixels: monotonic, with room for a label at every time, longer where more time passed."""

    def __init__(self, times: Sequence[int]) -> None:
        self.times = sorted(set(times))
        steps = [math.log10(1 + (later - earlier) / 1e5) for earlier, later in pairwise(self.times)]
        room = WIDTH - LEFT - RIGHT
        least = min(LEAST, room / max(1, len(steps)))
        spare = max(0.0, room - least * len(steps))
        total = sum(steps) or 1.0
        self.places = [float(LEFT)]
        for step in steps:
            self.places.append(self.places[-1] + least + spare * step / total)

    def at(self, time: int) -> float:
        """The position of a time: in proportion between marks, at the edge outside them."""
        if time <= self.times[0]:
            return self.places[0]
        for number in range(1, len(self.times)):
            earlier, later = self.times[number - 1], self.times[number]
            if time <= later:
                share = (time - earlier) / (later - earlier)
                return self.places[number - 1] + share * (self.places[number] - self.places[number - 1])
        return self.places[-1]


def witness_diagram(witness: Witness, around: Surroundings) -> str:
    """Return an `<svg>` element, or an empty string for a witness without operations."""
    rows = _rows(witness.facts.operations)
    if not rows:
        return ""
    ends = [one.completed for one in rows if one.completed is not None]
    axis = Axis([one.invoked for one in rows] + ends)
    bottom = TOP + ROW * len(rows)
    height = bottom + 34
    parts = [
        f'<svg class="diagram" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="operations of the witness over time" xmlns="http://www.w3.org/2000/svg">'
    ]
    parts += shades(faults_between(around.faults, axis.times[0], axis.times[-1]), axis, bottom)
    parts += marks(axis, around.origin, bottom)
    for number, one in enumerate(rows):
        parts += _bar(one, TOP + ROW * number + ROW / 2, axis, witness.facts.offset)
    parts.append(f'<text x="{LEFT}" y="{height - 2}" class="note">order exact, distances not to scale</text>')
    parts.append("</svg>")
    return "".join(parts)


def _rows(operations: Sequence[OperationFacts]) -> list[OperationFacts]:
    """Return each operation once, in order of invocation."""
    once = {one.op_id: one for one in operations}
    return sorted(once.values(), key=lambda one: one.invoked)


def shades(faults: Sequence[FaultWindow], axis: Axis, bottom: float) -> list[str]:
    """Draw the first of the faults behind all rows, with its name."""
    parts = []
    for one in faults[:1]:
        left = axis.at(one.injected if one.injected is not None else axis.times[0])
        right = axis.at(one.healed if one.healed is not None else axis.times[-1])
        parts.append(
            f'<rect x="{left:.1f}" y="14" width="{max(1.0, right - left):.1f}" height="{bottom - 14:.1f}" '
            f'class="fault"/><text x="{left + 3:.1f}" y="11" class="faultname">{escape(one.name)}</text>'
        )
    return parts


def marks(axis: Axis, origin: int, bottom: float) -> list[str]:
    """Draw the time axis, with as many labels as have room."""
    parts = [f'<line x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}" class="axis"/>']
    last, digits = -float(WIDTH), _digits(axis)
    for time, place in zip(axis.times, axis.places, strict=True):
        parts.append(f'<line x1="{place:.1f}" y1="{TOP}" x2="{place:.1f}" y2="{bottom + 4}" class="grid"/>')
        if place - last >= 8 * (digits + 4):
            label = f"{(time - origin) / 1e9:.{digits}f} s"
            parts.append(f'<text x="{place:.1f}" y="{bottom + 15}" class="tick">{label}</text>')
            last = place
    return parts


def _digits(axis: Axis) -> int:
    """Return as many digits as it takes to tell the times apart: 3, 4 or 6."""
    closest = min((later - earlier for earlier, later in pairwise(axis.times)), default=10**9)
    return 3 if closest >= 1_000_000 else 4 if closest >= 100_000 else 6


def _bar(one: OperationFacts, middle: float, axis: Axis, offset: int) -> list[str]:
    left = axis.at(one.invoked)
    open_ended = one.type == "info" or one.completed is None
    right = WIDTH - RIGHT if open_ended else axis.at(one.completed or one.invoked)
    colour = COLOURS.get(one.f, "#CC79A7")
    style = f'fill="none" stroke="{colour}" stroke-dasharray="4 3"' if open_ended else f'fill="{colour}"'
    name = "final read" if one.f == "final_poll" else f"process {one.process}"
    width = max(3.0, right - left)
    text, place, anchor = _label(one, offset), left + width + 6, "start"
    if place + 6.2 * len(text) > WIDTH:
        place, anchor = left - 6, "end"
        if place - 6.2 * len(text) < LEFT:
            place, anchor = left + 4, "start"
    inside = place == left + 4
    y = middle - 9 if inside else middle + 4
    return [
        f'<text x="{LEFT - 10}" y="{middle + 4:.1f}" class="who">{escape(name)}</text>',
        f'<rect x="{left:.1f}" y="{middle - 5:.1f}" width="{width:.1f}" height="10" rx="2" {style}/>',
        f'<text x="{place:.1f}" y="{y:.1f}" class="what" text-anchor="{anchor}">{escape(text)}</text>',
    ]


def _label(one: OperationFacts, offset: int) -> str:
    if one.f in ("send", "marker"):
        value = value_name(one.value if one.value is not None else -1)
        if one.type == "ok":
            return f"{one.f} {value} → {grouped(one.offset)}" if one.offset is not None else f"{one.f} {value} → ok"
        return f"{one.f} {value} → {'failed' if one.type == 'fail' else 'unknown'}"
    if one.f == "list_offsets":
        return f"log end {grouped(one.high_watermark)}" if one.high_watermark is not None else "log end unknown"
    if one.delivered is None:
        return "poll → nothing"
    here = [value for at, value in one.delivered.near if at == offset]
    if here:
        return f"reads {grouped(offset)}: {value_name(here[0])}"
    return f"reads {grouped(one.delivered.first)}…{grouped(one.delivered.last)}, not {grouped(offset)}"
