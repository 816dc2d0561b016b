"""Measure one topic-partition over time: throughput, latencies, errors, outages, reader lag.

Tasks measure one topic-partition each, and the results must be added up. Counts add up; quantiles do not, histograms
do: latencies are counted in classes one per cent wide, and quantiles are read off the sum. Load workers count in the
same classes (`workloads/core/latency.py`), so the end of a load and the check of its history report the same. Latency
runs from the *intended* start of an operation, so that a stalled client hides nothing.

Not hdrhistogram: its Python package records one value a call, not an array.

An *outage* is a time without an acknowledged send although sends were wanted; one that lasts to the end of the load
counts as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

import numpy as np

from squall.results.checkers.common.tally import Tally
from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.observed import Slots
from squall.results.checkers.kernels.operations import NEVER, OK, SEND, Ints, Operations, Rows

CLASS_RATIO: Final = 1.01
SMALLEST_NS: Final = 1_000
SHORTEST_OUTAGE_NS: Final = 500_000_000
SMALL_TABLE: Final = 4096
BITS_OF_A_CODE: Final = 8
A_CODE: Final = (1 << BITS_OF_A_CODE) - 1
"""Mask of the byte of an `f` or a `type`."""
BITS_OF_A_CLASS: Final = 32


@dataclass(frozen=True)
class Frame:
    """The time axis: where it starts, how wide its buckets are, and when the load ended."""

    start: int
    width: int
    end: int

    def bucket(self, times: Ints) -> Ints:
        return (times - self.start) // self.width

    def bucket_of(self, time: int) -> int:
        return (time - self.start) // self.width


@cache
def class_edges() -> Ints:
    """The longest latency of each class, in ns: integers, so that all counters put a latency into the same class."""
    edges = [SMALLEST_NS]
    while (edge := int(SMALLEST_NS * CLASS_RATIO ** len(edges))) < NEVER:
        edges.append(edge)
    return np.array([*edges, NEVER])


def latency_class(nanoseconds: Ints) -> Ints:
    """The first class whose edge a latency does not exceed."""
    return np.searchsorted(class_edges(), nanoseconds).astype(np.int64)


def class_nanoseconds(latency_class: int) -> float:
    """The upper edge of a class, so that a quantile is never too low."""
    return float(class_edges()[latency_class])


def throughput(operations: Operations, frame: Frame) -> Tally:
    """Count operations by bucket, `f` and `type` (`ended_as`), by the time at which they ended."""
    first, last = loops.extent(operations.completed, NEVER)
    if first > last:
        return Tally()
    kinds = np.array(sorted((f & A_CODE) << BITS_OF_A_CODE | kind & A_CODE for f, kind in operations.tally))
    column = np.zeros(int(kinds[-1]) + 1, np.int32)
    column[kinds] = np.arange(len(kinds))
    first, last = frame.bucket_of(first), frame.bucket_of(last)
    if too_many(last - first + 1, len(kinds), len(operations)):
        return _throughput_by_sorting(operations, frame)
    counts = loops.counted_by_time(
        operations.f, operations.type, operations.completed, column, len(kinds), frame.start, frame.width, first,
        last - first + 1,
    )  # fmt: skip
    bucket, kind, counts = _cells(counts)
    return Tally.of((first + bucket) << 2 * BITS_OF_A_CODE | kinds[kind], counts)


def _cells(counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Row, column and value of the nonzero cells of a table; faster than numpy's search with two indices."""
    flat = counts.ravel()
    places = np.flatnonzero(flat)
    row, column = np.divmod(places, counts.shape[1])
    return row, column, flat[places]


def _throughput_by_sorting(operations: Operations, frame: Frame) -> Tally:
    ended = np.flatnonzero(operations.completed != NEVER)
    f, kind = (one[ended].astype(np.int64) & A_CODE for one in (operations.f, operations.type))
    kinds = f << BITS_OF_A_CODE | kind
    bucket = frame.bucket(operations.completed[ended])
    return Tally.of(*np.unique(bucket << 2 * BITS_OF_A_CODE | kinds, return_counts=True))


def ended_as(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """The bucket, `f` and `type` that a key of `throughput` stands for."""
    return keys >> 2 * BITS_OF_A_CODE, keys >> BITS_OF_A_CODE & A_CODE, keys & A_CODE


def latencies(operations: Operations, frame: Frame) -> Tally:
    """Count acknowledged sends by the bucket of their intended start and class of latency (`bucket_and_class`)."""
    first, last, least, greatest = loops.acknowledged_sends_extent(
        operations.f, operations.type, operations.at, operations.completed
    )
    if first > last:
        return Tally()
    first, last = frame.bucket_of(first), frame.bucket_of(last)
    lowest, highest = latency_class(np.array([least, greatest])).tolist()
    if too_many(last - first + 1, highest - lowest + 1, len(operations)):
        return _latencies_by_sorting(operations, frame)
    counts = loops.counted_by_latency(
        operations.f, operations.type, operations.at, operations.completed, frame.start, frame.width, first,
        last - first + 1, class_edges()[lowest : highest + 1],
    )  # fmt: skip
    bucket, latency, counts = _cells(counts)
    return Tally.of((first + bucket) << BITS_OF_A_CLASS | lowest + latency, counts)


def _latencies_by_sorting(operations: Operations, frame: Frame) -> Tally:
    done = np.flatnonzero((operations.f == SEND) & (operations.type == OK))
    bucket = frame.bucket(operations.at[done])
    classes = latency_class(operations.completed[done] - operations.at[done])
    return Tally.of(*np.unique(bucket << BITS_OF_A_CLASS | classes, return_counts=True))


def bucket_and_class(keys: Ints) -> tuple[Ints, Ints]:
    """The bucket and class of latency that a key of `latencies` stands for."""
    return keys >> BITS_OF_A_CLASS, keys & (1 << BITS_OF_A_CLASS) - 1


def too_many(buckets: int, columns: int, operations: int) -> bool:
    """Whether a table of all combinations would be much larger than the operations that are counted in it."""
    return buckets * columns > 4 * operations + SMALL_TABLE


@dataclass(frozen=True)
class Availability:
    """The number of acknowledged sends, the longest time without one, and all outages (start, end)."""

    acknowledged: int
    longest: int
    longest_start: int
    outages: list[tuple[int, int]]


def availability(operations: Operations, frame: Frame) -> Availability:
    """Measure gaps between acknowledgements within the load, from its start and to its end."""
    done = operations.acknowledged_at
    if not (operations.f == SEND).any():
        return Availability(0, 0, frame.start, [])
    end = max(frame.end, frame.start)
    edges = np.concatenate((np.array([frame.start]), _within(done, frame.start, end), np.array([end])))
    gaps = np.diff(edges)
    longest = int(np.argmax(gaps))
    long = np.flatnonzero(gaps >= SHORTEST_OUTAGE_NS)
    if len(long) and len(gaps) > 2:
        long = long[gaps[long] >= 5 * float(np.median(gaps))]
    return Availability(
        acknowledged=len(done),
        longest=int(gaps[longest]),
        longest_start=int(edges[longest]),
        outages=[(int(edges[gap]), int(edges[gap + 1])) for gap in long],
    )


def acknowledged_within(operations: Operations, start: int, end: int) -> int:
    """The number of sends acknowledged from `start` on and before `end`."""
    begin, until = np.searchsorted(operations.acknowledged_at, [start, end])
    return max(0, int(until - begin))


def longest_gap_within(operations: Operations, start: int, end: int) -> int | None:
    """The longest time without an acknowledged send from `start` to `end`, in ns; None if nothing was sent, or no time.

    A gap that begins before or ends afterwards counts with its part in between.
    """
    if end <= start or not (operations.f == SEND).any():
        return None
    within = _within(operations.acknowledged_at, start, end)
    return int(np.diff(np.concatenate((np.array([start]), within, np.array([end])))).max())


def _within(times: Ints, start: int, end: int) -> Ints:
    """The part of sorted times from `start` to `end`."""
    return times[np.searchsorted(times, start) : np.searchsorted(times, end, side="right")]


class FirstReads(Protocol):
    """Which poll read each slot first, and which session each operation is of (`observed.py`)."""

    @property
    def slots(self) -> Slots: ...
    @property
    def record_key(self) -> Ints: ...
    @property
    def offset_key(self) -> Ints: ...
    @property
    def first_poll(self) -> Rows: ...
    @property
    def sessions(self) -> tuple[Rows, Ints]: ...


def realtime_lag(operations: Operations, reads: FirstReads) -> Ints:
    """For every poll of a session but its first: how long its next record had been known when it began, in ns.

    A metric, never an anomaly: a Kafka consumer may lag.
    """
    numbers, keys = reads.sessions
    slots = reads.slots
    found: Ints = loops.lags(
        operations.f, operations.type, operations.acks, operations.offset, reads.offset_key, operations.starts,
        reads.record_key, slots.base, operations.invoked, operations.completed, operations.in_order, numbers,
        len(keys), reads.first_poll, int(slots.from_offset(np.array([0]))[0]),
    )  # fmt: skip
    return found
