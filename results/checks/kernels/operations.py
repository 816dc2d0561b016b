"""The operations of one topic-partition as numpy arrays: what every kernel starts from.

Nulls become sentinels here, once: `NEVER` for times that did not come, `NONE` for numbers nobody stated. The
records of all polls lie flat in three arrays (offset, value, index of the poll).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).max
NONE: Final = np.iinfo(np.int64).min

SEND: Final = 0
POLL: Final = 1
LIST_OFFSETS: Final = 2
MARKER: Final = 3
FINAL_POLL: Final = 4

OK: Final = 0
FAIL: Final = 1
INFO: Final = 2

ACKS_ALL: Final = -1


@dataclass(frozen=True)
class Operations:
    """Columns of the history, one element per operation, and the flat records."""

    f: Ints
    type: Ints
    process: Ints
    client: Ints
    sequence: Ints
    at: Ints
    invoked: Ints
    completed: Ints
    value: Ints
    offset: Ints
    acks: Ints
    idempotent: Flags
    session: Ints
    leader_epoch: Ints
    high_watermark: Ints
    log_start: Ints
    clock_error: Ints
    record_offset: Ints
    record_value: Ints
    record_poll: Ints

    @classmethod
    def from_table(cls, table: pa.Table) -> Operations:
        """From rows of one topic-partition, sorted by invocation."""
        offsets = table["offsets"].combine_chunks()
        lengths = np.asarray(pc.list_value_length(offsets)).astype(np.int64)
        several_clocks = len(np.unique(np.asarray(table["clock_id"]))) > 1
        error = _numbers(table, "clock_error", 0)
        return cls(
            f=_numbers(table, "f", NONE),
            type=_numbers(table, "type", INFO),
            process=_numbers(table, "process", NONE),
            client=_numbers(table, "client", NONE),
            sequence=_numbers(table, "sequence", NONE),
            at=_numbers(table, "at", NONE),
            invoked=_numbers(table, "invoked", NONE),
            completed=_numbers(table, "completed", NEVER),
            value=_numbers(table, "value", NONE),
            offset=_numbers(table, "offset", NONE),
            acks=_numbers(table, "acks", ACKS_ALL),
            idempotent=np.asarray(table["idempotent"], dtype=np.bool_),
            session=_numbers(table, "session", 0),
            leader_epoch=_epochs(table),
            high_watermark=_numbers(table, "high_watermark", NONE),
            log_start=_numbers(table, "log_start", NONE),
            clock_error=error if several_clocks else np.zeros_like(error),
            record_offset=np.asarray(offsets.flatten(), dtype=np.int64),
            record_value=np.asarray(table["values"].combine_chunks().flatten(), dtype=np.int64),
            record_poll=np.repeat(np.arange(len(lengths)), lengths),
        )

    @property
    def is_send(self) -> Flags:
        """Sends and markers: whatever appends a record."""
        return (self.f == SEND) | (self.f == MARKER)

    @property
    def is_poll(self) -> Flags:
        return (self.f == POLL) | (self.f == FINAL_POLL)

    @property
    def is_acked(self) -> Flags:
        """Appends whose success was answered under acks=all: what must never be lost."""
        return self.is_send & (self.type == OK) & (self.acks == ACKS_ALL)


def _epochs(table: pa.Table) -> Ints:
    """Leader epochs; clients say -1 for one they do not know."""
    epochs = _numbers(table, "leader_epoch", NONE)
    return np.where(epochs < 0, NONE, epochs)


def _numbers(table: pa.Table, name: str, null: int) -> Ints:
    column = table[name]
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), null)
    return np.asarray(column, dtype=np.int64)
