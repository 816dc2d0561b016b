"""Check R3: what responses state about the log, against themselves and against operations that began afterwards.

A fetch response states the high watermark of its replica, and where the replica's log starts. Everything below a high
watermark is committed, so that a send which begins after such a response was received gets an offset at or above it,
under any leader, and also if the poll delivered nothing (`hw_ahead`). Retention and delete-records remove committed
records only, so that a log never starts beyond the high watermark of the same response (`log_start_ahead`, DP-07).

The response to a DeleteRecords states the low watermark: no replica that is alive has anything below it. The node that
answered has raised its own log start before, durably; it never delivers anything below again (`deleted_read`, DP-16).

Legal, and not reported:

* A deposed leader, a follower or a restarted replica states a lower high watermark than others: it is a lower bound.
* A send that had begun when the response came may lie anywhere.
* Sends of unknown outcome, and sends under acks=1 or 0, whose stated offset may never have been committed.
* A final read may take its log start and its end from two responses; the log may have moved in between.
* Nodes that write a log's new start down only now and then (Apache Kafka: once a minute, by default) may deliver
  deleted records after a restart. The caller says whose nodes these are (`keeps_deletions` in `log/partition.py`).
* Another node than the one that answered a deletion may deliver deleted records: it may have been fenced then, and
  clients do not see that. So may any node to a poll that began before the response came.

One defect gets one name: where an order of appends and deliveries is wrong, or a record is lost, the high watermark
was wrong too, so these rules are for histories that break no other. Slices (`log/slices.py`) do not see the polls
of one another; the task that measures the whole log (`log/figures.py`) asks `contradicts_stated_ends` for all of them.
"""

from __future__ import annotations

import numpy as np

from squall.results.checkers.kernels.findings import WITNESSES, Finding, Findings
from squall.results.checkers.kernels.operations import DELETE_RECORDS, NEVER, NONE, OK, POLL, Ints, Operations


def check_stated_ends(operations: Operations, findings: Findings) -> None:
    """Find responses whose stated log start or high watermark cannot be true, if no other rule is broken."""
    if findings.counts:
        return
    stating = _stating(operations)
    starts = _starts_beyond_the_end(operations, stating)
    found = [
        Finding("log_start_ahead", int(operations.high_watermark[row]), (("reader", int(row)),))
        for row in starts[:WITNESSES]
    ]
    findings.add("log_start_ahead", len(starts), found)
    polls, sends = _sends_below_a_stated_end(operations, stating)
    found = [
        Finding("hw_ahead", int(operations.offset[send]), (("earlier", int(poll)), ("later", int(send))))
        for poll, send in zip(polls[:WITNESSES], sends[:WITNESSES], strict=True)
    ]
    findings.add("hw_ahead", len(sends), found)
    deletions, polls = _deleted_and_delivered(operations)
    found = [
        Finding("deleted_read", _lowest(operations, poll), (("earlier", int(deletion)), ("reader", int(poll))))
        for deletion, poll in zip(deletions[:WITNESSES], polls[:WITNESSES], strict=True)
    ]
    findings.add("deleted_read", len(polls), found)


def contradicts_stated_ends(operations: Operations) -> bool:
    """Whether a stated log start or high watermark cannot be true; needs no values."""
    stating = _stating(operations)
    return bool(
        len(_starts_beyond_the_end(operations, stating))
        or len(_sends_below_a_stated_end(operations, stating)[1])
        or len(_deleted_and_delivered(operations)[1])
    )


def _stating(operations: Operations) -> Ints:
    """Polls that were answered and state a high watermark."""
    polls = np.flatnonzero((operations.f == POLL) & (operations.type == OK))
    return polls[(operations.high_watermark[polls] != NONE) & (operations.completed[polls] != NEVER)]


def _starts_beyond_the_end(operations: Operations, stating: Ints) -> Ints:
    start, end = operations.stated_log_start[stating], operations.high_watermark[stating]
    return stating[(start != NONE) & (start > end)]


def _sends_below_a_stated_end(operations: Operations, stating: Ints) -> tuple[Ints, Ints]:
    """Polls and sends, pair by pair: the send began after the poll ended, and lies below the end that this stated."""
    sends = np.flatnonzero(operations.is_acked & (operations.offset != NONE))
    ended = operations.completed[stating] + operations.clock_error[stating]
    order = np.argsort(ended, kind="stable")
    stating, ended = stating[order], ended[order]
    highest = np.maximum.accumulate(operations.high_watermark[stating])
    count = np.searchsorted(ended, operations.invoked[sends] - operations.clock_error[sends], side="left")
    sends, count = sends[count > 0], count[count > 0]
    wrong = np.flatnonzero(highest[count - 1] > operations.offset[sends])
    first = np.searchsorted(highest, operations.offset[sends[wrong]], side="right")
    return stating[first], sends[wrong]


def _lowest(operations: Operations, poll: int) -> int:
    """The first offset that a poll delivered."""
    return int(operations.record_offset[operations.starts[poll]])


def _deleted_and_delivered(operations: Operations) -> tuple[Ints, Ints]:
    """Deletions and polls, pair by pair: the poll began after the deletion ended, and the same node delivered to it
    something below the low watermark that it had stated.
    """
    answered = (operations.type == OK) & (operations.completed != NEVER) & (operations.node != NONE)
    deletions = np.flatnonzero(answered & (operations.f == DELETE_RECORDS) & (operations.stated_log_start != NONE))
    if not len(deletions):
        return deletions, deletions
    polls = np.flatnonzero(answered & operations.is_poll & (np.diff(operations.starts) > 0))
    pairs = [_of_one_node(operations, deletions, polls, node) for node in np.unique(operations.node[deletions])]
    before, after = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return before, after


def _of_one_node(operations: Operations, deletions: Ints, polls: Ints, node: int) -> tuple[Ints, Ints]:
    deletions, polls = deletions[operations.node[deletions] == node], polls[operations.node[polls] == node]
    ended = operations.completed[deletions] + operations.clock_error[deletions]
    order = np.argsort(ended, kind="stable")
    deletions, ended = deletions[order], ended[order]
    highest = np.maximum.accumulate(operations.stated_log_start[deletions])
    count = np.searchsorted(ended, operations.invoked[polls] - operations.clock_error[polls], side="left")
    polls, count = polls[count > 0], count[count > 0]
    lowest = operations.record_offset[operations.starts[polls]]
    wrong = np.flatnonzero(highest[count - 1] > lowest)
    first = np.searchsorted(highest, lowest[wrong], side="right")
    return deletions[first], polls[wrong]
