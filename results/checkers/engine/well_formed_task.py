"""Check whether a stored history is well-formed, as tasks that the engine schedules.

A rule concerns operations that lie all over the file: ids are unique in all of it, and a process sends to every
topic-partition. So a history is not cut by rows but by what must be examined together: row groups whose ranges of ids,
or of processes, touch each other (`results/history/row_groups.py`), and where that is still too much, ranges of ids, or
of time. A task reads one or four columns of the row groups that matter to its range and holds at most `MOST_ROWS` rows
of them (`well_formed.portions`), so that its memory is bounded regardless of the size of the history.

    recorded once   each `op_id`, within a range of ids
    one at a time   each process, within a range of time; what began before and had not ended then belongs to it. No
                    operation ends before it begins

Operations on registers and on logs together must obey the rules, so the row groups of the registers' table
(`operation_tables.py`) are added to those of the history. That costs what their rows cost, and nothing without such a
table.

The least breach of all tasks of a history (`first_breach`) is the one that a single pass over the whole would have
found first. The footer's ranges are compared with the rows that are read, at least once for each row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.parquet_files import REMEDY, read_columns
from squall.results.history.row_groups import Range, RowGroup, row_groups_beside, row_groups_of, whole_numbers
from squall.results.history.rows import TYPES
from squall.results.history.well_formed import (
    NEVER,
    Breach,
    Columns,
    Ints,
    backwards,
    first_overlap,
    least_repeated,
    overlapping,
    portions,
    repeated,
    suspects,
)

MOST_ROWS: Final = 1 << 24
MOST_SUSPECTS: Final = 10_000
"""The number of processes that are examined exactly at a time."""
POINTS: Final = 32
"""The number of points that stand for a row group when its range has to be cut."""
FIRST: Final = -(1 << 63)
LAST: Final = (1 << 63) - 1
RECORDED_ONCE: Final = "recorded once"
ONE_AT_A_TIME: Final = "one at a time"
Rule = Literal["recorded once", "one at a time"]


class WellFormedTask(msgspec.Struct, frozen=True, tag="well-formed"):
    """One rule, for operations whose ids or times of invocation lie from `low` to `high`.

    `row_groups` hold all that matters to these, with `register_groups` of the table of registers if one matters.
    """

    run: int
    path: str
    rule: Rule
    row_groups: tuple[int, ...]
    low: int = FIRST
    high: int = LAST
    most: int = MOST_ROWS
    deadline: float | None = None
    """As the deadline of a topic-partition's task."""
    registers: str | None = None
    register_groups: tuple[int, ...] = ()


# Planning -------------------------------------------------------------------------------------------------------------


def well_formed_tasks(
    run: int,
    path: Path,
    groups: Sequence[RowGroup],
    deadline: float | None = None,
    most: int = MOST_ROWS,
    *,
    registers: Path | None = None,
) -> list[WellFormedTask]:
    """Return the tasks that together decide whether a history is well-formed.

    `groups` are those of the history, and those of the table of registers if that is given.
    """

    def made(rule: Rule, matter: Iterable[RowGroup], low: int, high: int) -> WellFormedTask:
        here: list[int] = []
        beside: list[int] = []
        for one in matter:
            (beside if one.beside else here).append(one.number)
        task = WellFormedTask(run, str(path), rule, tuple(here), low, high, most, deadline)
        if not beside:
            return task
        return msgspec.structs.replace(task, registers=str(registers), register_groups=tuple(beside))

    found = []
    for together in _shares(groups, attrgetter("op_id"), most):
        for low, high in _cuts([(one.op_id, one.rows) for one in together], most):
            matter = [one for one in together if one.op_id.low <= high and one.op_id.high >= low]
            found.append(made(RECORDED_ONCE, matter, low, high))
    for together in _shares(groups, attrgetter("process"), most):
        for low, high in _cuts([(one.invoked, one.rows) for one in together], most):
            found.append(made(ONE_AT_A_TIME, [one for one in together if _reaches(one, low, high)], low, high))
    return found


def _shares(groups: Sequence[RowGroup], of: Callable[[RowGroup], Range], most: int) -> Iterator[list[RowGroup]]:
    """Row groups that must be examined together, joined with others if that makes small shares larger."""
    share: list[RowGroup] = []
    for touching in _together(groups, of):
        if share and sum(one.rows for one in (*share, *touching)) > most // 4:
            yield share
            share = []
        share = sorted([*share, *touching], key=attrgetter("first_row"))
    if share:
        yield share


def _together(groups: Sequence[RowGroup], of: Callable[[RowGroup], Range]) -> Iterator[list[RowGroup]]:
    """Row groups whose ranges touch, directly or indirectly."""
    touching: list[RowGroup] = []
    high = FIRST
    for one in sorted(groups, key=lambda one: of(one).low):
        if touching and of(one).low > high:
            yield touching
            touching = []
        touching.append(one)
        high = max(high, of(one).high)
    if touching:
        yield touching


def _cuts(ranges: Sequence[tuple[Range, int]], most: int) -> Iterator[tuple[int, int]]:
    """Divide everything into ranges of about `most` rows, if rows are evenly spread within each row group."""
    points = sorted(
        (one.low + (one.high - one.low) * (2 * number + 1) // (2 * POINTS), rows)
        for one, rows in ranges
        for number in range(POINTS)
    )
    low, held = FIRST, 0
    for point, rows in points:
        if held >= most * POINTS and point > low:
            yield low, point - 1
            low, held = point, 0
        held += rows
    yield low, LAST


def _reaches(group: RowGroup, low: int, high: int) -> bool:
    """Whether it may hold operations that had not ended at `low`, or began later, and until `high`."""
    ends_before = not group.endless and (group.completed is None or group.completed.high <= low)
    return group.invoked.low <= high and (group.invoked.high >= low or not ends_before)


# Carrying out ---------------------------------------------------------------------------------------------------------


def check_well_formed(task: WellFormedTask) -> Breach | None:
    """Return the least breach of the rule within the task's range. Raises IllFormedHistory for what cannot be read."""
    path = Path(task.path)
    groups = row_groups_of(path, task.row_groups)
    if task.registers is not None:
        groups += row_groups_beside(path, Path(task.registers), task.register_groups)
    return _recorded_once(groups, task) if task.rule == RECORDED_ONCE else _one_at_a_time(groups, task)


def first_breach(breaches: Iterable[Breach | None]) -> Breach | None:
    """The breach that a single pass over the whole would have found first."""
    return min((one for one in breaches if one is not None), default=None)


def _recorded_once(groups: Sequence[RowGroup], task: WellFormedTask) -> Breach | None:
    def read(low: int, high: int) -> Iterator[Columns]:
        for group in groups:
            if group.op_id.low <= high and group.op_id.high >= low:
                ids = _ids(group)
                yield (_within(ids, low, high),)

    for portion in portions(read, 1, task.low, task.high, task.most):
        (ids,) = portion.columns
        twice = least_repeated(ids)
        if twice is not None:
            return repeated(twice, _second_row(groups, twice))
    return None


def _within(values: Ints, low: int, high: int) -> Ints:
    return values if low == FIRST and high == LAST else values[(values >= low) & (values <= high)]


def _second_row(groups: Sequence[RowGroup], op_id: int) -> int:
    rows = (group.first_row + int(place) for group in groups for place in np.flatnonzero(_ids(group) == op_id))
    next(rows)
    return next(rows)


def _one_at_a_time(groups: Sequence[RowGroup], task: WellFormedTask) -> Breach | None:
    intervals = _Intervals(groups)
    least: Breach | None = None
    for portion in portions(intervals.read, 3, task.low, task.high, task.most):
        if intervals.backwards is not None:
            return intervals.backwards
        invoked, process, ended = portion.columns
        named = suspects(process, invoked, ended, portion.low)
        if least is not None:
            named = named[named <= least.key[0]]
        least = first_breach([least, intervals.first_overlap(named, portion.low, portion.high)])
    return least


class _Intervals:
    """Reads when operations of some row groups began and ended; stops at one that ended before it began."""

    def __init__(self, groups: Sequence[RowGroup]) -> None:
        self.groups = groups
        self.backwards: Breach | None = None

    def read(self, low: int, high: int) -> Iterator[Columns]:
        """Yield invocation, process and end of operations begun until `high`: from `low` on, or ended after it."""
        for group, invoked, process, completed, ended in self._all(low, high):
            wrong = np.flatnonzero(completed < invoked)
            if len(wrong):
                self.backwards = backwards(int(process[wrong[0]]), group.first_row + int(wrong[0]))
                return
            if low == FIRST and group.invoked.high <= high:
                yield invoked, process, ended
            else:
                matter = (invoked <= high) & ((invoked >= low) | (ended > low))
                yield invoked[matter], process[matter], ended[matter]

    def _all(self, low: int, high: int) -> Iterator[tuple[RowGroup, Ints, Ints, Ints, Ints]]:
        for group in self.groups:
            if _reaches(group, low, high):
                table = read_columns(group.path, ["invoked", "process", "completed", "type"], [group.number])
                invoked, process = (_numbers(group, table, name) for name in ("invoked", "process"))
                yield group, invoked, process, *_ends(group, table)

    def first_overlap(self, processes: Ints, low: int, high: int) -> Breach | None:
        """The first of these processes, in ascending order, that had two operations at once, and which operation."""
        for start in range(0, len(processes), MOST_SUSPECTS):
            found = self._first_overlap(processes[start : start + MOST_SUSPECTS], low, high)
            if found is not None:
                return found
        return None

    def _first_overlap(self, processes: Ints, low: int, high: int) -> Breach | None:
        parts = []
        for group, invoked, process, _, ended in self._all(low, high):
            place = np.minimum(np.searchsorted(processes, process), len(processes) - 1)
            matter = np.flatnonzero(
                (processes[place] == process) & (invoked <= high) & ((invoked >= low) | (ended > low))
            )
            op_id = _ids(group)[matter]
            parts.append((process[matter], invoked[matter], ended[matter], op_id, group.first_row + matter))
        process, invoked, ended, op_id, row = (np.concatenate(one) for one in zip(*parts, strict=True))
        found = first_overlap(process, invoked, ended, op_id)
        if found is None:
            return None
        return overlapping(int(process[found]), int(invoked[found]), int(op_id[found]), int(row[found]))


def _ids(group: RowGroup) -> Ints:
    return _numbers(group, read_columns(group.path, ["op_id"], [group.number]), "op_id")


def _numbers(group: RowGroup, table: pa.Table, name: str) -> Ints:
    values = np.asarray(whole_numbers(group.path, table, name))
    told: Range = getattr(group, name)
    if len(values) != group.rows or not told.holds(values):
        raise _untold(group, name)
    return values


def _ends(group: RowGroup, table: pa.Table) -> tuple[Ints, Ints]:
    """When each operation was completed, `NEVER` if it was not; and when it ended, `NEVER` for unknown outcome."""
    told = whole_numbers(group.path, table, "completed", nullable=True)
    unknown = np.asarray(whole_numbers(group.path, table, "type")) == TYPES["info"]
    known = np.asarray(told.drop_null())
    within = len(known) == 0 if group.completed is None else group.completed.holds(known)
    if table.num_rows != group.rows or not within or (not group.endless and (told.null_count or unknown.any())):
        raise _untold(group, "completed")
    completed = np.asarray(pc.fill_null(told, NEVER))
    return completed, np.where(unknown, NEVER, completed)


def _untold(group: RowGroup, name: str) -> IllFormedHistory:
    problem = f"says something else of {name} in row group {group.number} than it holds there"
    return IllFormedHistory(group.path, None, f"{problem}; {REMEDY}")
