"""Join the invocations and completions of a segment into columns, one row per operation.

The rules of a well-formed history are enforced here line by line, for all kinds of operations. A breach is reported
with file and line, and proves nothing about the system under test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.rows import REGISTER_FUNCTIONS, Completion, Invocation, Row
from squall.results.history.segments import (
    FUNCTIONS,
    TYPES,
    CompletionRow,
    InvocationRow,
    RegisterCompletion,
    RegisterInvocation,
    SegmentHeader,
)
from squall.results.history.table_schemas import REGISTER_SCHEMA

SEGMENT_BITS: Final = 40

_TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA: Final = pa.schema(
    [
        pa.field("op_id", pa.int64(), nullable=False),  # segment << 40 | number within the segment
        pa.field("process", pa.int64(), nullable=False),
        pa.field("client", pa.int32(), nullable=False),
        pa.field("sequence", pa.int64()),  # a pipelining client's order of sends
        pa.field("f", pa.int8(), nullable=False),
        pa.field("type", pa.int8(), nullable=False),
        pa.field("topic", _TEXT),
        pa.field("partition", pa.int32()),
        pa.field("at", pa.int64(), nullable=False),  # the intended start
        pa.field("invoked", pa.int64(), nullable=False),
        pa.field("completed", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("acks", pa.int8(), nullable=False),
        pa.field("idempotent", pa.bool_(), nullable=False),
        pa.field("offsets", pa.list_(pa.int64()), nullable=False),  # a poll's run, in delivery order
        pa.field("values", pa.list_(pa.int64()), nullable=False),
        pa.field("session", pa.int32()),  # the client's assignment
        pa.field("position", pa.int64()),  # its cursor before the poll
        pa.field("leader_epoch", pa.int32()),
        pa.field("high_watermark", pa.int64()),
        pa.field("log_start", pa.int64()),
        pa.field("node", pa.int32()),
        pa.field("error", _TEXT),
        pa.field("clock_id", pa.int16(), nullable=False),
        pa.field("clock_error", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class JoinedSegment:
    """The operations of a segment: those on logs, and those on registers (`REGISTER_SCHEMA`)."""

    log: pa.Table
    registers: pa.Table


def joined(path: Path, header: SegmentHeader, rows: Iterable[tuple[int, Row]]) -> pa.Table:
    """Return one segment's operations on logs, from its numbered rows. Raises IllFormedHistory."""
    return joined_segment(path, header, rows).log


def joined_segment(path: Path, header: SegmentHeader, rows: Iterable[tuple[int, Row]]) -> JoinedSegment:
    """Return all operations of one segment, from its numbered rows. Raises IllFormedHistory."""
    return _Joiner(path, header).segment(rows)


Begun = TypeVar("Begun", InvocationRow, RegisterInvocation)
Ended = TypeVar("Ended", CompletionRow, RegisterCompletion)


@dataclass(frozen=True)
class _Operations(Generic[Begun, Ended]):
    """Operations of one kind, with their numbers in the segment; `ended` is None without a completion."""

    numbers: list[int] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    ended: list[Ended | None] = field(default_factory=list)

    def open(self, number: int, row: Begun) -> int:
        """Add a new operation; return its place among these."""
        self.numbers.append(number)
        self.begun.append(row)
        self.ended.append(None)
        return len(self.begun) - 1


class _Joiner:
    """Joins the invocations and completions of one segment, line by line."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self.path = path
        self.header = header
        self.count = 0
        self.log: _Operations[InvocationRow, CompletionRow] = _Operations()
        self.registers: _Operations[RegisterInvocation, RegisterCompletion] = _Operations()
        self.open: dict[int, tuple[bool, int]] = {}  # whether on a register, and its place
        self.last: dict[int, int] = {}
        self.retired: set[int] = set()

    def segment(self, rows: Iterable[tuple[int, Row]]) -> JoinedSegment:
        for line, row in rows:
            if isinstance(row, InvocationRow | RegisterInvocation):
                self._invoke(line, row)
            else:
                self._complete(line, row)
        try:
            return JoinedSegment(_columns(self.header, self.log), _register_columns(self.header, self.registers))
        except (pa.ArrowException, OverflowError) as trouble:
            raise IllFormedHistory(self.path, None, f"a number does not fit its column: {trouble}") from trouble

    def _invoke(self, line: int, row: Invocation) -> None:
        process = row.process
        if process in self.open:
            raise self._error(line, f"process {process} has two outstanding operations")
        if process in self.retired:
            raise self._error(line, f"process {process} went on after an operation of unknown outcome (info)")
        if row.invoked < self.last.get(process, row.invoked):
            raise self._error(line, f"time runs backwards within process {process}")
        if isinstance(row, RegisterInvocation):
            self._require_register(line, row)
            self.open[process] = True, self.registers.open(self.count, row)
        else:
            self._require_log(line, row)
            self.open[process] = False, self.log.open(self.count, row)
        self.count += 1
        self.last[process] = row.invoked

    def _require_log(self, line: int, row: InvocationRow) -> None:
        if row.f not in FUNCTIONS:
            raise self._error(line, f"f {row.f!r} is not one of {', '.join(FUNCTIONS)}")
        if row.f in ("send", "marker") and row.value is None:
            raise self._error(line, f"a {row.f} without a value")

    def _require_register(self, line: int, row: RegisterInvocation) -> None:
        if row.f not in REGISTER_FUNCTIONS:
            raise self._error(line, f"f {row.f!r} of a register is not one of {', '.join(REGISTER_FUNCTIONS)}")
        if row.f != "read" and row.value is None:
            raise self._error(line, f"a {row.f} without a value")
        if row.f == "cas" and row.expected is None:
            raise self._error(line, "a cas without an expected value")

    def _complete(self, line: int, row: Completion) -> None:
        process = row.process
        opened = self.open.pop(process, None)
        if opened is None:
            raise self._error(line, f"a completion of process {process} without an invocation")
        if row.completed < self.last[process]:
            raise self._error(line, f"time runs backwards within process {process}")
        on_register, place = opened
        if isinstance(row, RegisterCompletion) != on_register:
            raise self._error(line, f"a completion of process {process} of another kind than its invocation")
        self.last[process] = row.completed
        if row.type == "info":
            self.retired.add(process)
        if isinstance(row, RegisterCompletion):
            self.registers.ended[place] = row
            return
        if len(row.offsets) != len(row.values):
            raise self._error(line, f"{len(row.offsets)} offsets but {len(row.values)} values")
        self.log.ended[place] = row

    def _error(self, line: int, problem: str) -> IllFormedHistory:
        return IllFormedHistory(self.path, line, problem)


_OPEN: Final = CompletionRow(process=-1, type="info", completed=-1)
_OPEN_REGISTER: Final = RegisterCompletion(process=-1, type="info", completed=-1)


def _columns(header: SegmentHeader, operations: _Operations[InvocationRow, CompletionRow]) -> pa.Table:
    shift, count = header.clock_offset, len(operations.begun)
    begun, ended = operations.begun, [one or _OPEN for one in operations.ended]
    columns: dict[str, Any] = {
        "op_id": _ids(header, operations.numbers),
        "process": [one.process for one in begun],
        "client": [start.client if end.client is None else end.client for start, end in zip(begun, ended, strict=True)],
        "sequence": [one.sequence for one in ended],
        "f": [FUNCTIONS[one.f] for one in begun],
        "type": [TYPES[one.type] for one in ended],
        "topic": [one.topic for one in begun],
        "partition": [one.partition for one in begun],
        "at": [one.at + shift for one in begun],
        "invoked": [one.invoked + shift for one in begun],
        "completed": [None if one is None else one.completed + shift for one in operations.ended],
        "value": [one.value for one in begun],
        "offset": [one.offset for one in ended],
        "acks": [header.acks if one.acks is None else one.acks for one in begun],
        "idempotent": [
            next((said for said in (end.idempotent, start.idempotent) if said is not None), header.idempotent)
            for start, end in zip(begun, ended, strict=True)
        ],
        "session": [one.session for one in ended],
        "position": [one.position for one in ended],
        "leader_epoch": [one.leader_epoch for one in ended],
        "high_watermark": [one.high_watermark for one in ended],
        "log_start": [one.log_start for one in ended],
        "node": [one.node for one in ended],
        "error": [one.error for one in ended],
        "clock_id": np.full(count, header.clock_id, np.int16),
        "clock_error": np.full(count, header.clock_error, np.int64),
    }
    arrays = {name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}
    lengths = np.fromiter((len(one.offsets) for one in ended), np.int32, count)
    ends = pa.array(np.concatenate((np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32))))
    for name, runs in (("offsets", (one.offsets for one in ended)), ("values", (one.values for one in ended))):
        flat = np.fromiter(chain.from_iterable(runs), np.int64, int(lengths.sum()))
        arrays[name] = pa.ListArray.from_arrays(ends, pa.array(flat))
    return pa.table([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def _ids(header: SegmentHeader, numbers: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(numbers, dtype=np.int64) + (header.segment << SEGMENT_BITS)


def _register_columns(
    header: SegmentHeader, operations: _Operations[RegisterInvocation, RegisterCompletion]
) -> pa.Table:
    shift, count = header.clock_offset, len(operations.begun)
    begun, ended = operations.begun, [one or _OPEN_REGISTER for one in operations.ended]
    columns: dict[str, Any] = {
        "op_id": _ids(header, operations.numbers),
        "process": [one.process for one in begun],
        "register": [one.register for one in begun],
        "f": [REGISTER_FUNCTIONS[one.f] for one in begun],
        "type": [TYPES[one.type] for one in ended],
        "invoked": [one.invoked + shift for one in begun],
        "completed": [None if one is None else one.completed + shift for one in operations.ended],
        "value": [one.value for one in begun],
        "expected": [one.expected for one in begun],
        "found": [one.found for one in ended],
        "version": [one.version for one in ended],
        "refused": [one.refused for one in ended],
        "error": [one.error for one in ended],
        "clock_id": np.full(count, header.clock_id, np.int16),
        "clock_error": np.full(count, header.clock_error, np.int64),
    }
    arrays = [pa.array(values, REGISTER_SCHEMA.field(name).type) for name, values in columns.items()]
    return pa.table(arrays, schema=REGISTER_SCHEMA)
