"""Judge the topic-partitions of a transactional log by the laws of a log (R0 to R2, S1 to S3).

Transactions are whole or not at all; the log below them is still a log. The kernels of the check of logs
(`checkers/kernels/log.py`) judge it, so that one defect has one name in both checks. Provenance and losses depend on
the outcome of transactions and are checked by T1 and T2 (`log_rules.py`). The differences from a log without
transactions:

* A send of a committed transaction counts as acknowledged at its stated offset; so does a send of a transaction of
  unknown outcome, once a reader proves the commit. The stated offsets of an aborted transaction, and of one of unknown
  outcome that no reader saw, are compared with nothing: those records may be missing.
* Every delivery counts for agreement (R0) and real time (R1), also that of a reader of uncommitted records. A poll for
  committed records is checked for gaps (R2) by records of committed transactions alone.
* The end of a transaction of unknown outcome is that of the first reader that proves the commit.
* Polls continue each other (S1, S2) only within a stated session, from one committed transaction to the next: an
  aborted one may rewind its consumer or not.
* The sends of one transaction are in the log in the order in which it made them, for any outcome, and so are those of
  the committed transactions of one process (S3).
* A record delivered before its transaction began is a cycle (T4), and is not counted again as `future_read`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from squall.results.checkers.kernels.agreement import check_agreement, check_duplicates
from squall.results.checkers.kernels.findings import Finding, Findings
from squall.results.checkers.kernels.observed import Observed
from squall.results.checkers.kernels.operations import (
    ACKS_ALL,
    FINAL_POLL,
    INFO,
    NEVER,
    NONE,
    OK,
    POLL,
    SEND,
    Flags,
    Ints,
    Operations,
)
from squall.results.checkers.kernels.order import check_real_time
from squall.results.checkers.kernels.sessions import check_sessions


class Transactions(Protocol):
    """The parts of `log_rules.LogTransactions` that the laws need."""

    @property
    def type(self) -> Ints: ...
    @property
    def invoked(self) -> Ints: ...
    @property
    def completed(self) -> Ints: ...
    @property
    def asked(self) -> Ints: ...
    @property
    def answered(self) -> Ints: ...
    @property
    def process(self) -> Ints: ...
    @property
    def by_process(self) -> Ints: ...
    @property
    def committed_only(self) -> Flags: ...
    @property
    def session(self) -> Ints: ...
    @property
    def sender(self) -> Ints: ...
    @property
    def sent_partition(self) -> Ints: ...
    @property
    def sent_value(self) -> Ints: ...
    @property
    def sent_offset(self) -> Ints: ...
    @property
    def reader(self) -> Ints: ...
    @property
    def run(self) -> Ints: ...
    @property
    def partition(self) -> Ints: ...
    @property
    def offset(self) -> Ints: ...
    @property
    def value(self) -> Ints: ...


@dataclass(frozen=True)
class Known:
    """The results of T1 and T2.

    By delivered record: the record `sent` (-1: none). By sent record: its `place` (-1: not one place) and whether it is
    `lost`. By transaction: whether it was committed (`effective`), since when that was `known`, and whether it is a
    `whole` final read.
    """

    sent: Ints
    place: Ints
    lost: Flags
    effective: Flags
    known: Ints
    whole: Flags


@dataclass(frozen=True)
class LawFinding:
    """One breach of a law: transactions in their roles, the record that it is about and the other one, if any."""

    anomaly: str
    transactions: tuple[int, ...]
    roles: tuple[str, ...]
    partition: int
    offset: int
    value: int
    other: tuple[int, int] | None = None
    """Offset and value."""


@dataclass
class Breaches:
    """Anomalies by name with their number, and a few of each."""

    most: int
    counts: Counter[str] = field(default_factory=Counter)
    instances: list[LawFinding] = field(default_factory=list)

    def add(self, anomaly: str, total: int, instances: Sequence[LawFinding]) -> None:
        """Add `total` breaches; `instances` has the first of them."""
        room = self.most - min(self.most, self.counts[anomaly])
        self.instances += instances[:room]
        self.counts += Counter({anomaly: total})


def check_laws(transactions: Transactions, known: Known, breaches: Breaches, deadline: float) -> int:
    """Judge each topic-partition as a log, until a `deadline` of `time.monotonic`. Return how many were not judged."""
    _order_of_sends(transactions, known, breaches)
    foreseen = _foreseen(transactions, known)
    ranks = np.empty(len(transactions.by_process), np.int64)
    ranks[transactions.by_process] = np.arange(len(ranks))
    sessions = _sessions(transactions)
    left = 0
    for sends, deliveries in _by_partition(transactions):
        if time.monotonic() > deadline:
            left += 1
            continue
        if len(deliveries) == 0 and not known.effective[transactions.sender[sends]].any():
            continue
        log = _Log(transactions, known, sends, deliveries)
        log.agreement(breaches)
        log.real_time(foreseen, breaches)
        log.polls(ranks, sessions, breaches)
    return left


def _by_partition(transactions: Transactions) -> Iterator[tuple[Ints, Ints]]:
    """By topic-partition: the records sent to it, and those delivered of it, both in the order of the table."""
    names = np.unique(np.concatenate((transactions.sent_partition, transactions.partition)))
    sent, delivered = (
        np.split(order, np.searchsorted(where[order], names[1:]))
        for where, order in (
            (one, np.argsort(one, kind="stable")) for one in (transactions.sent_partition, transactions.partition)
        )
    )
    yield from zip(sent, delivered, strict=True) if len(names) else ()


def _foreseen(transactions: Transactions, known: Known) -> Flags:
    """By record sent: whether a committed reader received it and had ended before its transaction began."""
    foreseen = np.zeros(len(transactions.sent_value), np.bool_)
    at = np.flatnonzero((known.sent >= 0) & transactions.committed_only[transactions.reader])
    at = at[known.effective[transactions.reader[at]]]
    writer, reader = transactions.sender[known.sent[at]], transactions.reader[at]
    early = transactions.completed[reader] < transactions.invoked[writer]
    early |= (
        (transactions.process[reader] == transactions.process[writer])
        & (transactions.answered[reader] <= transactions.asked[writer])
        & (transactions.asked[reader] < transactions.asked[writer])
    )
    foreseen[known.sent[at[early]]] = True
    return foreseen


def _sessions(transactions: Transactions) -> Ints:
    """By transaction: a number of its session, equal to that of the transaction before if its polls continue there.

    -1 if no session was stated.
    """
    order = transactions.by_process
    polls = np.zeros(len(order), np.bool_)
    polls[transactions.reader] = True
    cut = (np.diff(transactions.process[order], prepend=NONE) != 0) | (
        np.diff(transactions.session[order], prepend=NONE) != 0
    )
    ended_badly = (transactions.type[order] != OK) & polls[order]
    cut |= ended_badly | np.concatenate((np.zeros(1, np.bool_), ended_badly))[: len(order)]
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(cut)
    return np.where(transactions.session == NONE, -1, numbers)


def _order_of_sends(transactions: Transactions, known: Known, breaches: Breaches) -> None:
    """Check S3: within a transaction, and from one committed transaction of a process to the next."""
    ranks = np.empty(len(transactions.by_process), np.int64)
    ranks[transactions.by_process] = np.arange(len(ranks))
    sender = transactions.sender
    counts = known.effective[sender] | (transactions.type[sender] == INFO)
    sends = np.flatnonzero(counts & (known.place >= 0))
    process = transactions.process[sender[sends]]
    order = np.lexsort((sends, ranks[sender[sends]], transactions.sent_partition[sends], process))
    sends, process = sends[order], process[order]
    first, second = sends[:-1], sends[1:]
    same = (np.diff(process) == 0) & (transactions.sent_partition[first] == transactions.sent_partition[second])
    same &= (sender[first] == sender[second]) | (known.effective[sender[first]] & known.effective[sender[second]])
    same &= (sender[first] == sender[second]) | _one_after_the_other(transactions, sender[first], sender[second])
    wrong = np.flatnonzero(same & (known.place[second] < known.place[first]))
    breaches.add(
        "nonmonotonic_send",
        len(wrong),
        [
            LawFinding(
                "nonmonotonic_send",
                tuple(dict.fromkeys((int(sender[one]), int(sender[two])))),
                ("earlier", "later") if sender[one] != sender[two] else ("both",),
                int(transactions.sent_partition[two]),
                int(known.place[two]),
                int(transactions.sent_value[two]),
                (int(known.place[one]), int(transactions.sent_value[one])),
            )
            for one, two in zip(
                first[wrong[: breaches.most]].tolist(), second[wrong[: breaches.most]].tolist(), strict=True
            )
        ],
    )


def _one_after_the_other(transactions: Transactions, first: Ints, second: Ints) -> Flags:
    """For transactions of one process: whether the first had ended when the second began.

    Two that took no time at one instant have no order.
    """
    return (transactions.answered[first] <= transactions.asked[second]) & (
        (transactions.asked[first] < transactions.asked[second])
        | (transactions.answered[first] < transactions.answered[second])
    )


_NAMES: Final = {
    "previous_reader": "earlier",
    "reader": "reader",
    "other_reader": "other_reader",
    "witness_reader": "shown",
    "writer": "writer",
    "earlier": "earlier",
    "later": "later",
}
"""The role of a transaction in this module, by the role of an operation in a proof of the kernels."""


class _Log:
    """One topic-partition as operations of a log: its sends first, then its polls."""

    def __init__(self, transactions: Transactions, known: Known, sends: Ints, deliveries: Ints) -> None:
        self.transactions, self.known, self.sends = transactions, known, sends
        order = np.lexsort((deliveries, transactions.run[deliveries], transactions.reader[deliveries]))
        self.deliveries = deliveries[order]
        named = transactions.sent_partition[sends] if len(sends) else transactions.partition[deliveries]
        self.partition = int(named[0])

    def agreement(self, breaches: Breaches) -> None:
        """Check R0: no offset holds two values, no value lies at two offsets."""
        operations, owners, _ = self._timed(self.sends)
        observed, findings = Observed.of(operations), Findings()
        check_agreement(operations, observed, findings)
        check_duplicates(operations, observed, findings)
        self._told(findings, operations, owners, breaches)

    def real_time(self, foreseen: Flags, breaches: Breaches) -> None:
        """Check R1: `rt_order` and `future_read`."""
        sends = self.sends[~foreseen[self.sends]]
        operations, owners, order = self._timed(sends)
        observed, findings = Observed.of(operations), Findings()
        lost = np.concatenate((self.known.lost[sends], np.zeros(len(order) - len(sends), np.bool_)))[order]
        check_real_time(operations, observed, lost, False, findings)
        self._told(findings, operations, owners, breaches)

    def polls(self, ranks: Ints, sessions: Ints, breaches: Breaches) -> None:
        """Check R2, S1, S2: what one poll delivers, and what a stated session does from poll to poll.

        Readers of committed records may leave out what was aborted; readers of uncommitted ones must leave out nothing
        that any reader has.
        """
        transactions, known = self.transactions, self.known
        promised = transactions.committed_only[transactions.reader[self.deliveries]]
        if promised.any():
            sent = known.sent[self.deliveries]
            committed = np.ones(len(sent), np.bool_)
            committed[sent >= 0] = known.effective[transactions.sender[sent[sent >= 0]]]
            self._polls_of(promised, self.deliveries[promised | committed], ranks, sessions, breaches)
        if not promised.all():
            self._polls_of(~promised, self.deliveries, ranks, sessions, breaches)

    def _polls_of(self, judged: Flags, kept: Ints, ranks: Ints, sessions: Ints, breaches: Breaches) -> None:
        """Judge these deliveries poll by poll; each of the others that are `kept` counts as a separate poll."""
        transactions = self.transactions
        alone = ~np.isin(kept, self.deliveries[judged])
        starts, readers, runs = _grouped(transactions, kept, alone)
        apart = alone[starts]
        by_rank = np.lexsort((runs, ranks[readers]))
        moment = np.empty(len(by_rank), np.int64)
        moment[by_rank] = np.arange(len(by_rank))
        session = np.where(apart, -1, sessions[readers])
        session = np.where(session < 0, len(transactions.type) + 1 + np.arange(len(readers)), session)
        operations, owners, _ = self._operations(
            self.sends, kept, starts, readers,
            send_times=(np.zeros(len(self.sends), np.int64), np.full(len(self.sends), NEVER)),
            poll_times=(2 * moment, 2 * moment + 1), session=session,
        )  # fmt: skip
        observed, findings = Observed.of(operations), Findings()
        check_sessions(operations, observed, findings)
        self._told(findings, operations, owners, breaches)

    def _timed(self, sends: Ints) -> tuple[Operations, Ints, Ints]:
        """Make operations of these sends and all polls, with their times."""
        transactions, known = self.transactions, self.known
        starts, readers, _ = _grouped(transactions, self.deliveries)
        sender = transactions.sender[sends]
        ended = np.where(known.effective[sender], known.known[sender], NEVER)
        return self._operations(
            sends, self.deliveries, starts, readers,
            send_times=(transactions.invoked[sender], ended),
            poll_times=(transactions.invoked[readers], transactions.completed[readers]),
            session=np.arange(len(readers)),
        )  # fmt: skip

    def _operations(
        self,
        sends: Ints,
        deliveries: Ints,
        starts: Ints,
        readers: Ints,
        *,
        send_times: tuple[Ints, Ints],
        poll_times: tuple[Ints, Ints],
        session: Ints,
    ) -> tuple[Operations, Ints, Ints]:
        """Make the operations of a log, by invocation; return also the transaction of each, and their order.

        In the numbers of that order, sends precede polls.
        """
        transactions, known = self.transactions, self.known
        sender, count = transactions.sender[sends], len(sends)
        owners = np.concatenate((sender, readers))
        invoked, completed = (np.concatenate(both) for both in zip(send_times, poll_times, strict=True))
        order = np.argsort(invoked, kind="stable")
        committed = known.effective[sender]
        told = np.where(committed, transactions.sent_offset[sends], NONE)
        lengths = np.concatenate((np.zeros(count, np.int64), np.diff(np.append(starts, len(deliveries)))))[order]
        begins = np.concatenate((np.zeros(count, np.int64), starts))[order]
        edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        records = deliveries[np.repeat(begins - edges[:-1], lengths) + np.arange(int(edges[-1]))]
        polls = np.where(known.whole[readers], FINAL_POLL, POLL)
        columns = {
            "f": np.concatenate((np.full(count, SEND), polls)),
            "type": np.concatenate((np.where(committed & (told != NONE), OK, INFO), np.full(len(readers), OK))),
            "client": np.concatenate((np.full(count, -1), np.zeros(len(readers), np.int64))),
            "session": np.concatenate((np.full(count, -1), session)),
            "value": np.concatenate((transactions.sent_value[sends], np.full(len(readers), NONE))),
            "offset": np.concatenate((told, np.full(len(readers), NONE))),
            "invoked": invoked,
            "completed": completed,
        }
        starts_of_rows = edges.astype(np.int32)
        offset, value = transactions.offset[records], transactions.value[records]
        made = Operations(_table(columns, order), starts_of_rows, offset, value, several_clocks=False)
        return made, owners[order], order

    def _told(self, findings: Findings, operations: Operations, owners: Ints, breaches: Breaches) -> None:
        """Add the findings of the kernels, with transactions in place of operations."""
        for anomaly, total in findings.counts.items():
            some = [self._finding(one, operations, owners) for one in findings.instances if one.anomaly == anomaly]
            breaches.add(anomaly, total, some)

    def _finding(self, one: Finding, operations: Operations, owners: Ints) -> LawFinding:
        parts: dict[int, str] = {}
        for role, row in one.roles:
            parts.setdefault(int(owners[row]), _NAMES[role])
        values = list(one.values)
        if one.anomaly in ("rt_order", "future_read"):
            values = [
                self._value_at(row, offset, operations)
                for (_, row), offset in zip(reversed(one.roles), (one.offset, one.other_offset), strict=True)
            ]
        elif one.anomaly in ("int_nonmonotonic", "nonmonotonic_poll"):
            row = one.roles[-1][1]
            values = [self._value_at(row, one.offset, operations)]
        value = values[0] if values else NONE
        other = None
        if one.anomaly == "inconsistent_offset" and len(values) > 1:
            other = (one.offset, values[1])
        elif one.other_offset >= 0:
            other = (one.other_offset, values[1] if len(values) > 1 else values[0])
        return LawFinding(one.anomaly, tuple(parts), tuple(parts.values()), self.partition, one.offset, value, other)

    def _value_at(self, row: int, offset: int, operations: Operations) -> int:
        """The value that an operation sent, or was delivered at an offset."""
        if operations.f[row] == SEND:
            return int(operations.value[row])
        begin, end = operations.starts[row], operations.starts[row + 1]
        at = np.flatnonzero(operations.record_offset[begin:end] == offset)
        return int(operations.record_value[begin + at[-1]]) if len(at) else int(NONE)


def _grouped(transactions: Transactions, deliveries: Ints, alone: Flags | None = None) -> tuple[Ints, Ints, Ints]:
    """For deliveries sorted by transaction and poll: where each poll begins, its transaction, its number.

    Each delivery in `alone` is a separate poll.
    """
    reader, run = transactions.reader[deliveries], transactions.run[deliveries]
    fresh = (np.diff(reader, prepend=-1) != 0) | (np.diff(run, prepend=NONE) != 0)
    if alone is not None:
        fresh |= alone
    starts = np.flatnonzero(fresh)
    return starts, reader[starts], run[starts]


def _table(columns: Mapping[str, Ints], order: Ints) -> pa.Table:
    """Make the table of a log that the kernels need.

    No epochs or log ends are stated here; all producers of transactions are idempotent and wait for all in-sync
    replicas.
    """
    count = len(order)
    narrow = {"f": pa.int8(), "type": pa.int8(), "client": pa.int32(), "session": pa.int32()}
    arrays = {name: pa.array(one[order], narrow.get(name, pa.int64())) for name, one in columns.items()}
    arrays["acks"] = pa.array(np.full(count, ACKS_ALL, np.int8))
    arrays["idempotent"] = pa.array(np.ones(count, np.bool_))
    arrays["sequence"] = pa.nulls(count, pa.int64())
    arrays |= {name: pa.nulls(count, pa.int64()) for name in ("high_watermark", "log_start")}
    arrays["leader_epoch"] = pa.nulls(count, pa.int32())
    return pa.table(arrays)
