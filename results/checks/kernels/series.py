"""Measurements of one topic-partition over time: throughput, latencies, errors, outages, how far readers lagged.

Tasks measure one topic-partition each, and the results have to be added up to a whole. Counts add up;
quantiles do not, histograms do: latencies are counted in classes two per cent wide, and quantiles are read off
the sum. Latency runs from when an operation was *meant* to start, so that a stalled client hides nothing.

An *outage* is a time without an acknowledged send although sends were wanted; the one that lasts to the end of
the load counts as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from squall.results.checks.kernels.observed import Observed
from squall.results.checks.kernels.operations import NEVER, OK, POLL, SEND, Flags, Ints, Operations

CLASS_WIDTH: Final = np.log(1.02)
SMALLEST_NS: Final = 1_000
SHORTEST_OUTAGE_NS: Final = 500_000_000


@dataclass(frozen=True)
class Frame:
    """The time axis: where it starts, how wide its buckets are, and when the load ended."""

    start: int
    width: int
    end: int

    def bucket(self, times: Ints) -> Ints:
        return (times - self.start) // self.width


def latency_class(nanoseconds: Ints) -> Ints:
    return np.ceil(np.log(np.maximum(nanoseconds, SMALLEST_NS) / SMALLEST_NS) / CLASS_WIDTH).astype(np.int64)


def class_nanoseconds(latency_class: int) -> float:
    """The upper edge of a class, so that a quantile is never flattered."""
    return float(SMALLEST_NS * np.exp(latency_class * CLASS_WIDTH))


Counts = list[tuple[int, int, int]]


def throughput(operations: Operations, frame: Frame) -> list[tuple[int, int, int, int]]:
    """(bucket, f, type, operations) by the time at which they ended."""
    ended = np.flatnonzero(operations.completed != NEVER)
    bucket = frame.bucket(operations.completed[ended])
    rows = np.stack((bucket, operations.f[ended], operations.type[ended]), axis=1)
    found, counts = np.unique(rows, axis=0, return_counts=True)
    return [(*row, count) for row, count in zip(found.tolist(), counts.tolist(), strict=True)]


def latencies(operations: Operations, frame: Frame) -> Counts:
    """(bucket, latency class, sends) of acknowledged sends, by the time at which they were meant to start."""
    done = np.flatnonzero((operations.f == SEND) & (operations.type == OK))
    bucket = frame.bucket(operations.at[done])
    classes = latency_class(operations.completed[done] - operations.at[done])
    keys, counts = np.unique(bucket << 32 | classes, return_counts=True)
    return [(key >> 32, key & 0xFFFFFFFF, count) for key, count in zip(keys.tolist(), counts.tolist(), strict=True)]


@dataclass(frozen=True)
class Availability:
    """How many sends were acknowledged, the longest time without one, and all outages (start, end)."""

    acknowledged: int
    longest: int
    longest_start: int
    outages: list[tuple[int, int]]


def availability(operations: Operations, frame: Frame) -> Availability:
    """Gaps between acknowledgements within the load, from its start and to its end."""
    sent = operations.f == SEND
    done = np.sort(operations.completed[sent & (operations.type == OK)])
    if not sent.any():
        return Availability(0, 0, frame.start, [])
    end = max(frame.end, frame.start)
    done_within = done[(done >= frame.start) & (done <= end)]
    edges = np.concatenate((np.array([frame.start]), done_within, np.array([end])))
    gaps = np.diff(edges)
    longest = int(np.argmax(gaps))
    usual = float(np.median(gaps)) if len(gaps) > 2 else 0.0
    long = np.flatnonzero(gaps >= max(SHORTEST_OUTAGE_NS, 5 * usual))
    return Availability(
        acknowledged=len(done),
        longest=int(gaps[longest]),
        longest_start=int(edges[longest]),
        outages=[(int(edges[gap]), int(edges[gap + 1])) for gap in long],
    )


def acknowledged_within(operations: Operations, start: int, end: int) -> int:
    """Sends acknowledged from `start` on and before `end`."""
    done = operations.completed[(operations.f == SEND) & (operations.type == OK)]
    return int(((done >= start) & (done < end)).sum())


def longest_gap_within(operations: Operations, start: int, end: int) -> int | None:
    """The longest time without an acknowledged send from `start` to `end`, in ns; None if nothing was sent, or no time.

    What began before, or goes on afterwards, counts with the part that lies within.
    """
    sent = operations.f == SEND
    if not sent.any() or end <= start:
        return None
    done = np.sort(operations.completed[sent & (operations.type == OK)])
    within = done[(done >= start) & (done <= end)]
    return int(np.diff(np.concatenate((np.array([start]), within, np.array([end])))).max())


def realtime_lag(operations: Operations, observed: Observed) -> Ints:
    """For every poll of a session but its first: how long its next record had been known when it began, in ns.

    A metric, never an anomaly: a Kafka consumer may lag.
    """
    polls = np.flatnonzero((operations.f == POLL) & (operations.type == OK))
    highest = np.full(len(operations.f), -1, np.int64)
    np.maximum.at(highest, operations.record_poll, operations.record_offset)
    session = operations.client[polls] << 32 | operations.session[polls]
    order = np.lexsort((operations.invoked[polls], session))
    polls, session = polls[order], session[order]
    if len(polls) == 0 or len(observed.slots) == 0:
        return np.zeros(0, np.int64)
    cursor = _carried(highest[polls], session)
    place = np.searchsorted(observed.slots.offsets, cursor + 1)
    nearest, known = _next_known(operations, observed)
    within = (cursor >= 0) & (place < len(nearest))
    target = nearest[np.minimum(place, len(nearest) - 1)]
    within &= target < len(known)
    since = known[np.minimum(target, len(known) - 1)]
    lag = operations.invoked[polls] - np.where(within, since, 0)
    return np.where(within & (lag > 0), lag, 0)[within | (cursor >= 0)]


def _carried(highest: Ints, session: Ints) -> Ints:
    """The last offset delivered to the session before each of its polls, -1 if there was none."""
    fresh = np.concatenate((np.array([True]), np.diff(session) != 0))
    before = np.concatenate((np.array([-1]), highest[:-1]))
    before[fresh] = -1
    group = np.cumsum(fresh) - 1
    spread = np.int64(highest.max(initial=0) + 2)
    return np.maximum.accumulate(before + group * spread) - group * spread


def _next_known(operations: Operations, observed: Observed) -> tuple[Ints, Ints]:
    """By slot: the first slot from there on that holds a record, and since when each was known to."""
    known = observed.first_read.copy()
    at = observed.slots.index(operations.offset[observed.acked])
    np.minimum.at(known, at, operations.completed[observed.acked])
    there: Flags = known != NEVER
    index = np.where(there, np.arange(len(known)), len(known))
    return np.minimum.accumulate(index[::-1])[::-1], known
