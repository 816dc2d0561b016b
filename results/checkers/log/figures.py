"""Measure availability and lags of a huge topic-partition that is checked in slices (`slices.py`).

The median of gaps between acknowledgements and the 99th percentile of lags are those of the whole, not of its parts, so
one task measures them. It reads the columns that matter to them, and no value: in a log without suspicion, it only
needs to know which poll read an offset first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.observed import Closing, FinalRead, Slots, numbered_sessions
from squall.results.checkers.kernels.operations import NONE, Ints, Operations, Rows, UnusableRecords
from squall.results.checkers.kernels.stated_ends import contradicts_stated_ends
from squall.results.checkers.log.partition import PartOfTask, Task, figures
from squall.results.checkers.log.result import PartitionResult
from squall.results.checkers.log.slices import Slice, disagreement
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.parquet_files import read_columns

COLUMNS: Final = [
    "client",
    "f",
    "type",
    "invoked",
    "completed",
    "offset",
    "acks",
    "offsets",
    "high_watermark",
    "session",
    "log_start",
    "node",
    "clock_id",
    "clock_error",
]


class FiguresTask(PartOfTask, frozen=True, tag="figures"):
    """The task that measures the topic-partition that `whole` would check."""


@dataclass(frozen=True, eq=False)
class _Reads:
    """Which poll read each offset first (`series.FirstReads`), and how far the final read came."""

    operations: Operations
    slots: Slots
    record_key: Ints
    offset_key: Ints
    first_poll: Rows
    closing: Closing
    final: FinalRead

    @classmethod
    def of(cls, operations: Operations) -> _Reads:
        slots = Slots.of(operations)
        record_key, offset_key = slots.keys(operations.record_offset), slots.keys(operations.offset)
        values, final_values = np.full(len(slots), NONE, np.int64), np.full(len(slots), NONE, np.int64)
        first_poll = np.full(len(slots), -1, np.int32)
        _, records, last = loops.read_log(
            operations.f, operations.starts, record_key, slots.base, operations.record_value, operations.completed,
            values, first_poll, np.zeros(len(slots), np.bool_), final_values,
        )  # fmt: skip
        end = int(slots.offset(np.array([last]))[0]) if last >= 0 else -1
        closing = Closing.of(operations, max(end, -1))
        final = FinalRead.of(closing, final_values, records)
        return cls(operations, slots, record_key, offset_key, first_poll, closing, final)

    @cached_property
    def sessions(self) -> tuple[Rows, Ints]:
        return numbered_sessions(self.operations)


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """The result of a log without anomalies, and the facts that its slices had to know."""

    result: PartitionResult
    closing: Closing
    several_clocks: bool
    contradictory: bool
    """What polls state of the log cannot be true (R3), which slices see of their own polls only."""


def measure(task: FiguresTask) -> Measured:
    """Measure all of a log. Raises IllFormedHistory."""
    return measured_in(task.whole, read_columns(Path(task.path), COLUMNS, task.whole.row_groups))


def measured_in(whole: Task, table: pa.Table) -> Measured:
    """Measure rows that were read already. Raises IllFormedHistory."""
    try:
        operations = replace(Operations.without_values(table), keeps_front=whole.keeps_front)
    except UnusableRecords as trouble:
        raise IllFormedHistory(Path(whole.path), None, str(trouble)) from trouble
    began = time.perf_counter()
    reads = _Reads.of(operations)
    found = figures(whole, operations, reads, reads.final)
    found = msgspec.structs.replace(found, milliseconds=(time.perf_counter() - began) * 1000)
    return Measured(found, reads.closing, len(operations.doubt) > 0, contradicts_stated_ends(operations))


def settled(
    measured: Measured, closing: Closing, several_clocks: bool, slices: Sequence[Slice]
) -> PartitionResult | None:
    """Return the result of a log by its slices; None if it must be judged as a whole.

    The slices were computed with `closing` and `several_clocks`, which must agree with what was measured.
    """
    if measured.contradictory:
        return None
    if (measured.closing, measured.several_clocks) != (closing, several_clocks) or disagreement(slices) is not None:
        return None
    noted = {"unseen": slices[-1].unseen, "lost_unprotected": 0, "stale_log_ends": 0, "values_sent_twice": 0}
    took = measured.result.milliseconds + sum(one.milliseconds for one in slices)
    return msgspec.structs.replace(measured.result, noted=noted, milliseconds=took)
