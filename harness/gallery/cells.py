"""The cells of entries: which are chosen, the table of what is stated of them, and of what came out.

    arms = chosen_cells(entries, ["kafka-4.1.2-*"])     # by patterns of their names
    print(stated_table(entries)); print(found_table(list(verify_arms(arms, …))))

A row of a table is a version of the system with a client, a column an entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from rich.table import Table

from squall.harness.errors import UsageError
from squall.harness.gallery.core.entry import Arm, Cell, Entry
from squall.harness.gallery.verify import MARKS, ArmResult, Outcome

EXPECTED: Final = {"invalid": "bug", "valid": "ok"}
NOT_STATED: Final = "–"

One = TypeVar("One")


def cells_of(entries: Iterable[Entry]) -> list[tuple[Arm, Cell]]:
    """Every cell of these entries, with what runs in it."""
    return [(entry.cell_arm(cell), cell) for entry in entries for cell in entry.cells]


def chosen_cells(entries: Sequence[Entry], patterns: Sequence[str]) -> list[Arm]:
    """The cells whose names match one of the patterns; all without patterns. Raises UsageError if there is none."""
    arms = [arm for arm, _ in cells_of(entries)]
    if not arms:
        names = ", ".join(entry.name for entry in entries)
        raise UsageError(f"no cells are stated of {names}", remedy="squall gallery --table lists entries with cells")
    known = list(dict.fromkeys(arm.name for arm in arms))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UsageError(f"--cell {pattern}: no cell has such a name", remedy=f"there are {', '.join(known)}")
    return [arm for arm in arms if not patterns or any(fnmatchcase(arm.name, one) for one in patterns)]


def stated_table(entries: Sequence[Entry]) -> Table:
    """What the entries state of their cells: what is expected, and how often it came out."""
    return _table(cells_of(entries), lambda one: one[0], lambda some: f"{some[0][1].expects} {some[0][1].rate.words}")


def found_table(results: Sequence[ArmResult]) -> Table:
    """What came out: the expectation, and a mark for the outcome of its runs."""
    return _table(results, lambda one: one.arm, _found)


def _found(results: Sequence[ArmResult]) -> str:
    """`bug ✔`, `bug ✔ 2 of 3, ? 1 of 3`; what came out instead stands behind a cross."""
    counts: Counter[Outcome] = Counter(one.outcome for one in results)
    expected = EXPECTED[results[0].arm.expects]
    if len(results) == 1:
        (only,) = results
        instead = f" {only.words}" if only.outcome in ("unexpected", "unknown", "missing") else ""
        return f"{expected} {MARKS[only.outcome]}{instead}"
    said = [f"{MARKS[outcome]} {number} of {len(results)}" for outcome, number in sorted(counts.items())]
    return f"{expected} {', '.join(said)}"


def _table(found: Iterable[One], arm_of: Callable[[One], Arm], words: Callable[[list[One]], str]) -> Table:
    rows: dict[tuple[str, str], dict[Hashable, list[One]]] = {}
    for one in found:
        arm = arm_of(one)
        rows.setdefault((arm.system.words, arm.client.words), {}).setdefault(arm.entry.name, []).append(one)
    columns = sorted({str(name) for cells in rows.values() for name in cells})
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("system", "client", *columns):
        table.add_column(column, overflow="fold", no_wrap=column == "system")
    for row in sorted(rows):
        cells = rows[row]
        table.add_row(*row, *(words(cells[name]) if name in cells else NOT_STATED for name in columns))
    return table
