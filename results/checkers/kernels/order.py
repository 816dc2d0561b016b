"""Check S3 and R1: the order of an idempotent client's sends, and real time (see `log.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.findings import WITNESSES, Finding, Findings
from squall.results.checkers.kernels.observed import Observed, Pairs
from squall.results.checkers.kernels.operations import LIST_OFFSETS, NEVER, NONE, OK, Flags, Ints, Operations
from squall.results.checkers.kernels.realtime import (
    Bounds,
    Epochs,
    LeaderEpochs,
    Suspects,
    certain_under_epochs,
    real_time_suspects,
    violations,
)


def check_send_order(operations: Operations, observed: Observed, lost: Flags, findings: Findings) -> None:
    """Check that what an idempotent client sent later lies later: where acknowledged, else where a read shows it."""
    clients = loops.disorderly_clients(
        operations.f, operations.type, operations.acks, operations.idempotent, operations.client, operations.sequence,
        operations.offset, lost,
    )  # fmt: skip
    shown = _shown_in_one_place(operations, observed)
    if len(clients) == 0 and len(shown) == 0:
        return
    clients = np.concatenate((clients, operations.client[shown.writer]))
    placed = observed.acked[np.isin(operations.client[observed.acked], clients)]
    sends = np.concatenate((placed, shown.writer))
    offset = np.concatenate((operations.offset[placed], shown.offset))
    counted = operations.idempotent[sends] & (operations.sequence[sends] != NONE) & ~lost[sends]
    sends, offset = sends[counted], offset[counted]
    order = np.lexsort((operations.sequence[sends], operations.client[sends]))
    sends, offset = sends[order], offset[order]
    same = np.diff(operations.client[sends]) == 0
    wrong = np.flatnonzero(same & (np.diff(offset) <= 0))
    found = [
        Finding(
            "nonmonotonic_send",
            int(offset[place + 1]),
            (("writer", int(sends[place])), ("writer", int(sends[place + 1]))),
            (int(operations.value[sends[place]]), int(operations.value[sends[place + 1]])),
            int(offset[place]),
        )
        for place in wrong[:WITNESSES]
    ]
    findings.add("nonmonotonic_send", len(wrong), found)


def _shown_in_one_place(operations: Operations, observed: Observed) -> Pairs:
    """Idempotent sends with a sequence number that were acknowledged without an offset, each where reads show it.

    Sends that reads show in several places are left to `duplicate` and `inconsistent_offset`.
    """
    pairs = observed.unplaced[observed.unplaced.writer >= 0]
    sent = pairs.writer
    wanted = operations.is_acked[sent] & (operations.offset[sent] == NONE) & operations.idempotent[sent]
    pairs = pairs[wanted & (operations.sequence[sent] != NONE)]
    if len(pairs) == 0:
        return pairs
    _, first, times = np.unique(pairs.writer, return_index=True, return_counts=True)
    return pairs[first[times == 1]]


@dataclass(frozen=True)
class _Shown:
    """Appends that a read shows where no acknowledgement puts them, and when they ended at the latest.

    These are appended sends of unknown outcome, sends acknowledged without an offset, and the copies that a producer
    without idempotence makes: none was there before its send began. Such a copy of an idempotent send is a `duplicate`.
    """

    send: Ints
    offset: Ints
    ended: Ints

    @classmethod
    def of(cls, operations: Operations, observed: Observed) -> _Shown:
        pairs = observed.unplaced[observed.unplaced.writer >= 0]
        acked, stated = operations.is_acked[pairs.writer], operations.offset[pairs.writer]
        copy = ~operations.idempotent[pairs.writer] & (stated != pairs.offset)
        pairs = pairs[~acked | (stated == NONE) | copy]
        answered = operations.is_acked[pairs.writer] & (operations.offset[pairs.writer] == NONE)
        if (answered & ~operations.idempotent[pairs.writer]).any():
            answered &= operations.idempotent[pairs.writer] | _first_places(pairs, observed)
        return cls(pairs.writer, pairs.offset, np.where(answered, operations.completed[pairs.writer], NEVER))


def _first_places(pairs: Pairs, observed: Observed) -> Flags:
    """By pair: whether its value certainly lies lower than anywhere else, because everything below is known.

    An acknowledgement without an offset applies to any one of the copies; the lowest one was there by then.
    """
    seen = observed.slots.offset(np.flatnonzero(observed.read | (observed.acknowledged >= 0)))
    unknown = int(np.append(seen != np.arange(len(seen)), True).argmax())
    order = np.lexsort((pairs.offset, pairs.value))
    lowest = np.zeros(len(pairs), np.bool_)
    lowest[order] = np.append(True, np.diff(pairs.value[order]) != 0)[: len(pairs)]
    return lowest & (pairs.offset < unknown)


def check_real_time(
    operations: Operations, observed: Observed, lost: Flags, linearizable_reads: bool, findings: Findings
) -> None:
    """Find operations in the wrong order (R1), by judging those that may have to do with one."""
    shown = _Shown.of(operations, observed)
    stating = _stating(operations, linearizable_reads)
    suspects = real_time_suspects(operations, observed, lost, shown.send, shown.offset, shown.ended, stating)
    if linearizable_reads:
        _ends_below_their_own_records(operations, stating, findings)
    else:
        findings.noted["stale_log_ends"] = 0
    if not suspects:
        return
    sends = _send_bounds(operations, observed, lost, shown)
    reads = _read_bounds(operations, stating)
    for anomaly, earlier, later in (
        ("rt_order", sends, sends),
        ("future_read", reads, sends),
        ("stale_read", sends, reads),
        ("hw_regress", reads, reads),
    ):
        if anomaly not in suspects:
            continue
        earlier, later = _involved(earlier, later, suspects[anomaly])
        judged = violations(earlier, later, WITNESSES)
        if anomaly in ("stale_read", "hw_regress") and not linearizable_reads:
            if anomaly == "hw_regress":
                earlier = _each_told(operations, stating, suspects[anomaly])
            certain = certain_under_epochs(earlier, later, _epochs(operations, observed, earlier, later), WITNESSES)
            findings.noted["stale_log_ends"] += judged.total - certain.total
            judged = certain
        found = [
            Finding(anomaly, int(high) // 2, (("earlier", int(first)), ("later", int(second))), (), int(low) // 2)
            for first, second, low, high in judged.first
        ]
        findings.add(anomaly, judged.total, found)


def _ends_below_their_own_records(operations: Operations, stating: Ints, findings: Findings) -> None:
    """Check for polls that deliver records beyond the log end that they state: both cannot be true at one moment."""
    last = _last_delivered(operations)[stating]
    end = operations.high_watermark[stating]
    wrong = np.flatnonzero(last >= end)
    found = [
        Finding("hw_regress", int(end[place]) - 1, (("reader", int(stating[place])),), (), int(last[place]))
        for place in wrong[:WITNESSES]
    ]
    findings.add("hw_regress", len(wrong), found)


def _last_delivered(operations: Operations) -> Ints:
    """By operation, the greatest offset that it delivered, -1 if it delivered nothing."""
    last = np.full(len(operations), -1, np.int64)
    delivering = np.flatnonzero(np.diff(operations.starts) > 0)
    if len(delivering):
        last[delivering] = np.maximum.reduceat(operations.record_offset, operations.starts[delivering])
    return last


def _involved(earlier: Bounds, later: Bounds, suspects: Suspects) -> tuple[Bounds, Bounds]:
    """Select those between which there may be a violation: the rest changes neither the count nor the proofs."""
    earlier = earlier[(earlier.low > suspects.lowest) & (earlier.ended < suspects.latest)]
    return earlier, later[(later.high >= suspects.lowest) & (later.began <= suspects.latest)]


def _send_bounds(operations: Operations, observed: Observed, lost: Flags, shown: _Shown) -> Bounds:
    """Appends that are in the log: acknowledged ones, and others if a read shows them."""
    acked = observed.acked[~lost[observed.acked]]
    index = np.concatenate((acked, shown.send))
    key = 2 * np.concatenate((operations.offset[acked], shown.offset))
    return Bounds.of(operations, index, key, key, np.concatenate((operations.completed[acked], shown.ended)))


def _each_told(operations: Operations, stating: Ints, suspects: Suspects) -> Bounds:
    """Reads as what they have shown one by one, for suspects only.

    Each delivered record is separate, since a poll may continue into a later epoch; so are the log ends of `stating`.
    """
    records = np.flatnonzero(2 * operations.record_offset + 1 > suspects.lowest)
    index = np.concatenate((operations.polls_of(records), stating))
    last = np.concatenate((operations.record_offset[records], operations.high_watermark[stating] - 1))
    told = Bounds.of(operations, index, 2 * last + 1, 2 * last + 1, operations.completed[index])
    return told[(told.low > suspects.lowest) & (told.ended < suspects.latest)]


def _epochs(operations: Operations, observed: Observed, earlier: Bounds, later: Bounds) -> Epochs:
    """The known leader epochs of these operations. Log ends state theirs; those of records follow from all polls."""
    known = LeaderEpochs.of(operations, observed)
    states_end = operations.f[earlier.index] == LIST_OFFSETS
    highest = operations.leader_epoch[earlier.index]
    highest[highest == NONE] = NEVER
    highest[~states_end] = known.highest[observed.slots.index(earlier.low[~states_end] // 2)]
    return Epochs(highest, states_end, operations.leader_epoch[later.index], known.last_begun(operations, observed))


def _stating(operations: Operations, linearizable_reads: bool) -> Ints:
    """Responses whose stated log end is checked: those of list_offsets, and of polls if reads are linearizable."""
    held = operations.f == LIST_OFFSETS
    if linearizable_reads:
        held |= operations.is_poll
    rows = np.flatnonzero(held & (operations.type == OK))
    return rows[(operations.high_watermark[rows] != NONE) & (operations.completed[rows] != NEVER)]


def _read_bounds(operations: Operations, stating: Ints) -> Bounds:
    """Reads: what a poll has shown, and the log ends of `stating`."""
    last, high = _last_delivered(operations), np.full(len(operations), NEVER, np.int64)
    low = np.where(last < 0, -1, 2 * last + 1)
    high[stating] = 2 * (operations.high_watermark[stating] - 1) + 1
    low[stating] = np.maximum(low[stating], high[stating])
    there = np.diff(operations.starts) > 0
    there[stating] = True
    index = np.flatnonzero(there & (operations.completed != NEVER))
    return Bounds.of(operations, index, low[index], high[index], operations.completed[index])
