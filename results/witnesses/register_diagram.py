"""Draw a register's witness: its operations as bars over time, and which ended before which began.

As in `diagram.py`, the order of all starts and ends is exact and the distances are not to scale. An arrow leads from
the end of an operation to the start of one that must come after it. Bars without a known end are dashed; the shade is a
fault that held at the time.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import Final

from squall.results.checkers.registers.result import RegisterOperationFacts, RegisterWitness
from squall.results.history.segments import FaultWindow
from squall.results.witnesses.diagram import LEFT, RIGHT, ROW, TOP, WIDTH, Axis
from squall.results.witnesses.register import value_text
from squall.results.witnesses.witness import faults_between

COLOURS: Final = {"write": "#0072B2", "cas": "#CC79A7", "read": "#009E73"}
CHARACTER: Final = 6.2
TICK: Final = 8


def register_diagram(witness: RegisterWitness, origin: int = 0, faults: tuple[FaultWindow, ...] = ()) -> str:
    """Return an `<svg>` element."""
    rows = sorted(witness.operations, key=lambda one: one.invoked)
    axis = Axis([one.invoked for one in rows] + [one.completed for one in rows if one.completed is not None])
    bottom = TOP + ROW * len(rows)
    height = bottom + 34
    parts = [
        f'<svg class="diagram" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="operations on a register over time" xmlns="http://www.w3.org/2000/svg">'
    ]
    parts += _shade(axis, faults, bottom)
    parts += _ticks(axis, origin, bottom)
    heights = {one.op_id: TOP + ROW * number + ROW / 2 for number, one in enumerate(rows)}
    for one in rows:
        parts += _bar(one, axis, heights[one.op_id])
    facts = {one.op_id: one for one in rows}
    for first, second in witness.orders:
        parts += _arrow(facts[first], facts[second], axis, heights)
    parts.append(f'<text x="{LEFT}" y="{height - 2}" class="note">order exact, distances not to scale</text>')
    return "".join([*parts, "</svg>"])


def _shade(axis: Axis, faults: tuple[FaultWindow, ...], bottom: float) -> list[str]:
    parts = []
    for one in faults_between(faults, axis.times[0], axis.times[-1])[:1]:
        left = axis.at(one.injected if one.injected is not None else axis.times[0])
        right = axis.at(one.healed) if one.healed is not None else WIDTH - RIGHT
        width = max(1.0, right - left)
        parts += [
            f'<rect x="{left:.1f}" y="14" width="{width:.1f}" height="{bottom - 14:.1f}" class="fault"/>',
            f'<text x="{left + 3:.1f}" y="11" class="faultname">{escape(one.name)}</text>',
        ]
    return parts


def _ticks(axis: Axis, origin: int, bottom: float) -> list[str]:
    parts = [f'<line x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}" class="axis"/>']
    closest = min((later - earlier for earlier, later in pairwise(axis.times)), default=10**9)
    digits = 3 if closest >= 1_000_000 else 6
    last = -float(WIDTH)
    for moment, place in zip(axis.times, axis.places, strict=True):
        parts.append(f'<line x1="{place:.1f}" y1="{TOP}" x2="{place:.1f}" y2="{bottom + 4}" class="grid"/>')
        if place - last >= TICK * (digits + 4):
            label = f"{(moment - origin) / 1e9:.{digits}f} s"
            parts.append(f'<text x="{place:.1f}" y="{bottom + 15}" class="tick">{label}</text>')
            last = place
    return parts


def _bar(one: RegisterOperationFacts, axis: Axis, middle: float) -> list[str]:
    left = axis.at(one.invoked)
    right = WIDTH - RIGHT if one.completed is None else axis.at(one.completed)
    colour = COLOURS[one.f]
    style = f'fill="none" stroke="{colour}" stroke-dasharray="4 3"' if one.completed is None else f'fill="{colour}"'
    text = label(one)
    place, anchor = left, "start"
    if left + CHARACTER * len(text) > WIDTH:
        place, anchor = float(WIDTH - 4), "end"
    return [
        f'<text x="{LEFT - 10}" y="{middle + 4:.1f}" class="who">process {one.process}</text>',
        f'<rect x="{left:.1f}" y="{middle - 2:.1f}" width="{max(3.0, right - left):.1f}" height="8" rx="2" {style}/>',
        f'<text x="{place:.1f}" y="{middle - 5:.1f}" class="what" text-anchor="{anchor}">{escape(text)}</text>',
    ]


def label(one: RegisterOperationFacts) -> str:
    """Describe an operation in the fewest words."""
    version = "" if one.version is None else f" (version {one.version})"
    if one.f == "read":
        return f"read → {value_text(one.found)}{version}"
    change = f"write {value_text(one.value)}" if one.f == "write" else _swap(one)
    if one.refused:
        return f"{change} → refused, held {value_text(one.found)}{version}"
    return f"{change} → {one.type if one.type != 'info' else 'unknown'}{version}"


def _swap(one: RegisterOperationFacts) -> str:
    return f"cas {value_text(one.expected)} to {value_text(one.value)}"


def _arrow(
    first: RegisterOperationFacts, second: RegisterOperationFacts, axis: Axis, heights: dict[int, float]
) -> list[str]:
    """Draw an arrow from the end of one to the start of the other, with a dot at its head."""
    left, right = axis.at(first.completed or first.invoked), axis.at(second.invoked)
    upper, lower = heights[first.op_id] + 2, heights[second.op_id] + 2
    return [
        f'<line x1="{left:.1f}" y1="{upper:.1f}" x2="{right:.1f}" y2="{lower:.1f}" stroke="#666666"/>',
        f'<circle cx="{right:.1f}" cy="{lower:.1f}" r="3" fill="#666666"/>',
    ]
