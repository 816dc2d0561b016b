"""Draw a cycle: its transactions as bars over time, and an arrow for each step.

As in `diagram.py`, the order of all starts and ends is exact and the distances are not to scale. An arrow leads from
the transaction that comes first to the one after it; following the arrows leads back to the start, which is the
anomaly. Bars without a known end are dashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from squall.results.checkers.transactions.facts import StepFacts, TransactionFacts, TransactionWitness
from squall.results.witnesses.cycle import name, operation
from squall.results.witnesses.diagram import RIGHT, WIDTH, Axis

LEFT: Final = 150
ROW: Final = 64
TOP: Final = 24
COLOURS: Final = {"ww": "#0072B2", "wr": "#009E73", "rw": "#D55E00", "process": "#666666", "realtime": "#666666"}
MEANINGS: Final = {
    "ww": "writes before",
    "wr": "is read by",
    "rw": "does not see",
    "process": "same process",
    "realtime": "ended before",
}
MOST_TEXT: Final = 60
NEAR: Final = 0.35
"""The position of a label along its arrow: nearer to the start, so that labels of two opposite arrows do not overlap.
"""
HALO: Final = 'style="paint-order:stroke;stroke:#fff;stroke-width:3px"'


def cycle_diagram(witness: TransactionWitness, origin: int) -> str:
    """Return an `<svg>` element, or an empty string for a witness that is no cycle."""
    rows = witness.transactions
    if not witness.steps or not rows:
        return ""
    ends = [one.completed for one in rows if one.completed is not None]
    axis = Axis([one.invoked for one in rows] + ends)
    bottom = TOP + ROW * len(rows)
    height = bottom + 40
    parts = [
        f'<svg class="diagram cycle" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="a cycle of {len(rows)} transactions" xmlns="http://www.w3.org/2000/svg">',
        "<defs>",
        *(_head(order) for order in dict.fromkeys(step.order for step in witness.steps)),
        "</defs>",
    ]
    parts += _marks(axis, origin, bottom)
    for number, one in enumerate(rows):
        parts += _bar(number, one, witness.steps, axis)
    for lane, step in enumerate(witness.steps):
        parts += _arrow(lane, step, rows, axis)
    parts.append(f'<text x="{LEFT}" y="{height - 4}" class="note">order exact, distances not to scale</text></svg>')
    return "".join(parts)


def _head(order: str) -> str:
    return (
        f'<marker id="head-{order}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{COLOURS[order]}"/></marker>'
    )


def _marks(axis: Axis, origin: int, bottom: int) -> list[str]:
    """Draw the time axis, with as many labels as have room."""
    parts = [f'<line x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}" class="axis"/>']
    last = -float(WIDTH)
    for time, place in zip(axis.times, axis.places, strict=True):
        parts.append(f'<line x1="{place:.1f}" y1="{TOP - 8}" x2="{place:.1f}" y2="{bottom + 4}" class="grid"/>')
        if place - last >= 90:
            label = f"{(time - origin) / 1e9:.6f} s"
            parts.append(f'<text x="{place:.1f}" y="{bottom + 16}" class="tick">{label}</text>')
            last = place
    return parts


def _middle(number: int) -> float:
    return TOP + ROW * number + ROW / 2


def _span(one: TransactionFacts, axis: Axis) -> tuple[float, float]:
    left = axis.at(one.invoked)
    right = WIDTH - RIGHT if one.completed is None else axis.at(one.completed)
    return left, max(left + 4, right)


def _bar(number: int, one: TransactionFacts, steps: Sequence[StepFacts], axis: Axis) -> list[str]:
    left, right = _span(one, axis)
    middle = _middle(number)
    style = 'fill="none" stroke="#56B4E9" stroke-dasharray="4 3"' if one.completed is None else 'fill="#56B4E9"'
    keys = {step.key for step in steps if number in (step.source, step.target)}
    text = "; ".join(operation(micro) for micro in one.operations if micro.key in keys)
    short = text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
    who = f"{name(number)}, process {one.process}"
    return [
        f'<text x="{LEFT - 10}" y="{middle + 4:.1f}" class="who">{escape(who)}</text>',
        f'<rect x="{left:.1f}" y="{middle - 5:.1f}" width="{right - left:.1f}" height="10" rx="2" {style}/>',
        f'<text x="{min(left, WIDTH - RIGHT - 6.2 * len(short)):.1f}" y="{middle - 9:.1f}" class="what" {HALO}>'
        f"<title>{escape(text)}</title>{escape(short)}</text>",
    ]


def _arrow(lane: int, step: StepFacts, rows: Sequence[TransactionFacts], axis: Axis) -> list[str]:
    """Draw an arrow from bar to bar. Each has its own place between left and right, so that none covers another."""
    share = (lane + 1) / (len(rows) + 1)
    (left, right), (other_left, other_right) = (_span(rows[at], axis) for at in (step.source, step.target))
    begin, end = left + share * (right - left), other_left + share * (other_right - other_left)
    down = 6 if step.target > step.source else -6
    top, bottom = _middle(step.source) + down, _middle(step.target) - down
    colour = COLOURS[step.order]
    dashes = ' stroke-dasharray="5 3"' if step.order in ("process", "realtime") else ""
    label = MEANINGS[step.order] if step.key is None else f"{MEANINGS[step.order]} (key {step.key})"
    x, y = begin + NEAR * (end - begin), top + NEAR * (bottom - top)
    return [
        f'<path d="M{begin:.1f} {top:.1f} L{end:.1f} {bottom:.1f}" fill="none" stroke="{colour}" stroke-width="1.5"'
        f'{dashes} marker-end="url(#head-{step.order})"/>',
        f'<text x="{min(x + 5, WIDTH - 6.2 * len(label)):.1f}" y="{y + 3:.1f}" class="what" fill="{colour}" {HALO}>'
        f"{escape(label)}</text>",
    ]
