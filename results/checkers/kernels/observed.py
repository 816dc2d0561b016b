"""Reconstruct the log of one topic-partition from acknowledgements and reads.

Offsets become *slots*: their index in the sorted array of all offsets seen. If the offsets are dense, as in a healthy
log, the slot is a subtraction, and everything below is linear.

A *pair* is an offset with a value that was read there. Nearly all pairs are those of a send that was acknowledged at
this very offset; an array by slot holds all facts about them. `unplaced` has the other pairs: appended sends of unknown
outcome, and everything that is wrong. Only these are searched for among the values that were sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.operations import (
    MARKER,
    NONE,
    OK,
    Flags,
    Ints,
    Operations,
    Rows,
)

NOWHERE = -1


@dataclass(frozen=True)
class Slots:
    """All offsets of interest, sorted, and the mapping from an offset to its index: from `low` on if they are dense."""

    low: int
    count: int
    listed: Ints | None = None

    @classmethod
    def of(cls, operations: Operations) -> Slots:
        """Collect what was delivered, or acknowledged under acks=all."""
        count, low, high = loops.acknowledged_extent(operations.f, operations.type, operations.acks, operations.offset)
        records = operations.record_offset
        if len(records):
            low, high = min(low, int(records.min())), max(high, int(records.max()))
        if count + len(records) == 0:
            return cls(0, 0)
        if high - low + 1 <= 4 * (count + len(records)) + 1024:
            return cls(low, high - low + 1)
        acked = operations.offset[_placed(operations)]
        listed = np.sort(np.concatenate((records, acked)))
        listed = listed[np.append(True, np.diff(listed) != 0)]
        return cls(int(listed[0]), len(listed), listed)

    def __len__(self) -> int:
        return self.count

    @property
    def base(self) -> int:
        """What must be subtracted from a key (`keys`) to get its slot."""
        return self.low if self.listed is None else 0

    def keys(self, offsets: Ints) -> Ints:
        """Map offsets to keys: slots plus `base`, without a copy if they are dense."""
        return offsets if self.listed is None else np.searchsorted(self.listed, offsets)

    def index(self, offsets: Ints) -> Ints:
        """Map offsets that are among these to slots."""
        return self.keys(offsets) - self.base

    def from_offset(self, offsets: Ints) -> Ints:
        """Map any offsets to the first slot at or beyond each; `count` if there is none."""
        if self.listed is None:
            return np.clip(offsets, self.low, self.low + self.count) - self.low
        return np.searchsorted(self.listed, offsets)

    def offset(self, slots: Ints) -> Ints:
        return slots + self.low if self.listed is None else self.listed[slots]

    def place(self, offset: int) -> int:
        """Return the slot of an offset, `NOWHERE` if it is not among these."""
        slot = int(self.from_offset(np.array([offset]))[0])
        return slot if slot < self.count and self.offset(np.array([slot]))[0] == offset else NOWHERE


@dataclass(frozen=True)
class Closing:
    """Where a log starts, and how far its final read came: the one made up to a marker after everything was healed.

    `complete` means that it reached the marker, so that a record that was acknowledged before `marker_invoked` and is
    not in it is lost. A log that is stated to start beyond that marker starts at it: no offset above is exempt from any
    rule.
    """

    start: int
    end: int
    marker_offset: int = -1
    marker_invoked: int = NONE
    complete: bool = False

    @classmethod
    def of(
        cls, operations: Operations, end: int, worst_doubt: int | None = None, log_start: int | None = None
    ) -> Closing:
        """Find the markers among all operations of a log; the final read came to `end`.

        Of several that were acknowledged the last one counts: those before it were removed before they were read.

        Times may be off by `worst_doubt`, and the log starts at `log_start`, if these are known from more operations
        than these.
        """
        start = operations.log_start if log_start is None else log_start
        markers = np.flatnonzero((operations.f == MARKER) & (operations.type == OK) & (operations.offset != NONE))
        if len(markers) == 0:
            return cls(start, end)
        last = markers[np.argmax(operations.completed[markers])]
        marker = int(operations.offset[last])
        doubt = 0  # the error of the marker's invocation, by any other clock
        if len(operations.doubt):
            doubt = int(operations.doubt[last] + (operations.doubt.max() if worst_doubt is None else worst_doubt))
        complete = end >= marker
        return cls(
            min(start, marker) if complete else start, end, marker, int(operations.invoked[last]) - doubt, complete
        )


@dataclass(frozen=True)
class FinalRead:
    """What the final read has; it covers `start` to `end`. The other fields are those of `Closing`."""

    start: int
    end: int
    marker_offset: int
    marker_invoked: int
    complete: bool
    value: Ints  # by slot, NONE where it delivered nothing
    records: int

    @classmethod
    def of(cls, closing: Closing, value: Ints, records: int) -> FinalRead:
        one = closing
        return cls(one.start, one.end, one.marker_offset, one.marker_invoked, one.complete, value, records)

    def covers(self, offsets: Ints) -> Flags:
        return (offsets >= self.start) & (offsets <= self.end)


@dataclass(frozen=True)
class Pairs:
    """Distinct (offset, value) pairs that were read.

    Each has the poll that returned it and ended first, and the operation that sent the value, -1 if there is none.
    """

    offset: Ints
    value: Ints
    poll: Ints
    writer: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def __getitem__(self, chosen: Flags | Ints | slice) -> Pairs:
        return Pairs(self.offset[chosen], self.value[chosen], self.poll[chosen], self.writer[chosen])

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        columns = self.offset, self.value, self.poll, self.writer
        yield from zip(*(one.tolist() for one in columns), strict=True)

    def followed_by(self, other: Pairs) -> Pairs:
        mine, others = ((one.offset, one.value, one.poll, one.writer) for one in (self, other))
        return Pairs(*(np.concatenate(both) for both in zip(mine, others, strict=True)))


@dataclass(frozen=True, eq=False)
class Observed:
    """What was observed of the log, by slot.

    `value` is the value read first, NONE without a read; `first_poll` is, of the operations that read the slot, the one
    that ended first, -1 without a read. `conflicting` marks slots at which reads disagree. `acknowledged` is the first
    append acknowledged there, -1 if none was; `acknowledged_again` counts further ones.
    """

    operations: Operations
    slots: Slots
    record_key: Ints
    offset_key: Ints
    value: Ints
    first_poll: Rows
    conflicting: Flags
    acknowledged: Rows
    acknowledged_again: int
    values_sent_twice: int
    unplaced: Pairs
    log_start: int
    final: FinalRead

    @classmethod
    def of(cls, operations: Operations, closing: Closing | None = None) -> Observed:
        """Collect what these operations observed. For a part of a log, `closing` is that of the whole."""
        slots = Slots.of(operations)
        record_key, offset_key = slots.keys(operations.record_offset), slots.keys(operations.offset)
        value, final_value = np.full(len(slots), NONE, np.int64), np.full(len(slots), NONE, np.int64)
        first_poll, acknowledged = np.full(len(slots), -1, np.int32), np.full(len(slots), -1, np.int32)
        conflicting = np.zeros(len(slots), np.bool_)
        columns = operations.f, operations.type, operations.acks, operations.offset
        conflicts, final_records, final_slot = loops.read_log(
            operations.f, operations.starts, record_key, slots.base, operations.record_value, operations.completed,
            value, first_poll, conflicting, final_value,
        )  # fmt: skip
        again = loops.first_acknowledged(*columns, offset_key, slots.base, acknowledged)
        twice = _sent_twice(operations)
        plain = loops.unexplained(value, first_poll, conflicting, acknowledged, operations.value, twice == 0)
        unplaced = _paired(operations, slots.offset(plain), value[plain], first_poll[plain])
        if conflicts:
            unplaced = unplaced.followed_by(
                _disagreeing(operations, slots.index(operations.record_offset), conflicting)
            )
        end = int(slots.offset(np.array([final_slot]))[0]) if final_slot >= 0 else -1
        closing = Closing.of(operations, max(end, -1)) if closing is None else closing
        return cls(
            operations=operations,
            slots=slots,
            record_key=record_key,
            offset_key=offset_key,
            value=value,
            first_poll=first_poll,
            conflicting=conflicting,
            acknowledged=acknowledged,
            acknowledged_again=again,
            values_sent_twice=twice,
            unplaced=unplaced,
            log_start=closing.start,
            final=FinalRead.of(closing, final_value, final_records),
        )

    @cached_property
    def acked(self) -> Ints:
        """Sends acknowledged with an offset under acks=all."""
        return np.flatnonzero(_placed(self.operations))

    @property
    def read(self) -> Flags:
        """By slot: whether it was read."""
        return self.first_poll >= 0

    @cached_property
    def last_read_before(self) -> Ints:
        """By slot: the greatest smaller offset that was read, NONE if there is none."""
        return self._last_before(self.read)

    @cached_property
    def last_kept_before(self) -> Ints:
        """By slot: the greatest smaller offset that a final poll may not pass over, NONE if there is none.

        It was read, and it is not lost if a final poll leaves it out: another final poll has it, or it lies below the
        log start.
        """
        below = self.slots.offset(np.arange(len(self.slots))) < self.log_start
        return self._last_before((self.final.value != NONE) | (self.read & below))

    def _last_before(self, chosen: Flags) -> Ints:
        offset = np.where(chosen, self.slots.offset(np.arange(len(self.slots))), NONE)
        before = np.concatenate((np.array([NONE]), offset))[: len(offset)]
        return np.maximum.accumulate(before) if len(before) else before

    @cached_property
    def sessions(self) -> tuple[Rows, Ints]:
        """By operation, the number of its session, and by number, its key; -1 if it neither polls nor delivers."""
        return numbered_sessions(self.operations)

    def pairs_at(self, offset: int) -> Pairs:
        """Return what was read at an offset."""
        slot = self.slots.place(offset)
        if slot == NOWHERE or self.first_poll[slot] < 0:
            return self.unplaced[:0]
        found = self.unplaced[self.unplaced.offset == offset]
        return found if len(found) else self._placed_pairs(np.array([slot]))

    def pairs_of(self, slots: Ints) -> Pairs:
        """Return what was read at some slots, which are in ascending order."""
        odd = self.unplaced[np.isin(self.unplaced.offset, self.slots.offset(slots))]
        odd_slots = self.slots.index(odd.offset)
        placed = slots[(self.first_poll[slots] >= 0) & ~np.isin(slots, odd_slots)]
        plain = ~self.conflicting[odd_slots]
        agreed = self._placed_pairs(placed).followed_by(odd[plain])
        return agreed[np.argsort(agreed.offset, kind="stable")].followed_by(odd[~plain])

    def _placed_pairs(self, slots: Ints) -> Pairs:
        poll, writer = self.first_poll[slots].astype(np.int64), self.acknowledged[slots].astype(np.int64)
        return Pairs(self.slots.offset(slots), self.value[slots], poll, writer)

    def is_read_at(self, offsets: Ints, values: Ints) -> Flags:
        """Whether each value was read at its offset, which is among the slots."""
        slot = self.slots.index(offsets)
        here: Flags = self.read[slot] & (self.value[slot] == values)
        odd = np.flatnonzero(self.conflicting[slot])
        if len(odd):
            pairs = set(zip(self.unplaced.offset.tolist(), self.unplaced.value.tolist(), strict=True))
            here[odd] = [pair in pairs for pair in zip(offsets[odd].tolist(), values[odd].tolist(), strict=True)]
        return here


def numbered_sessions(operations: Operations) -> tuple[Rows, Ints]:
    """By operation, the number of its session, and by number, its key; -1 if it neither polls nor delivers."""
    one = operations
    numbers, keys = loops.numbered_sessions(one.f, one.starts, one.client, one.session)
    return numbers, keys


def writers(operations: Operations, values: Ints) -> Ints:
    """The operation that sent each value, the first if there are several, -1 if there is none."""
    found: Ints = loops.first_places(values, operations.value, operations.f)
    return found


def _placed(operations: Operations) -> Flags:
    return operations.is_acked & (operations.offset != NONE)


def _sent_twice(operations: Operations) -> int:
    """The number of values that had been sent before."""
    if loops.counts_up(operations.f, operations.value):
        return 0
    values = np.sort(operations.value[operations.is_send])
    return int((values[1:] == values[:-1]).sum())


def _paired(operations: Operations, offset: Ints, value: Ints, poll: Ints | Rows) -> Pairs:
    return Pairs(offset, value, poll.astype(np.int64), writers(operations, value))


def _disagreeing(operations: Operations, where: Ints, conflicting: Flags) -> Pairs:
    """The pairs at slots where reads disagree."""
    odd = np.flatnonzero(conflicting[where])
    completed = operations.completed[operations.polls_of(odd)]
    odd = odd[np.lexsort((completed, operations.record_value[odd], operations.record_offset[odd]))]
    offset, value = operations.record_offset[odd], operations.record_value[odd]
    fresh = np.concatenate((np.array([True]), (np.diff(offset) != 0) | (np.diff(value) != 0)))
    odd = odd[fresh]
    return _paired(operations, offset[fresh], value[fresh], operations.polls_of(odd))
