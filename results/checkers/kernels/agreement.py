"""Check R0: offsets and values agree one to one, and everything read was sent (see `log.py`)."""

from __future__ import annotations

from typing import Final

import numpy as np

from squall.results.checkers.kernels.findings import WITNESSES, Finding, Findings
from squall.results.checkers.kernels.observed import Observed, Pairs, writers
from squall.results.checkers.kernels.operations import FAIL, NONE, Ints, Operations
from squall.results.checkers.kernels.removed_records import explained_by_removal

UNREADABLE_VALUE: Final = -1


def check_agreement(operations: Operations, observed: Observed, findings: Findings) -> None:
    """Check that no offset holds two values, by reads, or by acknowledgements where there was no read."""
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
    """Check that no two appends were acknowledged at one offset that was never read."""
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
    """Check that reads below the log start agree with acknowledgements: nothing is lost there, but all must agree."""
    acked = observed.acked[operations.offset[observed.acked] < observed.log_start]
    slot = observed.slots.index(operations.offset[acked])
    other = observed.read[slot] & ~observed.conflicting[slot] & (observed.value[slot] != operations.value[acked])
    if not other.any():
        return
    acked, slot = acked[other], slot[other]
    moved = np.isin(operations.value[acked], acknowledged_elsewhere(operations, observed).value)
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


def check_provenance(operations: Operations, observed: Observed, findings: Findings) -> None:
    """Check that everything read was sent and did not fail. A value acknowledged where it was read was sent."""
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


def check_duplicates(operations: Operations, observed: Observed, findings: Findings) -> None:
    """Check that no value lies at two offsets.

    Not guaranteed, and only counted: without idempotence, and where the log has lost its front (`removed_records.py`).
    """
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
    idempotent = (writer >= 0) & operations.idempotent[writer]
    promised = idempotent & ~explained_by_removal(operations, offset[twice], offset[twice + 1])
    found = []
    for place, who in zip(twice[promised][:WITNESSES], writer[promised], strict=False):
        shown = (("reader", int(proof[place])), ("other_reader", int(proof[place + 1])))
        roles = (("writer", int(who)), *(one for one in shown if one[1] != who))
        found.append(Finding("duplicate", int(offset[place]), roles, (int(value[place]),), int(offset[place + 1])))
    findings.add("duplicate", int(promised.sum()), found)
    findings.noted["duplicate_not_idempotent"] = int((~idempotent).sum())
    findings.noted["duplicate_after_removal"] = int((idempotent & ~promised).sum())


def _perhaps_twice(operations: Operations, observed: Observed) -> tuple[Pairs, Ints]:
    """Return all pairs and acknowledged sends of values that may lie at two offsets.

    If no value was sent twice, such a value was read at another offset than where its send was acknowledged, or at two
    offsets without acknowledgement: it is the value of an unplaced pair.
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


def acknowledged_elsewhere(operations: Operations, observed: Observed) -> Pairs:
    """Return pairs that show a value at another offset than the acknowledged one, of idempotent sends: see `duplicate`.

    Without idempotence such a pair is a copy, which does not excuse a missing record.
    """
    pairs = observed.unplaced[observed.unplaced.writer >= 0]
    return pairs[(operations.offset[pairs.writer] != pairs.offset) & operations.idempotent[pairs.writer]]
