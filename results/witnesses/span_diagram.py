"""Draw a witness that is neither a log's nor a register's: operations as bars over time, with arrows.

As in `diagram.py`, the order of all starts and ends is exact and the distances are not to scale. Bars without a known
end are dashed; operations around the proof that are no part of it are pale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from squall.results.witnesses.diagram import LEFT, RIGHT, ROW, TOP, WIDTH, Axis, marks, shades
from squall.results.witnesses.witness import Surroundings, faults_between

CHARACTER: Final = 6.2
MOST_TEXT: Final = 110
PALE: Final = 0.4


@dataclass(frozen=True)
class Span:
    """One operation: who did it, what it was, from when to when (None: unknown)."""

    who: str
    text: str
    invoked: int
    completed: int | None
    colour: str
    pale: bool = False


@dataclass(frozen=True)
class Arrow:
    """An arrow from one span to another, by their places, and why the one comes before the other."""

    source: int
    target: int
    text: str


def span_diagram(spans: Sequence[Span], around: Surroundings, label: str, arrows: Sequence[Arrow] = ()) -> str:
    """Return an `<svg>` element, with a row for each operation in the order in which they began."""
    axis = Axis([one.invoked for one in spans] + [one.completed for one in spans if one.completed is not None])
    order = sorted(range(len(spans)), key=lambda at: spans[at].invoked)
    heights = {at: TOP + ROW * row + ROW / 2 for row, at in enumerate(order)}
    bottom = TOP + ROW * len(spans)
    height = bottom + 34
    parts = [
        f'<svg class="diagram" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">'
    ]
    parts += shades(faults_between(around.faults, axis.times[0], axis.times[-1]), axis, bottom)
    parts += marks(axis, around.origin, bottom)
    for at in order:
        parts += _bar(spans[at], axis, heights[at])
    for one in arrows:
        parts += _arrow(one, spans, axis, heights)
    parts.append(f'<text x="{LEFT}" y="{height - 2}" class="note">order exact, distances not to scale</text></svg>')
    return "".join(parts)


def _ends(one: Span, axis: Axis) -> tuple[float, float]:
    left = axis.at(one.invoked)
    return left, max(left + 3, WIDTH - RIGHT if one.completed is None else axis.at(one.completed))


def _bar(one: Span, axis: Axis, middle: float) -> list[str]:
    left, right = _ends(one, axis)
    dashed = f'fill="none" stroke="{one.colour}" stroke-dasharray="4 3"'
    style = dashed if one.completed is None else f'fill="{one.colour}"'
    faint = f' opacity="{PALE}"' if one.pale else ""
    short = one.text if len(one.text) <= MOST_TEXT else f"{one.text[: MOST_TEXT - 1]}…"
    place, anchor = (left, "start") if left + CHARACTER * len(short) <= WIDTH else (float(WIDTH - 4), "end")
    return [
        f'<text x="{LEFT - 10}" y="{middle + 4:.1f}" class="who"{faint}>{escape(one.who)}</text>',
        f'<rect x="{left:.1f}" y="{middle - 2:.1f}" width="{right - left:.1f}" height="8" rx="2" {style}{faint}/>',
        f'<text x="{place:.1f}" y="{middle - 5:.1f}" class="what" text-anchor="{anchor}">{escape(short)}</text>',
    ]


def _arrow(one: Arrow, spans: Sequence[Span], axis: Axis, heights: dict[int, float]) -> list[str]:
    """Draw an arrow from the middle of a bar to that of another, with a dot at its head; the reason is a tooltip."""
    places = [sum(_ends(spans[at], axis)) / 2 for at in (one.source, one.target)]
    upper, lower = heights[one.source] + 2, heights[one.target] + 2
    return [
        f'<line x1="{places[0]:.1f}" y1="{upper:.1f}" x2="{places[1]:.1f}" y2="{lower:.1f}" stroke="#666666">'
        f"<title>{escape(one.text)}</title></line>",
        f'<circle cx="{places[1]:.1f}" cy="{lower:.1f}" r="3" fill="#666666"/>',
    ]
