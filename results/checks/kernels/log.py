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
nothing: such records count as `lost_unprotected`. Offsets below the log's start are exempt, also where a session passes
over them, which goes on where the log starts now; but what was read there must be what was acknowledged there. A log
that starts beyond the marker which a complete final read has come to is taken to start at the marker.

Without idempotence a value may lie at several offsets, none of which it reached before its send began. Acknowledged, it
lies at the offset that was said; where none was said, at one of them by then, which is certain only of the lowest, and
only if all below is known. That a copy lies elsewhere does not make up for one that is gone.

Polls of one session are taken not to overlap: no client of ours asks again before it was answered. Of those that do
overlap nobody can say which came first, and nothing is said of the step between them.

Each rule first has a compiled loop (`passes.py`) look for whatever might break it, which in a healthy history is
nothing; what it names is judged here, with numpy, and nothing else is looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from squall.results.checks.kernels import loops
from squall.results.checks.kernels.observed import Observed, Pairs, writers
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
    Rows,
)
from squall.results.checks.kernels.realtime import (
    Bounds,
    Epochs,
    Suspects,
    certain_under_epochs,
    real_time_suspects,
    violations,
)

WITNESSES: Final = 3
UNREADABLE_VALUE: Final = -1
_ALL: Final = np.zeros(0, np.int8)


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
    for offset in observed.slots.offset(slots[:WITNESSES]):
        here = observed.pairs_at(int(offset))[:2]
        roles = tuple(("reader", int(one)) for one in here.poll)
        writers = tuple(("writer", int(one)) for one in here.writer if one >= 0)
        values = tuple(int(one) for one in here.value)
        found.append(Finding("inconsistent_offset", int(offset), writers + roles, values))
    findings.add("inconsistent_offset", len(slots), found)
    if observed.acknowledged_again:
        _agreement_of_acknowledgements(operations, observed, findings)
    if observed.log_start > 0:
        _agreement_below_the_start(operations, observed, findings)


def _agreement_of_acknowledgements(operations: Operations, observed: Observed, findings: Findings) -> None:
    """No two appends were acknowledged at one offset that nobody read."""
    at = observed.slots.index(operations.offset[observed.acked])
    acks = np.bincount(at, minlength=len(observed.slots))
    twice = np.flatnonzero((acks > 1) & ~observed.read)
    found = []
    for slot in twice[:WITNESSES]:
        both = observed.acked[at == slot][:2]
        roles = tuple(("writer", int(one)) for one in both)
        values = tuple(int(operations.value[one]) for one in both)
        offset = int(operations.offset[both[0]])
        found.append(Finding("inconsistent_offset", offset, roles, values))
    findings.add("inconsistent_offset", len(twice), found)


def _agreement_below_the_start(operations: Operations, observed: Observed, findings: Findings) -> None:
    """What was read below the log's start is what was acknowledged there: nothing is lost there, but all must agree."""
    acked = observed.acked[operations.offset[observed.acked] < observed.log_start]
    slot = observed.slots.index(operations.offset[acked])
    other = observed.read[slot] & ~observed.conflicting[slot] & (observed.value[slot] != operations.value[acked])
    if not other.any():
        return
    acked, slot = acked[other], slot[other]
    moved = np.isin(operations.value[acked], _unacked_pairs(operations, observed).value)
    _, first = np.unique(slot[~moved], return_index=True)
    acked = acked[~moved][first]
    found = []
    for writer in acked[:WITNESSES].tolist():
        offset = int(operations.offset[writer])
        (_, value, poll, other_writer) = next(observed.pairs_at(offset).rows())
        roles = [("writer", writer), ("reader", poll)]
        if other_writer >= 0:
            roles.insert(1, ("writer", other_writer))
        found.append(Finding("inconsistent_offset", offset, tuple(roles), (int(operations.value[writer]), value)))
    findings.add("inconsistent_offset", len(acked), found)


def _provenance(operations: Operations, observed: Observed, findings: Findings) -> None:
    """Everything read was sent, and did not fail. What was acknowledged where it was read needs no further proof."""
    pairs = observed.unplaced
    unsent = pairs.writer < 0
    for anomaly, wrong in (
        ("phantom", pairs[unsent]),
        ("aborted_read", pairs[~unsent & (operations.type[pairs.writer] == FAIL)]),
    ):
        found = [
            Finding(anomaly, offset, ((("writer", writer),) if writer >= 0 else ()) + (("reader", poll),), (value,))
            for offset, value, poll, writer in wrong[:WITNESSES].rows()
        ]
        findings.add(anomaly, len(wrong), found)


def _duplicates(operations: Operations, observed: Observed, findings: Findings) -> None:
    """No value lies at two offsets. Without idempotence the system never promised that; then it is counted."""
    pairs, acked = _perhaps_twice(operations, observed)
    offset = np.concatenate((pairs.offset, operations.offset[acked]))
    value = np.concatenate((pairs.value, operations.value[acked]))
    proof = np.concatenate((pairs.poll, acked))
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


def _perhaps_twice(operations: Operations, observed: Observed) -> tuple[Pairs, Ints]:
    """All pairs and acknowledged sends of values that may lie at two offsets.

    Where no value was sent twice, such a value was read elsewhere than where its send was acknowledged, or at two
    offsets of which none was acknowledged: it is that of an unplaced pair.
    """
    if observed.values_sent_twice:
        return observed.pairs_of(np.flatnonzero(observed.read)), observed.acked
    odd = observed.unplaced[observed.unplaced.value != UNREADABLE_VALUE]
    sent = odd.writer[odd.writer >= 0]
    acked = np.unique(sent[operations.is_acked[sent] & (operations.offset[sent] != NONE)])
    values, times = np.unique(odd.value, return_counts=True)
    suspected = np.concatenate((values[times > 1], operations.value[acked]))
    if len(suspected) == 0:
        return odd[:0], acked
    odd = odd[np.isin(odd.value, suspected)]
    slots = np.unique(observed.slots.index(np.concatenate((odd.offset, operations.offset[acked]))))
    pairs = observed.pairs_of(slots)
    return pairs[np.isin(pairs.value, suspected)], acked


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
    def of(cls, operations: Operations, polls: Ints) -> Deliveries:
        """What some polls delivered: all those of their sessions that delivered something."""
        session = operations.session_key(polls)
        order = np.lexsort((operations.invoked[polls], session))
        polls, session = polls[order], session[order]
        begin = operations.starts[polls].astype(np.int64)
        sizes = operations.starts[polls + 1] - begin
        total = int(sizes.sum())
        first = np.cumsum(sizes) - sizes
        record = np.repeat(begin - first, sizes) + np.arange(total)
        poll, offset = np.repeat(polls, sizes), operations.record_offset[record]
        previous, previous_poll = np.full(total, NONE, np.int64), np.full(total, -1, np.int64)
        previous[1:], previous_poll[1:] = offset[:-1], poll[:-1]
        same = np.concatenate((np.zeros(1, np.bool_), np.diff(session) == 0))[: len(polls)]
        earlier = np.concatenate((np.array([NEVER]), operations.completed[polls][:-1]))[: len(polls)]
        cut = first[~(same & (earlier <= operations.invoked[polls]))]
        previous[cut] = NONE
        return cls(record, offset, poll, previous, previous_poll)


def _sessions(operations: Operations, observed: Observed, findings: Findings) -> None:
    """Within polls (R2) and from poll to poll of a session (S1, S2)."""
    irregular = loops.irregular_sessions(
        operations.f, operations.starts, observed.record_key, observed.slots.base, operations.invoked,
        operations.completed, operations.in_order, *_numbered(observed), observed.first_poll,
    )  # fmt: skip
    if not irregular.any():
        return
    numbers, _ = observed.sessions
    deliveries = Deliveries.of(operations, np.flatnonzero((np.diff(operations.starts) > 0) & irregular[numbers]))
    known = deliveries.previous != NONE
    inside = deliveries.previous_poll == deliveries.poll
    back = known & (deliveries.previous >= deliveries.offset)
    passed = observed.last_read_before[observed.slots.index(deliveries.offset)]
    final = operations.f[deliveries.poll] == FINAL_POLL
    skip = known & ~back & (deliveries.previous < passed) & ~final
    skip &= inside | (passed >= observed.log_start)
    for anomaly, flags in (
        ("int_nonmonotonic", back & inside),
        ("nonmonotonic_poll", back & ~inside),
        ("int_poll_skip", skip & inside),
        ("poll_skip", skip & ~inside),
    ):
        places = np.flatnonzero(flags)
        found = [_session_finding(anomaly, place, deliveries, passed, observed) for place in places[:WITNESSES]]
        findings.add(anomaly, len(places), found)


def _numbered(observed: Observed) -> tuple[Rows, int]:
    """By operation the number of its session, and how many sessions there are."""
    numbers, keys = observed.sessions
    return numbers, len(keys)


def _session_finding(anomaly: str, place: int, deliveries: Deliveries, passed: Ints, observed: Observed) -> Finding:
    roles = [("previous_reader", int(deliveries.previous_poll[place])), ("reader", int(deliveries.poll[place]))]
    if deliveries.previous_poll[place] == deliveries.poll[place]:
        roles = roles[1:]
    if "skip" not in anomaly:
        return Finding(anomaly, int(deliveries.offset[place]), tuple(roles), (), int(deliveries.previous[place]))
    missed = int(passed[place])
    _, value, poll, writer = next(observed.pairs_at(missed).rows())
    if writer >= 0:
        roles.insert(0, ("writer", writer))
    roles.append(("witness_reader", poll))
    return Finding(anomaly, missed, tuple(roles), (value,), int(deliveries.offset[place]))


# L --------------------------------------------------------------------------------------------------------------------


def _losses(operations: Operations, observed: Observed, findings: Findings) -> Flags:
    """Acknowledged records that are gone, and read ones that were retracted. Returns which sends are lost."""
    lost = np.zeros(len(operations), np.bool_)
    missed, unseen = _lost_acked(operations, observed)
    lost[missed] = True
    nowhere = _acked_without_offset(operations, observed)
    lost[nowhere] = True
    retracted = _retracted(operations, observed, lost)
    by_offset = np.flatnonzero(lost)
    by_offset = by_offset[np.argsort(operations.offset[by_offset], kind="stable")]
    found = [_lost_finding(int(one), operations, observed) for one in by_offset[:WITNESSES]]
    found += [_retracted_finding(*one, operations) for one in retracted[:WITNESSES].rows()]
    findings.add("lost_write", len(by_offset) + len(retracted), found)
    findings.noted["unseen"] = unseen
    findings.noted["lost_unprotected"] = _lost_unprotected(operations, observed)
    return lost


def _lost_acked(operations: Operations, observed: Observed) -> tuple[Ints, int]:
    """The acknowledged sends that are lost, and of how many nobody can tell."""
    final = observed.final
    acked = loops.unaccounted(
        operations.f, operations.type, operations.acks, operations.offset, observed.offset_key, observed.slots.base,
        operations.value, operations.completed, observed.value, observed.first_poll, final.value,
        final.start, final.end, observed.log_start, final.marker_invoked, final.complete,
    )  # fmt: skip
    if len(acked) == 0:
        return acked, 0
    offset, value = operations.offset[acked], operations.value[acked]
    slot = observed.slots.index(offset)
    elsewhere = np.isin(value, _unacked_pairs(operations, observed).value)
    in_final = final.value[slot] == value
    covered = final.covers(offset)
    beyond = final.complete & (offset > final.end) & (operations.completed[acked] < final.marker_invoked)
    read = observed.read[slot]
    read_here = (observed.value[slot] == value) & read
    read_here |= observed.conflicting[slot] & observed.is_read(value)
    undecided = ~covered & ~beyond
    open_to_doubt = undecided & ~read_here
    passed_over = read | _passed_over(operations, observed)[slot] if open_to_doubt.any() else read
    gone = (covered & ~in_final) | beyond | (open_to_doubt & passed_over)
    gone &= ~(elsewhere & ~read_here)
    return acked[gone], int((open_to_doubt & ~gone).sum())


def _unacked_pairs(operations: Operations, observed: Observed) -> Pairs:
    """Pairs that show a value at another offset than the one acknowledged: a matter for `duplicate`, if idempotence was
    promised; else a copy, which is no excuse for the record that is gone.
    """
    pairs = observed.unplaced[observed.unplaced.writer >= 0]
    return pairs[(operations.offset[pairs.writer] != pairs.offset) & operations.idempotent[pairs.writer]]


def _passed_over(operations: Operations, observed: Observed) -> Flags:
    """Slots between two records that some poll delivered one after the other, or a session did."""
    passed: Flags = loops.passed_over(
        operations.starts, observed.record_key, observed.slots.base, operations.invoked, operations.completed,
        operations.in_order, *_numbered(observed), len(observed.slots),
    )  # fmt: skip
    return passed


def _acked_without_offset(operations: Operations, observed: Observed) -> Ints:
    """Sends acknowledged without saying where, before a complete final read that does not have them."""
    final = observed.final
    unplaced = np.flatnonzero(operations.is_acked & (operations.offset == NONE))
    if not final.complete or observed.log_start > 0:
        return unplaced[:0]
    early = unplaced[operations.completed[unplaced] < final.marker_invoked]
    return early[loops.first_places(operations.value[early], final.value, _ALL) < 0]


def _retracted(operations: Operations, observed: Observed, lost: Flags) -> Pairs:
    """Pairs that were read and that the final read does not have, and no other value in their place."""
    final, slots = observed.final, observed.slots
    edges = np.array([observed.log_start, final.start, final.end + 1])
    lowest, covered_from, beyond = slots.from_offset(edges).tolist()
    gone = loops.retracted_slots(
        observed.first_poll, operations.completed, final.value, lowest, covered_from, beyond,
        beyond if final.complete else len(slots), final.marker_invoked,
    )  # fmt: skip
    pairs = observed.pairs_of(gone)
    return pairs[~((pairs.writer >= 0) & lost[pairs.writer])]


def _lost_unprotected(operations: Operations, observed: Observed) -> int:
    """Sends acknowledged under acks 0 or 1 that a complete final read does not have."""
    final = observed.final
    if not final.complete:
        return 0
    weak = np.flatnonzero(operations.is_send & (operations.type == OK) & (operations.acks != ACKS_ALL))
    weak = weak[operations.completed[weak] < final.marker_invoked]
    slot = observed.slots.from_offset(operations.offset[weak])
    there = slot < len(observed.slots)
    there[there] = final.value[slot[there]] == operations.value[weak[there]]
    sought = operations.value[weak[~there]]
    return int((loops.first_places(sought, final.value, _ALL) < 0).sum())


def _lost_finding(send: int, operations: Operations, observed: Observed) -> Finding:
    offset = int(operations.offset[send]) if operations.offset[send] != NONE else -1
    roles = [("writer", send)]
    values = [int(operations.value[send])]
    pairs = observed.pairs_at(offset)
    same = pairs.value == values[0]
    roles += [("early_reader", int(poll)) for poll in pairs[same].poll[:1]]
    for _, value, poll, writer in pairs[~same][:1].rows():
        values.append(value)
        roles.append(("reader", poll))
        if writer >= 0:
            roles.append(("other_writer", writer))
    if same.all():
        roles += [("reader", poll) for poll in _poll_beyond(offset, operations)]
    return Finding("lost_write", offset, tuple(roles), tuple(values))


def _retracted_finding(offset: int, value: int, poll: int, writer: int, operations: Operations) -> Finding:
    roles = [("early_reader", poll)]
    if writer >= 0:
        roles.insert(0, ("writer", writer))
    roles += [("reader", other) for other in _poll_beyond(offset, operations)]
    return Finding("lost_write", offset, tuple(roles), (value,))


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
    """What an idempotent client sent later lies later: where it was acknowledged, else where a read shows it."""
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
    """Idempotent sends with a sequence number that were acknowledged without an offset, each where reads show it; those
    that they show in several places are a matter for `duplicate` or `inconsistent_offset`.
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

    Sends of unknown outcome that landed, those acknowledged without an offset, and the copies that a producer without
    idempotence makes: neither was there before its send began. Of an idempotent send such a copy is a `duplicate`.
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
    """Of pairs: where a value lies lower than anywhere else, because all that lies below is known.

    An acknowledgement that does not say where speaks of any one of the copies; what lies lowest was there by then.
    """
    seen = observed.slots.offset(np.flatnonzero(observed.read | (observed.acknowledged >= 0)))
    unknown = int(np.append(seen != np.arange(len(seen)), True).argmax())
    order = np.lexsort((pairs.offset, pairs.value))
    lowest = np.zeros(len(pairs), np.bool_)
    lowest[order] = np.append(True, np.diff(pairs.value[order]) != 0)[: len(pairs)]
    return lowest & (pairs.offset < unknown)


def _real_time(
    operations: Operations, observed: Observed, lost: Flags, linearizable_reads: bool, findings: Findings
) -> None:
    """Look for operations in the wrong order (R1), and where there are any, at those that may have to do with it."""
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
            epochs = Epochs(
                _highest_epochs(operations, observed, earlier),
                operations.f[earlier.index] == LIST_OFFSETS,
                operations.leader_epoch[later.index],
                _last_begun(operations),
            )
            certain = certain_under_epochs(earlier, later, epochs, WITNESSES)
            findings.noted["stale_log_ends"] += judged.total - certain.total
            judged = certain
        found = [
            Finding(anomaly, int(high) // 2, (("earlier", int(first)), ("later", int(second))), (), int(low) // 2)
            for first, second, low, high in judged.first
        ]
        findings.add(anomaly, judged.total, found)


def _ends_below_their_own_records(operations: Operations, stating: Ints, findings: Findings) -> None:
    """Polls that deliver more of the log than they say there is: at no moment can both have been so."""
    last = _last_delivered(operations)[stating]
    end = operations.high_watermark[stating]
    wrong = np.flatnonzero(last >= end)
    found = [
        Finding("hw_regress", int(end[place]) - 1, (("reader", int(stating[place])),), (), int(last[place]))
        for place in wrong[:WITNESSES]
    ]
    findings.add("hw_regress", len(wrong), found)


def _last_delivered(operations: Operations) -> Ints:
    """By operation the greatest offset that it delivered, -1 if it delivered nothing."""
    last = np.full(len(operations), -1, np.int64)
    delivering = np.flatnonzero(np.diff(operations.starts) > 0)
    if len(delivering):
        last[delivering] = np.maximum.reduceat(operations.record_offset, operations.starts[delivering])
    return last


def _involved(earlier: Bounds, later: Bounds, suspects: Suspects) -> tuple[Bounds, Bounds]:
    """Those between which there may be a violation: the rest changes neither their number nor the proofs."""
    earlier = earlier[(earlier.low > suspects.lowest) & (earlier.ended < suspects.latest)]
    return earlier, later[(later.high >= suspects.lowest) & (later.began <= suspects.latest)]


def _send_bounds(operations: Operations, observed: Observed, lost: Flags, shown: _Shown) -> Bounds:
    """Appends that are in the log: acknowledged ones, and others where a read shows them."""
    acked = observed.acked[~lost[observed.acked]]
    index = np.concatenate((acked, shown.send))
    key = 2 * np.concatenate((operations.offset[acked], shown.offset))
    return Bounds.of(operations, index, key, key, np.concatenate((operations.completed[acked], shown.ended)))


def _highest_epochs(operations: Operations, observed: Observed, bounds: Bounds) -> Ints:
    """The highest leader epoch that what an operation shows may be of, NEVER where nobody knows.

    Of reads as they state it, of appends as those state it who read them. A poll states the epoch of the last record
    it delivered, that of its append; all before it are of that epoch or an earlier one.
    """
    highest = operations.leader_epoch[bounds.index]
    highest[highest == NONE] = NEVER
    sent = np.flatnonzero(operations.is_send[bounds.index])
    if len(sent) == 0:
        return highest
    slot = observed.slots.index(bounds.low[sent] // 2)
    asked = np.zeros(len(observed.slots), np.bool_)
    asked[slot] = True
    where = observed.slots.index(operations.record_offset)
    records = np.flatnonzero(asked[where])
    stated = operations.leader_epoch[operations.polls_of(records)]
    by_slot = np.full(len(observed.slots), NEVER, np.int64)
    known = stated != NONE
    np.minimum.at(by_slot, where[records[known]], stated[known])
    highest[sent] = by_slot[slot]
    return highest


def _last_begun(operations: Operations) -> dict[int, int]:
    """By leader epoch of which a record was read: when the last of these sends began that are known to be of it."""
    polls = np.flatnonzero((np.diff(operations.starts) > 0) & (operations.leader_epoch != NONE))
    writer = writers(operations, operations.record_value[operations.starts[polls + 1] - 1])
    began = np.where(writer < 0, NONE, operations.invoked[writer] - operations.clock_error[writer])
    epoch = operations.leader_epoch[polls]
    return {int(one): int(began[epoch == one].max()) for one in np.unique(epoch)}


def _stating(operations: Operations, linearizable_reads: bool) -> Ints:
    """Answers held to the log end they state: those of list_offsets, and of polls if reads are linearizable."""
    held = operations.f == LIST_OFFSETS
    if linearizable_reads:
        held |= operations.is_poll
    rows = np.flatnonzero(held & (operations.type == OK))
    return rows[(operations.high_watermark[rows] != NONE) & (operations.completed[rows] != NEVER)]


def _read_bounds(operations: Operations, stating: Ints) -> Bounds:
    """Reads: what a poll has shown, and the log ends that are `stating`."""
    last, high = _last_delivered(operations), np.full(len(operations), NEVER, np.int64)
    low = np.where(last < 0, -1, 2 * last + 1)
    high[stating] = 2 * (operations.high_watermark[stating] - 1) + 1
    low[stating] = np.maximum(low[stating], high[stating])
    there = np.diff(operations.starts) > 0
    there[stating] = True
    index = np.flatnonzero(there & (operations.completed != NEVER))
    return Bounds.of(operations, index, low[index], high[index], operations.completed[index])
