"""Check R2, S1, S2: what one poll delivers, and a session from poll to poll (see `log.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.findings import WITNESSES, Finding, Findings
from squall.results.checkers.kernels.observed import Observed
from squall.results.checkers.kernels.operations import FINAL_POLL, NEVER, NONE, Ints, Operations, Rows


@dataclass(frozen=True)
class Deliveries:
    """All records in the order in which each session received them, each with the one delivered just before.

    `previous` is NONE at the start of a session, and where two polls of a session overlapped in time, so that their
    order is unknown.
    """

    record: Ints
    offset: Ints
    poll: Ints
    previous: Ints
    previous_poll: Ints

    @classmethod
    def of(cls, operations: Operations, polls: Ints) -> Deliveries:
        """Collect what some polls delivered: all those of their sessions that delivered something."""
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


def check_sessions(operations: Operations, observed: Observed, findings: Findings) -> None:
    """Check deliveries within polls (R2) and from poll to poll of a session (S1, S2)."""
    irregular = loops.irregular_sessions(
        operations.starts, observed.record_key, observed.slots.base, operations.invoked, operations.completed,
        operations.in_order, *numbered(observed), observed.first_poll,
    )  # fmt: skip
    if not irregular.any():
        return
    numbers, _ = observed.sessions
    deliveries = Deliveries.of(operations, np.flatnonzero((np.diff(operations.starts) > 0) & irregular[numbers]))
    known = deliveries.previous != NONE
    inside = deliveries.previous_poll == deliveries.poll
    back = known & (deliveries.previous >= deliveries.offset)
    slot, final = observed.slots.index(deliveries.offset), operations.f[deliveries.poll] == FINAL_POLL
    passed = np.where(final, observed.last_kept_before[slot], observed.last_read_before[slot])
    skip = known & ~back & (deliveries.previous < passed)
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


def numbered(observed: Observed) -> tuple[Rows, int]:
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
