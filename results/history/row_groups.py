"""Read the ranges of columns in the row groups of a `history.parquet` from its footer.

A history that is larger than memory is planned and framed by its footer alone: which row groups have processes in
common, when its first operation began and its last ended. Each reader of a row group's rows compares them with its
ranges (`Range.holds`): a footer that is wrong makes the history ill-formed. If a writer left such statistics out, the
column is read, one row group at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.joining import SCHEMA
from squall.results.history.parquet_files import opened, read_columns
from squall.results.history.rows import FUNCTIONS, TYPES

TOLD: Final = ("op_id", "process", "invoked", "completed", "type")
"""The columns whose ranges are read."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Range:
    """The least and the greatest value of a column; a column of nulls has no range."""

    low: int
    high: int

    def holds(self, values: Ints) -> bool:
        """Whether all values are in the range."""
        return len(values) == 0 or (self.low <= int(values.min()) and int(values.max()) <= self.high)


@dataclass(frozen=True)
class RowGroup:
    """One row group: its number in its file, how many rows precede it, how many it has, and the ranges of its columns.

    `endless` if it may hold operations without an end: of unknown outcome, or without a completion. `beside` if it is
    of a table beside the history; the rows of such a table are numbered after the history's.
    """

    number: int
    first_row: int
    rows: int
    op_id: Range
    process: Range
    invoked: Range
    completed: Range | None
    endless: bool
    path: Path = field(compare=False)
    beside: bool = False


def row_groups_of(path: Path, numbers: Iterable[int] | None = None) -> list[RowGroup]:
    """Return the non-empty row groups of a history: all, or these. Raises IllFormedHistory."""
    return _row_groups(path, SCHEMA.names, numbers, 0, beside=False)


def row_groups_beside(history: Path, table: Path, numbers: Iterable[int] | None = None) -> list[RowGroup]:
    """Return the row groups of a table of other operations that share the history's ids and processes."""
    return _row_groups(table, TOLD, numbers, opened(history, SCHEMA.names).metadata.num_rows, beside=True)


def _row_groups(
    path: Path, columns: Iterable[str], numbers: Iterable[int] | None, first_row: int, *, beside: bool
) -> list[RowGroup]:
    footer = opened(path, columns).metadata
    place = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    before = list(accumulate((one.num_rows for one in groups), initial=first_row))
    wanted = range(len(groups)) if numbers is None else numbers
    return [
        _row_group(path, groups[number], place, number, before[number], beside=beside)
        for number in wanted
        if groups[number].num_rows
    ]


def _row_group(
    path: Path, group: pq.RowGroupMetaData, place: Mapping[str, int], number: int, first_row: int, *, beside: bool
) -> RowGroup:
    completed, nulls = _told(path, group, place, number, "completed")

    def told(name: str) -> Range:
        found, missing = _told(path, group, place, number, name)
        if found is None or missing:
            raise IllFormedHistory(path, None, f"holds nulls in the column {name}; it must not")
        return found

    endless = nulls > 0 or told("type").high >= TYPES["info"]
    ranges = told("op_id"), told("process"), told("invoked"), completed
    return RowGroup(number, first_row, group.num_rows, *ranges, endless, path, beside)


def _told(
    path: Path, group: pq.RowGroupMetaData, place: Mapping[str, int], number: int, name: str
) -> tuple[Range | None, int]:
    """Return the range of a column within a row group, None if there are only nulls; and the number of nulls."""
    said = group.column(place[name]).statistics if name in place else None
    if said is not None and said.has_null_count:
        if said.has_min_max and isinstance(said.min, int):
            return Range(said.min, said.max), said.null_count
        if said.null_count == group.num_rows:
            return None, said.null_count
    values = whole_numbers(path, read_columns(path, [name], [number]), name, nullable=True)
    found = pc.min_max(values).as_py()
    return (None if found["min"] is None else Range(found["min"], found["max"])), values.null_count


def whole_numbers(path: Path, table: pa.Table, name: str, *, nullable: bool = False) -> pa.ChunkedArray:
    """Return a column as 64-bit integers. Raises IllFormedHistory for another type, or for nulls unless `nullable`."""
    column = table[name]
    if not pa.types.is_signed_integer(column.type):
        raise IllFormedHistory(path, None, f"holds {column.type} in the column {name}; it must be whole numbers")
    if column.null_count and not nullable:
        raise IllFormedHistory(path, None, f"holds nulls in the column {name}; it must not")
    return column.cast(pa.int64())


@dataclass(frozen=True)
class Span:
    """When the first operation of a history began, the last one began or was completed, and the last send began."""

    first: int
    last: int
    last_send: int


def span_of(table: pa.Table) -> Span | None:
    """Return the span of operations in memory; None without operations."""
    if table.num_rows == 0:
        return None
    first, last = (pc.min_max(table["invoked"])[name].as_py() for name in ("min", "max"))
    return Span(first, max(last, pc.max(table["completed"]).as_py() or 0), _last_send(table, first))


def stored_span(path: Path, groups: Sequence[RowGroup], *, sends_matter: bool) -> Span | None:
    """Return the span of a stored history, by its footer.

    If sends matter, row groups that may have the last send are read.
    """
    if not groups:
        return None
    first = last_send = min(one.invoked.low for one in groups)
    for one in sorted(groups, key=lambda one: -one.invoked.high) if sends_matter else ():
        if one.invoked.high > last_send:
            last_send = _last_send(read_columns(path, ["f", "invoked"], [one.number]), last_send)
    last = max(one.invoked.high for one in groups)
    completed = max((one.completed.high for one in groups if one.completed is not None), default=0)
    return Span(first, max(last, completed), last_send)


def _last_send(table: pa.Table, default: int) -> int:
    found = pc.max(table["invoked"].filter(pc.equal(table["f"], FUNCTIONS["send"]))).as_py()
    return default if found is None else max(default, found)
