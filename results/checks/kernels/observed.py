"""The observed log of one topic-partition: which offset holds which value, by acknowledgements and by reads.

Offsets become *slots*: their index in the sorted array of all offsets seen. Where the offsets are dense, which
a healthy log's are, the slot is a subtraction, and everything below is linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squall.results.checks.kernels.operations import FINAL_POLL, MARKER, NEVER, NONE, OK, Flags, Ints, Operations


@dataclass(frozen=True)
class Slots:
    """All offsets of interest, sorted, and the way from an offset to its index."""

    offsets: Ints
    dense: bool

    @classmethod
    def of(cls, offsets: Ints) -> Slots:
        if len(offsets) == 0:
            return cls(np.zeros(0, np.int64), True)
        low, high = int(offsets.min()), int(offsets.max())
        if high - low + 1 <= 4 * len(offsets) + 1024:
            return cls(np.arange(low, high + 1, dtype=np.int64), True)
        return cls(np.unique(offsets), False)

    def __len__(self) -> int:
        return len(self.offsets)

    def index(self, offsets: Ints) -> Ints:
        """Of offsets that are among them."""
        if self.dense:
            return offsets - self.offsets[0] if len(self.offsets) else offsets
        return np.searchsorted(self.offsets, offsets)


@dataclass(frozen=True)
class FinalRead:
    """The read of the whole log after everything was healed, up to an acknowledged marker.

    It covers `start` to `end`; `complete` says that it reached the marker, so that whatever was acknowledged
    before `marker_invoked` and is not there is lost.
    """

    start: int
    end: int
    marker_offset: int
    marker_invoked: int
    complete: bool
    value: Ints  # by slot, NONE where it delivered nothing
    records: int

    def covers(self, offsets: Ints) -> Flags:
        return (offsets >= self.start) & (offsets <= self.end)


@dataclass(frozen=True)
class Observed:
    """What was seen of the log, by slot, and the distinct (offset, value) pairs that were read.

    `pair_poll` is the poll that returned the pair first. `conflicting` marks slots at which reads disagree.
    `writer` is the operation that sent the pair's value, -1 if there is none.
    """

    slots: Slots
    reads: Ints
    value: Ints
    first_read: Ints
    conflicting: Flags
    pair_offset: Ints
    pair_value: Ints
    pair_poll: Ints
    pair_writer: Ints
    acked: Ints  # indexes of sends acknowledged with an offset under acks=all
    log_start: int
    final: FinalRead

    @classmethod
    def of(cls, operations: Operations) -> Observed:
        acked = np.flatnonzero(operations.is_acked & (operations.offset != NONE))
        slots = Slots.of(np.concatenate((operations.record_offset, operations.offset[acked])))
        where = slots.index(operations.record_offset)
        reads = np.bincount(where, minlength=len(slots)).astype(np.int64)
        value = np.full(len(slots), NONE, np.int64)
        value[where[::-1]] = operations.record_value[::-1]
        conflicting = np.zeros(len(slots), np.bool_)
        conflicting[where[value[where] != operations.record_value]] = True
        first_read = np.full(len(slots), NEVER, np.int64)
        np.minimum.at(first_read, where, operations.completed[operations.record_poll])
        offsets, values, polls = _pairs(operations, where, conflicting, first_read)
        log_start = int(operations.log_start.max(initial=NONE))
        return cls(
            slots=slots,
            reads=reads,
            value=value,
            first_read=first_read,
            conflicting=conflicting,
            pair_offset=offsets,
            pair_value=values,
            pair_poll=polls,
            pair_writer=writers(operations, values),
            acked=acked,
            log_start=max(0, log_start),
            final=_final_read(operations, slots, where, max(0, log_start)),
        )

    @property
    def last_read_before(self) -> Ints:
        """By slot: the greatest smaller offset that somebody read, NONE if there is none."""
        seen = np.where(self.reads > 0, self.slots.offsets, NONE)
        before = np.concatenate((np.array([NONE]), seen))[: len(seen)]
        return np.maximum.accumulate(before) if len(before) else before


def writers(operations: Operations, values: Ints) -> Ints:
    """The operation that sent each value, -1 where there is none."""
    sends = np.flatnonzero(operations.is_send)
    if len(sends) == 0 or len(values) == 0:
        return np.full(len(values), -1, np.int64)
    sends = sends[np.argsort(operations.value[sends], kind="stable")]
    sent = operations.value[sends]
    place = np.minimum(np.searchsorted(sent, values), len(sent) - 1)
    return np.where(sent[place] == values, sends[place], -1)


def _pairs(operations: Operations, where: Ints, conflicting: Flags, first_read: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct (offset, value) pairs read, each with the poll that returned it first."""
    completed = operations.completed[operations.record_poll]
    plain = np.flatnonzero(~conflicting[where] & (completed == first_read[where]))
    _, once = np.unique(where[plain], return_index=True)
    records = [plain[once]]
    odd = np.flatnonzero(conflicting[where])
    if len(odd):
        odd = odd[np.lexsort((completed[odd], operations.record_value[odd], operations.record_offset[odd]))]
        offset, value = operations.record_offset[odd], operations.record_value[odd]
        fresh = np.concatenate((np.array([True]), (np.diff(offset) != 0) | (np.diff(value) != 0)))
        records.append(odd[fresh])
    chosen = np.concatenate(records)
    return operations.record_offset[chosen], operations.record_value[chosen], operations.record_poll[chosen]


def _final_read(operations: Operations, slots: Slots, where: Ints, log_start: int) -> FinalRead:
    final = operations.f[operations.record_poll] == FINAL_POLL
    value = np.full(len(slots), NONE, np.int64)
    value[where[final]] = operations.record_value[final]
    end = int(operations.record_offset[final].max(initial=-1))
    markers = np.flatnonzero((operations.f == MARKER) & (operations.type == OK) & (operations.offset != NONE))
    if len(markers) == 0:
        return FinalRead(log_start, end, -1, NONE, False, value, int(final.sum()))
    first = markers[np.argmin(operations.completed[markers])]
    marker = int(operations.offset[first])
    doubt = int(operations.clock_error[first] + operations.clock_error.max())  # when it began, by any other's clock
    return FinalRead(
        start=log_start,
        end=end,
        marker_offset=marker,
        marker_invoked=int(operations.invoked[first]) - doubt,
        complete=end >= marker,
        value=value,
        records=int(final.sum()),
    )
