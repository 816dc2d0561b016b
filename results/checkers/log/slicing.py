"""Cut a huge topic-partition into slices (`slices.py`), by the footer's facts about its row groups.

Row groups follow each other in time, and so do the offsets that are appended: a share of the row groups holds a range
of offsets, and little of it is read before or much later, except by the final read, whose row groups lie at the end and
are themselves in order of offsets. So the log is cut where the sends of every so many rows begin, and a slice reads the
row groups that may hold any of its offsets: some of its neighbours' beside its own, and its part of the final read. The
topic-partition is not cut if every slice would need most of the file (because reads were out of order), or if the
footer lacks what is needed.

Every slice must know how the final read ended. It is found here, in the one or two row groups in which the load ends
and the final read begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from squall.results.checkers.kernels.observed import Closing
from squall.results.checkers.kernels.operations import FINAL_POLL, LIST_OFFSETS, MARKER, Operations, UnusableRecords
from squall.results.checkers.log.figures import FiguresTask
from squall.results.checkers.log.partition import Task
from squall.results.checkers.log.slices import SliceTask
from squall.results.history.joining import SCHEMA
from squall.results.history.parquet_files import opened, read_columns
from squall.results.history.row_groups import Range

HUGE_ROWS: Final = 5_000_000
"""From this size on, a topic-partition is worth more than one task."""
SLICES_OF_THE_LEAST: Final = 4
"""The number of slices of a topic-partition of just this size; a larger one has more slices of the same size."""
MOST_TIMES_READ: Final = 2.0
"""How often each row may be read, on average."""
LOWEST: Final = -(1 << 62)
HIGHEST: Final = 1 << 62
ENDS_OF: Final = [
    "f", "type", "offset", "invoked", "completed", "offsets", "log_start", "clock_id", "clock_error"
]  # fmt: skip


class FooterLacks(Exception):
    """The footer lacks what is needed to cut a topic-partition into slices."""


@dataclass(frozen=True)
class LogGroup:
    """The footer's facts about a row group: its kinds of operations and the ranges of its offsets.

    Offsets were acknowledged (`sent`), `delivered`, or `stated` as the log's end in a list_offsets response.
    """

    number: int
    first_row: int
    rows: int
    f: Range
    clock_id: Range
    worst_clock_error: int
    log_start: int
    sent: Range | None
    delivered: Range | None
    stated: Range | None

    @property
    def is_of_the_load(self) -> bool:
        return self.f.low <= LIST_OFFSETS

    @property
    def holds_marker(self) -> bool:
        """Whether it may hold a marker."""
        return self.f.low <= MARKER <= self.f.high

    def meets(self, low: int, high: int) -> bool:
        """Whether it may hold any of the offsets from `low` on and below `high`."""
        told = (self.sent, self.delivered, self.stated)
        return any(one is not None and one.low < high and one.high >= low for one in told)


Parts = list[tuple[SliceTask | FiguresTask, float]]
"""Tasks in place of one, each with the rows it reads."""


def sliced(whole: Task, rows: int, huge: int = HUGE_ROWS) -> Parts:
    """Return tasks in place of `whole`, which has `rows` rows; none if it is not cut. Raises IllFormedHistory."""
    if rows < huge or whole.linearizable_reads or whole.losses:
        return []
    path = Path(whole.path)
    try:
        groups = log_groups(path, whole.row_groups)
        mixed = [one.number for one in groups if one.holds_marker]
        table = read_columns(path, ENDS_OF, mixed) if mixed else None
        closing = closing_of(groups, table, keeps_front=whole.keeps_front)
    except (FooterLacks, UnusableRecords):
        return []
    return cut(whole, groups, closing, huge // SLICES_OF_THE_LEAST)


def cut(whole: Task, groups: Sequence[LogGroup], closing: Closing, each: int) -> Parts:
    """Return slices of some `each` rows, and a task for the figures; none if that is not worthwhile."""
    begins = _begins(groups, each)
    edges = list(pairwise([LOWEST, *begins.values(), HIGHEST]))
    owners = _owners(groups, list(begins), edges)
    rows = sum(one.rows for one in groups)
    tasks: Parts = [(FiguresTask(whole), rows / 2)]
    for number, (low, high) in enumerate(edges):
        read = [one for one in groups if owners[one.number] == number or one.meets(low, high)]
        task = SliceTask(
            whole=whole,
            low=low,
            high=high,
            row_groups=tuple(one.number for one in read),
            rows=tuple(one.rows for one in read),
            first_rows=tuple(one.first_row for one in read),
            belonging=tuple(one.number for one in read if owners[one.number] == number),
            closing=closing,
            several_clocks=_several_clocks(groups),
        )
        if read:
            tasks.append((task, sum(task.rows)))
    worth_it = len(edges) > 1 and sum(size for _, size in tasks[1:]) <= MOST_TIMES_READ * rows
    return tasks if worth_it else []


def _begins(groups: Sequence[LogGroup], each: int) -> dict[int, int]:
    """The row groups with which all slices but the first begin, and the offsets at which these slices begin."""
    load = [one for one in groups if one.is_of_the_load]
    total = sum(one.rows for one in load)
    fair = total / max(1, round(total / each))
    found: dict[int, int] = {}
    low, share, before = LOWEST, 1, 0
    for one in load:
        if before >= share * fair and one.sent is not None and one.sent.low > low:
            low = found[one.number] = one.sent.low
            share = int(before // fair) + 1
        before += one.rows
    return found


def _owners(groups: Sequence[LogGroup], begins: Sequence[int], edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """By row group, the slice it belongs to.

    During the load, row groups are assigned in order, so that a process's appends of one slice come before those of the
    next; later row groups belong to the first slice that reads them.
    """
    found: dict[int, int] = {}
    for one in groups:
        if one.is_of_the_load:
            found[one.number] = bisect_right(begins, one.number)
        else:
            found[one.number] = next((number for number, edge in enumerate(edges) if one.meets(*edge)), 0)
    return found


def closing_of(groups: Sequence[LogGroup], mixed: pa.Table | None, *, keeps_front: bool = False) -> Closing:
    """Find the closing of the whole log, from its row groups and the rows of those that may hold a marker.

    `keeps_front` as in `Operations`. Raises UnusableRecords.
    """
    last = (one.delivered for one in groups if one.f.low == FINAL_POLL)
    end = max((one.high for one in last if one is not None), default=-1)
    start = 0 if keeps_front else max(one.log_start for one in groups)
    if mixed is None:
        return Closing(start, end)
    operations = replace(Operations.without_values(mixed), several_clocks=_several_clocks(groups))
    delivered = operations.record_offset[np.repeat(operations.f == FINAL_POLL, np.diff(operations.starts))]
    end = max(end, int(delivered.max(initial=-1)))
    return Closing.of(operations, end, max(one.worst_clock_error for one in groups), start)


def _several_clocks(groups: Sequence[LogGroup]) -> bool:
    return min(one.clock_id.low for one in groups) < max(one.clock_id.high for one in groups)


# The footer -----------------------------------------------------------------------------------------------------------


def log_groups(path: Path, numbers: Sequence[int]) -> list[LogGroup]:
    """Return some row groups, except those without rows. Raises FooterLacks and IllFormedHistory."""
    footer = opened(path, SCHEMA.names).metadata
    place = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    before = list(accumulate((footer.row_group(number).num_rows for number in range(footer.num_row_groups)), initial=0))
    found = []
    for number in numbers:
        group = footer.row_group(number)
        if group.num_rows:
            found.append(_log_group(group, place, number, before[number]))
    return found


def _log_group(group: pq.RowGroupMetaData, place: Mapping[str, int], number: int, first_row: int) -> LogGroup:
    def told(name: str) -> Range | None:
        """The range of a column; None if it holds only nulls."""
        said: Any = group.column(place[name]).statistics if name in place else None
        if said is None or not said.has_null_count:
            raise FooterLacks(name)
        if said.has_min_max and isinstance(said.min, int):
            return Range(said.min, said.max)
        if said.num_values:
            raise FooterLacks(name)
        return None

    def known(name: str) -> Range:
        found = told(name)
        if found is None:
            raise FooterLacks(name)
        return found

    f, started = known("f"), told("log_start")
    return LogGroup(
        number=number,
        first_row=first_row,
        rows=group.num_rows,
        f=f,
        clock_id=known("clock_id"),
        worst_clock_error=known("clock_error").high,
        log_start=0 if started is None else max(0, started.high),
        sent=told("offset"),
        delivered=told("offsets.list.element"),
        stated=told("high_watermark") if f.low <= LIST_OFFSETS <= f.high else None,
    )
