"""Make transactions out of a history of the workload `list-append`, for the check of the same name.

    send, marker                  an append of its value to the list that its topic-partition is
    poll from position 0          a read of that list
    final polls of one session    one read, from the first's invocation to the last's completion; left out if they do
                                  not begin at 0, do not follow each other (which the check of the log judges), or were
                                  cut off: did not reach an acknowledged marker, so that there may be more

A read that failed says nothing and is left out. Lists are numbered in the order of topics and topic-partitions, which
for a single topic is the number of the topic-partition.

The table is derived, never recorded: it is made from a run's segments and history each time, so that a changed table
proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from squall.results.history.history import HISTORY_FILE
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.operation_tables import KINDS, LIST_APPEND
from squall.results.history.rows import FUNCTIONS, TYPES
from squall.results.history.table_schemas import APPEND, READ, TRANSACTION_SCHEMA

WORKLOAD: Final = LIST_APPEND
"""The workload of these histories; it has the name of the check."""

_APPENDS: Final = (FUNCTIONS["send"], FUNCTIONS["marker"])
_NEEDED: Final = (
    "op_id", "process", "client", "f", "type", "topic", "partition", "invoked", "completed", "clock_error", "value",
    "offset", "session", "position", "offsets", "values",
)  # fmt: skip

Row = Mapping[str, Any]


def holds_lists(workload: Mapping[str, Any]) -> bool:
    """Whether a history with this workload, as its manifest states it, is one of lists."""
    return workload.get("name") == WORKLOAD


def recorded_beside(workload: Mapping[str, Any]) -> list[str]:
    """The kinds whose tables beside a history with this workload count: not those made of the history itself."""
    return [name for name in KINDS if name != LIST_APPEND or not holds_lists(workload)]


def transactions_of(history: pa.Table) -> pa.Table:
    """The table of transactions (`TRANSACTION_SCHEMA`) that a history of operations on logs makes.

    Raises IllFormedHistory for rows that state neither that a poll delivered something nor that it did not.
    """
    columns = history.select(_NEEDED)
    for name in ("offsets", "values"):  # appends and empty polls have them, too
        if columns[name].null_count:
            raise IllFormedHistory(Path(HISTORY_FILE), None, f"holds nulls in the column {name}; it must not")
    rows = [row for row in columns.to_pylist() if row["topic"] is not None and row["partition"] is not None]
    places = sorted({(row["topic"], row["partition"]) for row in rows})
    key = {place: number for number, place in enumerate(places)}
    made = [one.as_row(key[one.place]) for one in _transactions(rows)]
    return pa.Table.from_pylist(made, TRANSACTION_SCHEMA)


@dataclass(frozen=True)
class _Transaction:
    """A transaction with a single micro-operation: an append of `element`, or a read of `elements`."""

    first: Row
    last: Row
    element: int | None = None
    elements: tuple[int, ...] | None = None

    @property
    def place(self) -> tuple[str, int]:
        return (self.first["topic"], self.first["partition"])

    def as_row(self, key: int) -> dict[str, Any]:
        return {
            "op_id": self.first["op_id"],
            "process": self.first["process"],
            "type": self.last["type"],
            "invoked": self.first["invoked"],
            "completed": self.last["completed"],
            "clock_error": max(self.first["clock_error"], self.last["clock_error"]),
            "functions": [READ if self.element is None else APPEND],
            "keys": [key],
            "elements": [self.element or 0],
            "reads": [None if self.elements is None else list(self.elements)],
        }


def _transactions(rows: Iterable[Row]) -> Iterator[_Transaction]:
    finals = []
    ends: dict[tuple[str, int], int] = {}  # by topic-partition: the offset of its last acknowledged marker
    for row in rows:
        if row["f"] == FUNCTIONS["marker"] and row["type"] == TYPES["ok"] and row["offset"] is not None:
            place = (row["topic"], row["partition"])
            ends[place] = max(row["offset"], ends.get(place, 0))
        read = row["type"] == TYPES["ok"] and row["session"] is not None
        if row["f"] in _APPENDS and row["value"] is not None:
            yield _Transaction(row, row, element=row["value"])
        elif row["f"] == FUNCTIONS["poll"] and read and row["position"] == 0:
            yield _Transaction(row, row, elements=tuple(row["values"]))
        elif row["f"] == FUNCTIONS["final_poll"] and read:
            finals.append(row)
    yield from _final_reads(finals, ends)


def _final_reads(rows: list[Row], ends: Mapping[tuple[str, int], int]) -> Iterator[_Transaction]:
    def of(row: Row) -> tuple[Any, ...]:
        return (row["topic"], row["partition"], row["client"], row["session"])

    for _, polls in groupby(sorted(rows, key=lambda row: (*of(row), row["invoked"])), of):
        whole = list(polls)
        offsets = [offset for poll in whole for offset in poll["offsets"]]
        end = ends.get((whole[0]["topic"], whole[0]["partition"]))
        if end is None or not offsets or offsets[-1] < end:
            continue
        if whole[0]["position"] == 0 and all(one < other for one, other in pairwise(offsets)):
            elements = tuple(value for poll in whole for value in poll["values"])
            yield _Transaction(whole[0], whole[-1], elements=elements)
