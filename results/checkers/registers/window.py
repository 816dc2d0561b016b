"""Find the smallest window of operations that cannot be put in order, after a search that failed.

The search returns at whose end no configuration was left, what the register may have held at the last moment before
that at which no operation was open, and so which operations lie between: the window. Then each operation is left out in
turn, if the rest still cannot be put in order without it. A read may be left out of any history: that only makes it
easier to order. A change may not, but it may be taken as one of unknown outcome, which makes it easier as well; if it
then explains nothing it is removed. So what remains is as impossible as the whole history, and each operation of it is
needed, as far as the budget of the shrinking reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from squall.results.checkers.registers.operations import NEVER, NONE
from squall.results.checkers.registers.search import (
    FRESH,
    READ,
    REFUSED,
    Budget,
    Start,
    Step,
    relevant,
    search,
)

MOST_OPERATIONS: Final = 64
EACH: Final = Budget(steps=20_000, seconds=0.05)
MOST_STARTS: Final = 6


@dataclass(frozen=True)
class Window:
    """Operations, some of them relaxed, that cannot be put in order after any of the configurations `before`."""

    steps: tuple[Step, ...]
    before: tuple[Start, ...] = ()

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(one.row for one in self.steps)

    @property
    def held(self) -> tuple[int, ...]:
        """What the register may have held before."""
        return tuple(sorted({one.state.value for one in self.before})[:MOST_STARTS])


def smallest_window(steps: Sequence[Step], starts: Sequence[Start] = FRESH, budget: Budget | None = None) -> Window:
    """Find the window of operations on a register that was found not linearizable.

    If the budget does not suffice, all operations are the window (up to the first `MOST_OPERATIONS`).
    """
    outcome = search(steps, starts, budget, look_ahead=False)
    if outcome.linearizable is not False:
        return Window(tuple(steps[:MOST_OPERATIONS]))
    last = next(one for one in steps if one.row == outcome.row)
    window = [
        one if one.completed <= last.completed else one._replace(completed=NEVER, version=NONE)
        for one in steps
        if one.invoked <= last.completed and (not one.must or one.completed >= outcome.since)
    ]
    before = outcome.before
    spent = frozenset.intersection(*(one.used for one in before))  # these took effect before in any case
    window = [one for one in window if one.must or (one.kind not in (READ, REFUSED) and one.row not in spent)]
    kept = _shrunk(window, before) if len(window) <= MOST_OPERATIONS else window
    return Window(tuple(kept), before)


def _shrunk(window: list[Step], starts: Sequence[Start]) -> list[Step]:
    kept = window
    for one in window:
        easier = _easier(kept, one)
        if len(easier) < len(kept) or one.must:
            kept = easier if search(easier, starts, EACH, look_ahead=False).linearizable is False else kept
    return relevant(kept)


def _easier(steps: list[Step], one: Step) -> list[Step]:
    """Return the operations without this one, or with it as a change of unknown outcome."""
    if one.kind in (READ, REFUSED):
        return [other for other in steps if other.row != one.row]
    relaxed = one._replace(completed=NEVER, version=NONE)
    return [relaxed if other.row == one.row else other for other in steps]
