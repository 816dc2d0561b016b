"""Check R1: real time. No operation may show less of the log than one that had ended before it began.

Every operation has a `low` and a `high` key of the log state it is compatible with: an append at offset o exactly 2·o,
a read that saw offset m at least 2·m + 1, a response "the log ends at h" exactly 2·(h-1) + 1. If reads must be
linearizable, a poll that states an end has such a key, too, and the end must not lie below what that very poll
delivers. The history violates real time if and only if some x ended before some y began and low(x) > high(y). Sort the
ends of the x, keep the running maximum of their low keys, look up each y: n log n, no search.

The class of a violation follows from the two kinds: a later append below an earlier one (`rt_order`), an append below
what had already been read (`future_read`), a stated log end below an acknowledged append (`stale_read`) or below an
earlier log end (`hw_regress`).

**Stated log ends and leader epochs.** A deposed leader that does not know it yet may state an end that is no longer
true: what clients see of a Kafka log is a prefix, not always the newest (HX-07). But a leader states no end until it
has committed as much as its predecessors (KIP-207), and its own never goes back. So a response under epoch e is checked
against every earlier response under e or an earlier epoch.

For a record, readers report the epoch of its *append*, and it may have been committed long after: a leader of epoch e
that is cut off keeps a high watermark below what it appended last, while its successor commits that, and serves it as
of epoch e. Nor must the leader of a later epoch have it at all, if it was elected without it and never committed
anything. A response under epoch e is therefore checked against a record

* of an epoch below e, if a record of e itself was read: its leader had, when it was elected, all that lies in the log
  of earlier epochs;
* of e or an epoch below, if a record of e was read whose send began when the first had been acknowledged or read: its
  leader still led then, and no later leader had committed anything. For what is appended after the election of a
  successor is in no log that the successor's commits reach.

A poll states the epoch of the last record that it delivered. Epochs never go back along a log, so that all records
before it are of that epoch or an earlier one and all beyond it of that one or a later; all polls together bound the
epoch of each record from both sides (`LeaderEpochs`). A record counts as one of an epoch if both bounds are that epoch,
and is compared with a response by its upper bound: a violation that rests on these is certain. Other stale ends are
allowed, and counted (`stale_log_ends`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.observed import Observed
from squall.results.checkers.kernels.operations import NEVER, NONE, Flags, Ints, Operations

CLASSES: Final = ("rt_order", "future_read", "stale_read", "hw_regress")
"""In the order in which the loop counts them."""


@dataclass(frozen=True)
class Bounds:
    """Operations with their keys and their times, widened by the error of their clock."""

    index: Ints
    low: Ints
    high: Ints
    began: Ints
    ended: Ints

    def __getitem__(self, chosen: Flags) -> Bounds:
        return Bounds(self.index[chosen], self.low[chosen], self.high[chosen], self.began[chosen], self.ended[chosen])

    @classmethod
    def of(cls, operations: Operations, index: Ints, low: Ints, high: Ints, ended: Ints) -> Bounds:
        """Make the bounds of the operations of `index`, each with its keys and its end."""
        error = operations.clock_error[index]
        return cls(
            index=index,
            low=low,
            high=high,
            began=operations.invoked[index] - error,
            ended=np.where(ended == NEVER, NEVER, np.where(ended == NEVER, 0, ended) + error),
        )


@dataclass(frozen=True)
class Violations:
    """The number of operations that came too late for what they show, and the first of them by time.

    Each as (earlier operation, later operation, low key of the former, high key of the latter).
    """

    total: int
    first: list[tuple[int, int, int, int]]


@dataclass(frozen=True)
class Suspects:
    """Of the operations that came too late for what they show: the lowest high key, and when the last of them began."""

    lowest: int
    latest: int


def real_time_suspects(
    operations: Operations,
    observed: Observed,
    lost: Flags,
    shown: Ints,
    shown_offset: Ints,
    shown_ended: Ints,
    stating: Ints,
) -> dict[str, Suspects]:
    """By class with any violations: where to search for them.

    `shown` are appends that are in the log only because a read shows them, `stating` reads whose stated log end is
    checked.
    """
    slots, end = observed.slots, operations.high_watermark
    states = np.zeros(len(operations) if len(stating) else 0, np.bool_)
    states[stating] = True
    table = loops.real_time_suspects(
        operations.f, operations.type, operations.acks, operations.offset, observed.offset_key, slots.base,
        operations.starts, observed.record_key, operations.invoked, operations.completed, operations.doubt, lost,
        len(slots), shown, slots.index(shown_offset), shown_ended, stating, slots.from_offset(end[stating]), end,
        states,
    )  # fmt: skip
    found = {}
    for rule, (total, lowest, latest) in zip(CLASSES, table.tolist(), strict=True):
        if total:
            stated = rule in ("stale_read", "hw_regress")
            key = 2 * (lowest - 1) + 1 if stated else 2 * int(slots.offset(np.array([lowest]))[0])
            found[rule] = Suspects(key, latest)
    if _unknown_ends_regress(operations, observed, stating, states):
        began = operations.invoked[stating] - operations.clock_error[stating]
        found["hw_regress"] = Suspects(2 * (int(end[stating].min()) - 1) + 1, int(began.max()))
    return found


def _unknown_ends_regress(operations: Operations, observed: Observed, stating: Ints, states: Flags) -> bool:
    """Whether a stated log end lies below an earlier one, and no record is known between them."""
    if len(stating) == 0:
        return False
    last = operations.high_watermark[stating] - 1
    slot = observed.slots.from_offset(last)
    known = slot < len(observed.slots)
    known[known] = observed.slots.offset(slot[known]) == last[known]
    unknown = states[stating] & ~known & (last > last.min())
    if not unknown.any():
        return False
    key = 2 * last + 1
    ends = Bounds.of(operations, stating, key, key, operations.completed[stating])
    return violations(ends[unknown], ends, 0).total > 0


@dataclass(frozen=True)
class LeaderEpochs:
    """By slot, the lowest and highest leader epoch that its record may have: `NONE` and `NEVER` if unknown.

    `stated` is what polls state themselves, as slots and the epochs there.
    """

    lowest: Ints
    highest: Ints
    stated: tuple[Ints, Ints]

    @classmethod
    def of(cls, operations: Operations, observed: Observed) -> LeaderEpochs:
        polls = np.flatnonzero((np.diff(operations.starts) > 0) & (operations.leader_epoch != NONE))
        last = observed.slots.index(operations.record_offset[operations.starts[polls + 1] - 1])
        epoch = operations.leader_epoch[polls]
        lowest, highest = np.full(len(observed.slots), NONE, np.int64), np.full(len(observed.slots), NEVER, np.int64)
        np.maximum.at(lowest, last, epoch)
        np.minimum.at(highest, last, epoch)
        return cls(np.maximum.accumulate(lowest), np.minimum.accumulate(highest[::-1])[::-1], (last, epoch))

    def last_begun(self, operations: Operations, observed: Observed) -> dict[int, int]:
        """By leader epoch of which a record was read: when the last send that is known to be of it began."""
        writer = observed.acknowledged.astype(np.int64)
        writer[observed.slots.index(observed.unplaced.offset)] = observed.unplaced.writer
        between = np.flatnonzero(observed.read & (self.lowest == self.highest))
        writer = writer[np.concatenate((between, self.stated[0]))]
        epoch = np.concatenate((self.lowest[between], self.stated[1]))
        began = np.where(writer < 0, NONE, operations.invoked[writer] - operations.clock_error[writer])
        return {int(one): int(began[epoch == one].max()) for one in np.unique(epoch)}


@dataclass(frozen=True)
class Epochs:
    """The facts about leader epochs.

    `highest` is the highest epoch that each earlier operation may belong to, `NEVER` if unknown, and `states_end` marks
    those that are stated log ends. `answered` is the epoch of each later response, `NONE` if unknown. `begun` is, by
    epoch of which a record was read, when the last send that is known to have been appended under it began.
    """

    highest: Ints
    states_end: Flags
    answered: Ints
    begun: dict[int, int]

    def bind(self, earlier: Bounds, epoch: int) -> Flags:
        """Which of the earlier operations a response under an epoch must reflect."""
        last = self.begun.get(epoch, NONE)
        known = self.states_end | (earlier.ended < last)
        return (known & (self.highest <= epoch)) | ((self.highest < epoch) & (epoch in self.begun))


def certain_under_epochs(earlier: Bounds, later: Bounds, epochs: Epochs, most: int) -> Violations:
    """Of the violations between `earlier` and `later`, those that the epochs make certain; up to `most` in detail."""
    total, found = 0, []
    stating = later.high != NEVER
    later, answered = later[stating], epochs.answered[stating]
    for epoch in np.unique(answered[answered != NONE]).tolist():
        certain = violations(earlier[epochs.bind(earlier, epoch)], later[answered == epoch], most)
        total += certain.total
        found += certain.first
    return Violations(total, found[:most])


def violations(earlier: Bounds, later: Bounds, most: int) -> Violations:
    bounded = np.flatnonzero(later.high != NEVER)
    over = np.flatnonzero(earlier.ended != NEVER)
    if len(bounded) == 0 or len(over) == 0:
        return Violations(0, [])
    bounded = bounded[np.argsort(later.began[bounded], kind="stable")]
    over = over[np.argsort(earlier.ended[over], kind="stable")]
    low = earlier.low[over]
    highest = np.maximum.accumulate(low)
    count = np.searchsorted(earlier.ended[over], later.began[bounded], side="left")
    wrong = np.flatnonzero((count > 0) & (highest[np.maximum(count, 1) - 1] > later.high[bounded]))
    found = []
    for place in wrong[:most].tolist():
        second = bounded[place]
        first = over[int(np.argmax(low[: count[place]]))]
        found.append(
            (int(earlier.index[first]), int(later.index[second]), int(earlier.low[first]), int(later.high[second]))
        )
    return Violations(len(wrong), found)
