"""The rules of an append-only log, for one topic-partition (HX-07).

A history is that of a correct log if and only if

R0  offsets and values agree one to one: no offset holds two values (`inconsistent_offset`), no value lies at
    two offsets (`duplicate`), everything read was sent (`phantom`) and did not fail (`aborted_read`);
R1  real time is respected (`realtime.py`, which also says what a stated log end is held to);
R2  each poll delivers increasing offsets (`int_nonmonotonic`) without leaving out a record that somebody read
    between them (`int_poll_skip`);

and a client sees no less than that over time:

S1  a session's polls never go back (`nonmonotonic_poll`), nor
S2  pass over a record that somebody read (`poll_skip`);
S3  what an idempotent client sent later lies later (`nonmonotonic_send`);
L   nothing acknowledged under acks=all is lost, nothing read is retracted (`lost_write`).

One defect gets one name. A record that was acknowledged and never read is a matter of L alone: it is not held
against the polls that pass it by, nor against the order of the others. The final read is the log as it is in
the end; what it leaves out is lost, not skipped. An acknowledged record is lost if the final read covers its
offset and has something else there, or nothing; if it lies beyond the end of a complete final read although
it was acknowledged before the marker was sent; or, where there is no final read, if somebody read around it.
Otherwise nobody looked, and it is `unseen`: counted, no anomaly. Acknowledgements under acks 0 or 1 promise
nothing: such records count as `lost_unprotected`. Offsets below the log's start are exempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from squall.results.checks.kernels.observed import Observed, writers
from squall.results.checks.kernels.operations import (
    ACKS_ALL,
    FAIL,
    FINAL_POLL,
    LIST_OFFSETS,
    NEVER,
    NONE,
    OK,
    Flags,
    Ints,
    Operations,
)
from squall.results.checks.kernels.realtime import Bounds, certain_under_epochs, real_time_violations

WITNESSES: Final = 3
UNREADABLE_VALUE: Final = -1


@dataclass(frozen=True)
class Finding:
    """One instance of an anomaly: where, and the operations (by row) that prove it, each in its role."""

    anomaly: str
    offset: int
    roles: tuple[tuple[str, int], ...]
    values: tuple[int, ...] = ()
    other_offset: int = -1


@dataclass
class Findings:
    """Anomalies by name with their number, and a few instances of each; counts of what is no anomaly."""

    counts: dict[str, int] = field(default_factory=dict)
    instances: list[Finding] = field(default_factory=list)
    noted: dict[str, int] = field(default_factory=dict)

    def add(self, anomaly: str, total: int, instances: list[Finding]) -> None:
        """`total` instances of an anomaly, the first of which are given."""
        if total:
            self.counts[anomaly] = self.counts.get(anomaly, 0) + total
            self.instances += instances[:WITNESSES]


def check_log(operations: Operations, observed: Observed, *, linearizable_reads: bool = False) -> Findings:
    """All rules over one topic-partition. `linearizable_reads` holds polls to the log end they state."""
    findings = Findings()
    _agreement(operations, observed, findings)
    _provenance(operations, observed, findings)
    _duplicates(operations, observed, findings)
    _sessions(operations, observed, findings)
    lost = _losses(operations, observed, findings)
    _send_order(operations, observed, lost, findings)
    _real_time(operations, observed, lost, linearizable_reads, findings)
    return findings


# R0 -------------------------------------------------------------------------------------------------------------


def _agreement(operations: Operations, observed: Observed, findings: Findings) -> None:
    """No offset holds two values: reads that disagree, or acknowledgements that do where nobody read."""
    slots = np.flatnonzero(observed.conflicting)
    found = []
    for offset in observed.slots.offsets[slots[:WITNESSES]]:
        here = np.flatnonzero(observed.pair_offset == offset)[:2]
        roles = tuple(("reader", int(observed.pair_poll[pair])) for pair in here)
        writers = tuple(("writer", int(one)) for one in observed.pair_writer[here] if one >= 0)
        values = tuple(int(one) for one in observed.pair_value[here])
        found.append(Finding("inconsistent_offset", int(offset), writers + roles, values))
    findings.add("inconsistent_offset", len(slots), found)

    at = observed.slots.index(operations.offset[observed.acked])
    acks = np.bincount(at, minlength=len(observed.slots))
    twice = np.flatnonzero((acks > 1) & (observed.reads == 0))
    found = []
    for slot in twice[:WITNESSES]:
        both = observed.acked[at == slot][:2]
        roles = tuple(("writer", int(one)) for one in both)
        values = tuple(int(operations.value[one]) for one in both)
        found.append(Finding("inconsistent_offset", int(observed.slots.offsets[slot]), roles, values))
    findings.add("inconsistent_offset", len(twice), found)


def _provenance(operations: Operations, observed: Observed, findings: Findings) -> None:
    """Everything read was sent, and did not fail."""
    writer = observed.pair_writer
    for anomaly, pairs in (
        ("phantom", np.flatnonzero(writer < 0)),
        ("aborted_read", np.flatnonzero((writer >= 0) & (operations.type[writer] == FAIL))),
    ):
        found = [
            Finding(
                anomaly,
                int(observed.pair_offset[pair]),
                ((("writer", int(writer[pair])),) if writer[pair] >= 0 else ())
                + (("reader", int(observed.pair_poll[pair])),),
                (int(observed.pair_value[pair]),),
            )
            for pair in pairs[:WITNESSES]
        ]
        findings.add(anomaly, len(pairs), found)


def _duplicates(operations: Operations, observed: Observed, findings: Findings) -> None:
    """No value lies at two offsets. Without idempotence the system never promised that; then it is counted."""
    acked = observed.acked
    offset = np.concatenate((observed.pair_offset, operations.offset[acked]))
    value = np.concatenate((observed.pair_value, operations.value[acked]))
    proof = np.concatenate((observed.pair_poll, acked))
    sound = value != UNREADABLE_VALUE
    offset, value, proof = offset[sound], value[sound], proof[sound]
    order = np.lexsort((offset, value))
    offset, value, proof = offset[order], value[order], proof[order]
    twice = np.flatnonzero((np.diff(value) == 0) & (np.diff(offset) != 0))
    if len(twice) == 0:
        return
    writer = writers(operations, value[twice])
    promised = (writer >= 0) & operations.idempotent[writer]
    found = []
    for place, who in zip(twice[promised][:WITNESSES], writer[promised], strict=False):
        shown = (("reader", int(proof[place])), ("other_reader", int(proof[place + 1])))
        roles = (("writer", int(who)), *(one for one in shown if one[1] != who))
        found.append(Finding("duplicate", int(offset[place]), roles, (int(value[place]),), int(offset[place + 1])))
    findings.add("duplicate", int(promised.sum()), found)
    findings.noted["duplicate_not_idempotent"] = int((~promised).sum())


# R2, S1, S2 ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deliveries:
    """All records in the order in which each session got them, each with the one delivered just before.

    `previous` is NONE at the start of a session, and where two polls of a session overlapped in time, so that
    nobody can say which came first.
    """

    record: Ints
    offset: Ints
    poll: Ints
    previous: Ints
    previous_poll: Ints

    @classmethod
    def of(cls, operations: Operations) -> Deliveries:
        lengths = np.bincount(operations.record_poll, minlength=len(operations.f))
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))[:-1]
        polls = np.flatnonzero(lengths > 0)
        session = operations.client[polls] << 32 | operations.session[polls]
        order = np.lexsort((operations.invoked[polls], session))
        polls, session = polls[order], session[order]
        sizes = lengths[polls]
        total = int(sizes.sum())
        first = np.cumsum(sizes) - sizes
        record = np.repeat(starts[polls] - first, sizes) + np.arange(total)
        poll, offset = operations.record_poll[record], operations.record_offset[record]
        previous, previous_poll = np.full(total, NONE, np.int64), np.full(total, -1, np.int64)
        previous[1:], previous_poll[1:] = offset[:-1], poll[:-1]
        same = np.concatenate((np.zeros(1, np.bool_), np.diff(session) == 0))[: len(polls)]
        earlier = np.concatenate((np.array([NEVER]), operations.completed[polls][:-1]))[: len(polls)]
        cut = first[~(same & (earlier <= operations.invoked[polls]))]
        previous[cut] = NONE
        return cls(record, offset, poll, previous, previous_poll)


def _sessions(operations: Operations, observed: Observed, findings: Findings) -> None:
    """Within polls (R2) and from poll to poll of a session (S1, S2)."""
    deliveries = Deliveries.of(operations)
    known = deliveries.previous != NONE
    inside = deliveries.previous_poll == deliveries.poll
    back = known & (deliveries.previous >= deliveries.offset)
    before = observed.last_read_before
    passed = before[observed.slots.index(deliveries.offset)] if len(deliveries.offset) else deliveries.offset
    final = operations.f[deliveries.poll] == FINAL_POLL
    skip = known & ~back & (deliveries.previous < passed) & ~final
    for anomaly, flags in (
        ("int_nonmonotonic", back & inside),
        ("nonmonotonic_poll", back & ~inside),
        ("int_poll_skip", skip & inside),
        ("poll_skip", skip & ~inside),
    ):
        places = np.flatnonzero(flags)
        found = [_session_finding(anomaly, place, deliveries, passed, observed) for place in places[:WITNESSES]]
        findings.add(anomaly, len(places), found)


def _session_finding(anomaly: str, place: int, deliveries: Deliveries, passed: Ints, observed: Observed) -> Finding:
    roles = [("previous_reader", int(deliveries.previous_poll[place])), ("reader", int(deliveries.poll[place]))]
    if deliveries.previous_poll[place] == deliveries.poll[place]:
        roles = roles[1:]
    if "skip" not in anomaly:
        return Finding(anomaly, int(deliveries.offset[place]), tuple(roles), (), int(deliveries.previous[place]))
    missed = int(passed[place])
    pair = int(np.flatnonzero(observed.pair_offset == missed)[0])
    if observed.pair_writer[pair] >= 0:
        roles.insert(0, ("writer", int(observed.pair_writer[pair])))
    roles.append(("witness_reader", int(observed.pair_poll[pair])))
    return Finding(anomaly, missed, tuple(roles), (int(observed.pair_value[pair]),), int(deliveries.offset[place]))


# L --------------------------------------------------------------------------------------------------------------------


def _losses(operations: Operations, observed: Observed, findings: Findings) -> Flags:
    """Acknowledged records that are gone, and read ones that were retracted. Returns which sends are lost."""
    lost = np.zeros(len(operations.f), np.bool_)
    acked = observed.acked
    gone, unseen = _lost_acked(operations, observed)
    lost[acked[gone]] = True
    nowhere = _acked_without_offset(operations, observed)
    lost[nowhere] = True
    retracted = _retracted(operations, observed, lost)
    by_offset = np.flatnonzero(lost)
    by_offset = by_offset[np.argsort(operations.offset[by_offset], kind="stable")]
    found = [_lost_finding(int(one), operations, observed) for one in by_offset[:WITNESSES]]
    found += [_retracted_finding(int(pair), operations, observed) for pair in retracted[:WITNESSES]]
    findings.add("lost_write", int(lost.sum()) + len(retracted), found)
    findings.noted["unseen"] = int(unseen.sum())
    findings.noted["lost_unprotected"] = _lost_unprotected(operations, observed)
    return lost


def _lost_acked(operations: Operations, observed: Observed) -> tuple[Flags, Flags]:
    """Of the acknowledged sends: which are lost, and of which nobody can tell."""
    final, acked = observed.final, observed.acked
    offset, value = operations.offset[acked], operations.value[acked]
    slot = observed.slots.index(offset)
    protected = offset >= observed.log_start
    elsewhere = np.isin(value, observed.pair_value[_unacked_pairs(operations, observed)])
    in_final = final.value[slot] == value if len(slot) else np.zeros(0, np.bool_)
    covered = final.covers(offset)
    beyond = final.complete & (offset > final.end) & (operations.completed[acked] < final.marker_invoked)
    read_here = (observed.value[slot] == value) & (observed.reads[slot] > 0)
    read_here |= observed.conflicting[slot] & np.isin(value, observed.pair_value)
    passed_over = (observed.reads[slot] > 0) | _passed_over(operations, observed)[slot]
    undecided = ~covered & ~beyond
    gone = (covered & ~in_final) | beyond | (undecided & ~read_here & passed_over)
    gone &= protected & ~(elsewhere & ~read_here)
    return gone, protected & undecided & ~read_here & ~gone


def _unacked_pairs(operations: Operations, observed: Observed) -> Ints:
    """Pairs that show a value at another offset than the one acknowledged: a matter for `duplicate`."""
    writer = observed.pair_writer
    return np.flatnonzero((writer >= 0) & (operations.offset[writer] != observed.pair_offset))


def _passed_over(operations: Operations, observed: Observed) -> Flags:
    """Slots between two records that some poll delivered one after the other, or a session did."""
    deliveries = Deliveries.of(operations)
    known = (deliveries.previous != NONE) & (deliveries.previous < deliveries.offset)
    edges = np.zeros(len(observed.slots) + 1, np.int64)
    if known.any():
        np.add.at(edges, observed.slots.index(deliveries.previous[known]) + 1, 1)
        np.add.at(edges, observed.slots.index(deliveries.offset[known]), -1)
    return np.cumsum(edges)[: len(observed.slots)] > 0


def _acked_without_offset(operations: Operations, observed: Observed) -> Ints:
    """Sends acknowledged without saying where, before a complete final read that does not have them."""
    final = observed.final
    unplaced = np.flatnonzero(operations.is_acked & (operations.offset == NONE))
    if not final.complete or observed.log_start > 0:
        return unplaced[:0]
    early = unplaced[operations.completed[unplaced] < final.marker_invoked]
    return early[~np.isin(operations.value[early], final.value)]


def _retracted(operations: Operations, observed: Observed, lost: Flags) -> Ints:
    """Pairs that were read and that the final read does not have, and no other value in their place."""
    final = observed.final
    offset = observed.pair_offset
    slot = observed.slots.index(offset)
    missing = final.value[slot] == NONE if len(slot) else np.zeros(0, np.bool_)
    seen = observed.first_read[slot] if len(slot) else offset
    gone = final.covers(offset) | (final.complete & (offset > final.end) & (seen < final.marker_invoked))
    writer = observed.pair_writer
    counted = (writer >= 0) & lost[writer]
    return np.flatnonzero(gone & missing & ~counted & (offset >= observed.log_start))


def _lost_unprotected(operations: Operations, observed: Observed) -> int:
    """Sends acknowledged under acks 0 or 1 that a complete final read does not have."""
    final = observed.final
    if not final.complete:
        return 0
    weak = operations.is_send & (operations.type == OK) & (operations.acks != ACKS_ALL)
    weak &= operations.completed < final.marker_invoked
    return int((~np.isin(operations.value[weak], final.value)).sum())


def _lost_finding(send: int, operations: Operations, observed: Observed) -> Finding:
    offset = int(operations.offset[send]) if operations.offset[send] != NONE else -1
    roles = [("writer", send)]
    values = [int(operations.value[send])]
    seen = np.flatnonzero((observed.pair_offset == offset) & (observed.pair_value == values[0]))
    roles += [("early_reader", int(observed.pair_poll[pair])) for pair in seen[:1]]
    other = np.flatnonzero((observed.pair_offset == offset) & (observed.pair_value != values[0]))
    for pair in other[:1]:
        values.append(int(observed.pair_value[pair]))
        roles.append(("reader", int(observed.pair_poll[pair])))
        if observed.pair_writer[pair] >= 0:
            roles.append(("other_writer", int(observed.pair_writer[pair])))
    if len(other) == 0:
        roles += [("reader", poll) for poll in _poll_beyond(offset, operations)]
    return Finding("lost_write", offset, tuple(roles), tuple(values))


def _retracted_finding(pair: int, operations: Operations, observed: Observed) -> Finding:
    offset = int(observed.pair_offset[pair])
    roles = [("early_reader", int(observed.pair_poll[pair]))]
    if observed.pair_writer[pair] >= 0:
        roles.insert(0, ("writer", int(observed.pair_writer[pair])))
    roles += [("reader", poll) for poll in _poll_beyond(offset, operations)]
    return Finding("lost_write", offset, tuple(roles), (int(observed.pair_value[pair]),))


def _poll_beyond(offset: int, operations: Operations) -> list[int]:
    """The final poll that passed an offset by, else the last one; another poll where there was no final read."""
    final = operations.f[operations.record_poll] == FINAL_POLL
    records = np.flatnonzero(final) if final.any() else np.arange(len(operations.record_offset))
    if len(records) == 0:
        return []
    after = records[operations.record_offset[records] > offset]
    if len(after):
        return [int(operations.record_poll[after[np.argmin(operations.record_offset[after])]])]
    return [int(operations.record_poll[records[np.argmax(operations.record_offset[records])]])]


# S3, R1 ---------------------------------------------------------------------------------------------------------------


def _send_order(operations: Operations, observed: Observed, lost: Flags, findings: Findings) -> None:
    """What an idempotent client sent later lies later."""
    sends = observed.acked
    sends = sends[operations.idempotent[sends] & (operations.sequence[sends] != NONE) & ~lost[sends]]
    sends = sends[np.lexsort((operations.sequence[sends], operations.client[sends]))]
    if len(sends) == 0:
        return
    same = np.diff(operations.client[sends]) == 0
    wrong = np.flatnonzero(same & (np.diff(operations.offset[sends]) <= 0))
    found = [
        Finding(
            "nonmonotonic_send",
            int(operations.offset[sends[place + 1]]),
            (("writer", int(sends[place])), ("writer", int(sends[place + 1]))),
            (int(operations.value[sends[place]]), int(operations.value[sends[place + 1]])),
            int(operations.offset[sends[place]]),
        )
        for place in wrong[:WITNESSES]
    ]
    findings.add("nonmonotonic_send", len(wrong), found)


def _real_time(
    operations: Operations, observed: Observed, lost: Flags, linearizable_reads: bool, findings: Findings
) -> None:
    """Build the bounds of sends and reads, and look for operations in the wrong order (R1)."""
    sends = _send_bounds(operations, observed, lost)
    reads = _read_bounds(operations, linearizable_reads)
    found_by_class = real_time_violations(sends, reads, WITNESSES)
    if not linearizable_reads:
        findings.noted["stale_log_ends"] = 0
        for anomaly, earlier in (("stale_read", sends), ("hw_regress", reads)):
            suspected = found_by_class[anomaly]
            if suspected.total:
                epochs = _highest_epochs(operations, observed, earlier)
                stated = operations.leader_epoch[reads.index]
                certain = certain_under_epochs(earlier, epochs, reads, stated, WITNESSES)
                findings.noted["stale_log_ends"] += suspected.total - certain.total
                found_by_class[anomaly] = certain
    for anomaly, violations in found_by_class.items():
        found = [
            Finding(anomaly, int(high) // 2, (("earlier", int(first)), ("later", int(second))), (), int(low) // 2)
            for first, second, low, high in violations.first
        ]
        findings.add(anomaly, violations.total, found)


def _send_bounds(operations: Operations, observed: Observed, lost: Flags) -> Bounds:
    """Appends that are in the log: acknowledged ones, and others where a read shows them."""
    acked = observed.acked[~lost[observed.acked]]
    shown = observed.pair_writer >= 0
    writer, offset = observed.pair_writer[shown], observed.pair_offset[shown]
    placed = np.zeros(len(operations.f), np.bool_)
    placed[observed.acked] = True
    other = ~placed[writer]
    index = np.concatenate((acked, writer[other]))
    key = 2 * np.concatenate((operations.offset[acked], offset[other]))
    returned = operations.completed.copy()
    returned[~operations.is_acked] = NEVER
    return Bounds.of(operations, index, key, key, returned)


def _highest_epochs(operations: Operations, observed: Observed, bounds: Bounds) -> Ints:
    """The highest leader epoch that what an operation shows may be of, NEVER where nobody knows.

    Of reads as they state it, of appends as those state it who read them. A poll states the epoch of the last record
    it delivered; all before it are of that epoch or an earlier one.
    """
    by_slot = np.full(len(observed.slots), NEVER, np.int64)
    stated = operations.leader_epoch[operations.record_poll]
    known = stated != NONE
    np.minimum.at(by_slot, observed.slots.index(operations.record_offset[known]), stated[known])
    highest = operations.leader_epoch[bounds.index]
    highest[highest == NONE] = NEVER
    sent = operations.is_send[bounds.index]
    highest[sent] = by_slot[observed.slots.index(bounds.low[sent] // 2)]
    return highest


def _read_bounds(operations: Operations, linearizable_reads: bool) -> Bounds:
    """Reads: what a poll has shown, and the log end that list_offsets states (polls too, if held to it)."""
    highest = np.full(len(operations.f), NONE, np.int64)
    np.maximum.at(highest, operations.record_poll, operations.record_offset)
    shown = np.where(highest != NONE, 2 * highest + 1, -1)
    stated = (operations.high_watermark != NONE) & (operations.type == OK)
    asserts = stated & (operations.f == LIST_OFFSETS)
    if linearizable_reads:
        asserts |= stated & operations.is_poll
    end = 2 * (operations.high_watermark - 1) + 1
    low = np.where(asserts & (operations.f == LIST_OFFSETS), end, shown)
    high = np.where(asserts, end, NEVER)
    index = np.flatnonzero((operations.completed != NEVER) & ((highest != NONE) | asserts))
    return Bounds.of(operations, index, low[index], high[index], operations.completed)
