"""Check L: nothing acknowledged under acks=all is lost, nothing read is retracted (see `log.py`)."""

from __future__ import annotations

from typing import Final

import numpy as np

from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.agreement import acknowledged_elsewhere
from squall.results.checkers.kernels.findings import WITNESSES, Finding, Findings
from squall.results.checkers.kernels.observed import Observed, Pairs
from squall.results.checkers.kernels.operations import ACKS_ALL, FINAL_POLL, NONE, OK, Flags, Ints, Operations
from squall.results.checkers.kernels.sessions import numbered

_ALL: Final = np.zeros(0, np.int8)


def check_losses(operations: Operations, observed: Observed, findings: Findings) -> Flags:
    """Check for acknowledged records that are missing and read ones that were retracted. Return the lost sends."""
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
    """The acknowledged sends that are lost, and the number of those for which this is unknown."""
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
    elsewhere = np.isin(value, acknowledged_elsewhere(operations, observed).value)
    in_final = final.value[slot] == value
    covered = final.covers(offset)
    beyond = final.complete & (offset > final.end) & (operations.completed[acked] < final.marker_invoked)
    read = observed.read[slot]
    read_here = observed.is_read_at(offset, value)
    undecided = ~covered & ~beyond
    open_to_doubt = undecided & ~read_here
    passed_over = read | _passed_over(operations, observed)[slot] if open_to_doubt.any() else read
    gone = (covered & ~in_final) | beyond | (open_to_doubt & passed_over)
    gone &= ~(elsewhere & ~read_here)
    return acked[gone], int((open_to_doubt & ~gone).sum())


def _passed_over(operations: Operations, observed: Observed) -> Flags:
    """Slots between two records that some poll, or a session, delivered one after the other."""
    passed: Flags = loops.passed_over(
        operations.starts, observed.record_key, observed.slots.base, operations.invoked, operations.completed,
        operations.in_order, *numbered(observed), len(observed.slots),
    )  # fmt: skip
    return passed


def _acked_without_offset(operations: Operations, observed: Observed) -> Ints:
    """Sends acknowledged without an offset, before a complete final read that does not have them."""
    final = observed.final
    unplaced = np.flatnonzero(operations.is_acked & (operations.offset == NONE))
    if not final.complete or observed.log_start > 0:
        return unplaced[:0]
    early = unplaced[operations.completed[unplaced] < final.marker_invoked]
    return early[loops.first_places(operations.value[early], final.value, _ALL) < 0]


def _retracted(operations: Operations, observed: Observed, lost: Flags) -> Pairs:
    """Pairs that were read and that the final read does not have, nor another value in their place."""
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
    """The number of sends acknowledged under acks 0 or 1 that a complete final read does not have."""
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
    """The final poll that passed over an offset, else the last one; another poll if there was no final read."""
    final = operations.f[operations.record_poll] == FINAL_POLL
    records = np.flatnonzero(final) if final.any() else np.arange(len(operations.record_offset))
    if len(records) == 0:
        return []
    after = records[operations.record_offset[records] > offset]
    if len(after):
        return [int(operations.record_poll[after[np.argmin(operations.record_offset[after])]])]
    return [int(operations.record_poll[records[np.argmax(operations.record_offset[records])]])]
