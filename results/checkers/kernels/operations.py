"""Load the operations of one topic-partition as numpy arrays, the input of every kernel.

Nulls become sentinels here, once: `NEVER` for missing times, `NONE` for missing numbers. A column is made at first use,
and is the table's own memory if it holds no null and is contiguous. The records of all polls lie flat in two arrays
(offset, value); those of operation `i` are from `starts[i]` to `starts[i + 1]`, and `record_poll`, made at first use,
names the operation of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.checkers.kernels import loops

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).max
NONE: Final = np.iinfo(np.int64).min

SEND: Final = 0
POLL: Final = 1
LIST_OFFSETS: Final = 2
MARKER: Final = 3
FINAL_POLL: Final = 4
DELETE_RECORDS: Final = 5

OK: Final = 0
FAIL: Final = 1
INFO: Final = 2

ACKS_ALL: Final = -1
UNKNOWN_CODE: Final = -1

_NARROWEST: Final = pa.int8()
_NARROW: Final = pa.int32()
_WIDE: Final = pa.int64()


class UnusableRecords(ValueError):
    """The deliveries of polls are not stated as offsets with a value each."""


@dataclass(frozen=True, eq=False)
class Operations:
    """Columns of the history, one element per operation, and the flat records."""

    table: pa.Table
    starts: Rows
    record_offset: Ints
    record_value: Ints
    several_clocks: bool | None = None
    """Whether the times of the whole log are by more than one clock; None if these are all its operations."""
    keeps_front: bool = False
    """Whether nothing could remove records from the front of this log: a log start that was stated excuses nothing."""

    @classmethod
    def from_table(cls, table: pa.Table) -> Operations:
        """Read rows of one topic-partition, sorted by invocation. Raises UnusableRecords."""
        starts, offset = _flat(table, "offsets")
        ends, value = _flat(table, "values")
        if len(offset) != len(value) or not np.array_equal(starts, ends):
            raise UnusableRecords("holds polls with more offsets than values, or fewer")
        return cls(table, starts, offset, value)

    @classmethod
    def without_values(cls, table: pa.Table) -> Operations:
        """Read rows whose values are not needed: each record has its offset in place of the value."""
        starts, offset = _flat(table, "offsets")
        return cls(table, starts, offset, offset)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def f(self) -> Codes:
        return _column(self.table, "f", UNKNOWN_CODE, _NARROWEST)

    @cached_property
    def type(self) -> Codes:
        return _column(self.table, "type", INFO, _NARROWEST)

    @cached_property
    def acks(self) -> Codes:
        return _column(self.table, "acks", ACKS_ALL, _NARROWEST)

    @cached_property
    def idempotent(self) -> Flags:
        return np.asarray(self.table["idempotent"], dtype=np.bool_)

    @cached_property
    def client(self) -> Rows:
        return _column(self.table, "client", -1, _NARROW)

    @cached_property
    def session(self) -> Rows:
        return _column(self.table, "session", 0, _NARROW)

    @cached_property
    def process(self) -> Ints:
        return _column(self.table, "process", NONE)

    @cached_property
    def sequence(self) -> Ints:
        return _column(self.table, "sequence", NONE)

    @cached_property
    def at(self) -> Ints:
        return _column(self.table, "at", NONE)

    @cached_property
    def invoked(self) -> Ints:
        return _column(self.table, "invoked", NONE)

    @cached_property
    def completed(self) -> Ints:
        return _column(self.table, "completed", NEVER)

    @cached_property
    def value(self) -> Ints:
        return _column(self.table, "value", NONE)

    @cached_property
    def offset(self) -> Ints:
        return _column(self.table, "offset", NONE)

    @cached_property
    def high_watermark(self) -> Ints:
        return _column(self.table, "high_watermark", NONE)

    @cached_property
    def leader_epoch(self) -> Ints:
        """Leader epochs; clients report -1 for an unknown one."""
        epochs = _column(self.table, "leader_epoch", NONE)
        return np.where(epochs < 0, NONE, epochs)

    @cached_property
    def stated_log_start(self) -> Ints:
        """By operation, the log start offset that its response stated."""
        return _column(self.table, "log_start", NONE)

    @cached_property
    def node(self) -> Ints:
        """By operation, the node that answered, NONE if the client does not know."""
        return _column(self.table, "node", NONE)

    @cached_property
    def log_start(self) -> int:
        """The highest stated log start offset, 0 if none was stated, or if the log keeps its front."""
        if self.keeps_front:
            return 0
        return max(0, pc.max(self.table["log_start"]).as_py() or 0)

    @cached_property
    def doubt(self) -> Ints:
        """How far off each time may be; empty if all times are of one clock, since only errors between clocks count."""
        several = self.several_clocks
        if several is None:
            lowest, highest = (one.as_py() for one in pc.min_max(self.table["clock_id"]).values())
            several = lowest != highest
        return _column(self.table, "clock_error", 0) if several else np.zeros(0, np.int64)

    @property
    def clock_error(self) -> Ints:
        """`doubt`, with a zero for each operation where it is empty."""
        return self.doubt if len(self.doubt) else np.zeros(len(self), np.int64)

    @cached_property
    def tally(self) -> dict[tuple[int, int], int]:
        """The number of operations of each (f, type)."""
        counts = loops.tallied(self.f, self.type)
        return {(_code(key >> 8), _code(key & 0xFF)): int(counts[key]) for key in np.flatnonzero(counts).tolist()}

    @cached_property
    def record_poll(self) -> Ints:
        """By record: the operation that delivered it."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def polls_of(self, records: Ints) -> Ints:
        """The operations that delivered some records."""
        return np.searchsorted(self.starts, records, side="right") - 1

    @cached_property
    def in_order(self) -> Ints:
        """All operations by invocation; empty if they are in that order."""
        sorted_already = bool((self.invoked[1:] >= self.invoked[:-1]).all())
        return np.zeros(0, np.int64) if sorted_already else np.argsort(self.invoked, kind="stable")

    @cached_property
    def acknowledged_at(self) -> Ints:
        """When sends were acknowledged, under any acks, in order of time."""
        return np.sort(self.completed[(self.f == SEND) & (self.type == OK)])

    @property
    def is_send(self) -> Flags:
        """Sends and markers, which append a record."""
        return (self.f == SEND) | (self.f == MARKER)

    @property
    def is_poll(self) -> Flags:
        return (self.f == POLL) | (self.f == FINAL_POLL)

    @property
    def is_acked(self) -> Flags:
        """Appends that were acknowledged under acks=all, and so must never be lost."""
        return self.is_send & (self.type == OK) & (self.acks == ACKS_ALL)

    def session_key(self, rows: Ints) -> Ints:
        """An integer for client and session of each of some operations."""
        return self.client[rows].astype(np.int64) << 32 | self.session[rows]


def _code(byte: int) -> int:
    """The signed integer that a byte stands for."""
    return byte - 256 if byte > 127 else byte


def _flat(table: pa.Table, name: str) -> tuple[Rows, Ints]:
    """Where the elements of each row begin, and all elements. Raises UnusableRecords."""
    lists = table[name]
    if lists.null_count:
        raise UnusableRecords(f"holds nulls in the column {name}; it must not")
    whole = lists.chunk(0) if lists.num_chunks == 1 else lists.combine_chunks()
    elements = whole.flatten()
    if elements.null_count:
        raise UnusableRecords(f"holds nulls within the lists of the column {name}; it must not")
    edges = np.asarray(whole.offsets)
    first = int(edges[0]) if len(edges) else 0
    starts = edges - first if first else edges
    if len(starts) == 0:
        starts = np.zeros(1, np.int32)
    return starts.astype(np.int32, copy=False), np.asarray(elements.cast(_WIDE))


def _column(table: pa.Table, name: str, null: int, kind: pa.DataType = _WIDE) -> npt.NDArray[Any]:
    """Return a column of integers with `null` for nulls."""
    arrays = [filled(one if one.type == kind else one.cast(kind), null) for one in table[name].chunks]
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.zeros(0, kind.to_pandas_dtype())


def filled(column: pa.Array, null: int) -> npt.NDArray[Any]:
    """Return integers with `null` for nulls. Arrow's own function takes longer than a pass over some thousand rows."""
    kind = np.dtype(column.type.to_pandas_dtype())
    if len(column) == 0:
        return np.zeros(0, kind)
    known, numbers = column.buffers()
    first, end = column.offset, column.offset + len(column)
    values = np.frombuffer(numbers, kind, end)[first:]
    if not column.null_count:
        return values
    is_known = np.unpackbits(np.frombuffer(known, np.uint8), count=end, bitorder="little")[first:]
    return np.where(is_known.view(np.bool_), values, kind.type(null))
