"""Check a transactional log: what may be delivered to consumers of committed records (T1 to T4).

A transaction sends records to topic-partitions, polls others, and is committed (`ok`), aborted for certain (`fail`) or
of unknown outcome (`info`). Values are unique. Each topic-partition is also judged as a log, by the laws of the check
of logs (`log_laws.py`): what offsets hold, and in which order, and what a poll may leave out. The rules for readers of
committed records:

T1  no record of an aborted transaction is delivered (`aborted_read`), nor, to any reader, one that was never sent
    there (`phantom`);
T2  a transaction of unknown outcome, a record of which was delivered to another, was committed. All that a committed
    transaction sent is in the log (`lost_write`): no other value is at its offset, no poll passes over it if it was
    never delivered (passing over a delivered one is an `int_poll_skip`, as in any log), and the final reads of its
    topic-partition together have it, if one of them passes over it, or begins after the commit was known. For a
    committed record that was never delivered and that no later final read covers, this is unknown;
T3  a transaction is not delivered its own records before it is committed (`precommitted_read`);
T4  there is no cycle of transactions each of which was delivered a record of the one before, alone or together
    with process order or real time (`G1c` and its variants). Interleaved records of transactions (G0) are normal in
    such a log, and so is a reader that lags behind; neither is an anomaly.

Polls count regardless of the outcome of their transaction: a consumer must never receive bad data. But only a committed
transaction takes part in T4: one that was acknowledged, or of unknown outcome and committed by T2; then what it was
delivered counts as that of any other. Readers of uncommitted records are checked by the laws of a log alone.

A *final read* takes its topic-partitions whole, from their beginnings to their ends; several may share the work. One
that was not acknowledged (`ok`) may not have reached the end, and counts as any other poll.

A record without a stated offset lies where it was delivered. One that was delivered at another offset than the stated
one has no offset to pass over: it is a `duplicate`, by the laws of a log.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.checkers.common.text import several
from squall.results.checkers.kernels.operations import FAIL, INFO, NEVER, NONE, OK, Flags, Ints
from squall.results.checkers.transactions.columns import (
    UnusableTransactions,
    conformed,
    refuse_impossible,
    refuse_overlaps,
)
from squall.results.checkers.transactions.cycles import Cycles, find_cycles
from squall.results.checkers.transactions.dependencies import WR, edges_of, joined, process_order
from squall.results.checkers.transactions.log_laws import Breaches, Known, check_laws
from squall.results.history.table_schemas import LOG_OPTIONAL, LOG_SCHEMA

WITNESSES: Final = 8
SECONDS: Final = 120.0

_SENT: Final = ("sent_partition", "sent_value", "sent_offset")
_POLLED: Final = ("polled_run", "polled_partition", "polled_offset", "polled_value")


@dataclass(frozen=True)
class LogTransactions:
    """One element per transaction; then per covered topic-partition, per record sent, and per record delivered.

    `covering` is the transaction of each covered topic-partition. `invoked` and `completed` are widened by the error of
    the clock, `asked` and `answered` are the process's own times; `by_process` is all transactions in the order of
    processes.
    """

    op_id: Ints
    process: Ints
    type: Ints
    invoked: Ints
    completed: Ints
    asked: Ints
    answered: Ints
    by_process: Ints
    committed_only: Flags
    final: Flags
    session: Ints
    covering: Ints
    covered: Ints
    sender: Ints
    sent_partition: Ints
    sent_value: Ints
    sent_offset: Ints
    reader: Ints
    run: Ints
    partition: Ints
    offset: Ints
    value: Ints

    def __len__(self) -> int:
        return len(self.op_id)

    @classmethod
    def of(cls, table: pa.Table) -> LogTransactions:
        """Read rows of `LOG_SCHEMA`. Raises UnusableTransactions if a value was sent twice."""
        for name in LOG_OPTIONAL:
            if name not in table.column_names:
                table = table.append_column(LOG_SCHEMA.field(name), pa.nulls(len(table), LOG_SCHEMA.field(name).type))
        table = conformed(table, LOG_SCHEMA, unknown_within=frozenset(("sent_offset",)))
        for names in (_SENT, _POLLED):
            widths = [pc.list_value_length(table[name]) for name in names]
            if any(not widths[0].equals(other) for other in widths[1:]):
                raise UnusableTransactions(f"the lists in the columns {', '.join(names)} differ in length")
        error, kind = _numbers(table, "clock_error", 0), _numbers(table, "type", INFO)
        if (error < 0).any():
            raise UnusableTransactions("the error of a clock must not be negative")
        asked = _numbers(table, "invoked", 0)
        answered = np.where(kind == INFO, NEVER, _numbers(table, "completed", NEVER))
        process = _numbers(table, "process", -1)
        covering, covered = _covered(table)
        made = cls(
            op_id=_numbers(table, "op_id", -1),
            process=process,
            type=kind,
            invoked=asked - error,
            completed=np.where(answered == NEVER, NEVER, answered + error),
            asked=asked,
            answered=answered,
            by_process=np.lexsort((answered, asked, process)),
            committed_only=np.asarray(table["committed_only"], dtype=np.bool_),
            final=np.asarray(table["final"], dtype=np.bool_),
            session=_numbers(table, "session", int(NONE)),
            covering=covering,
            covered=covered,
            sender=_owners(table, "sent_value"),
            sent_partition=_flat(table, "sent_partition"),
            sent_value=_flat(table, "sent_value"),
            sent_offset=_flat(table, "sent_offset"),
            reader=_owners(table, "polled_value"),
            run=_flat(table, "polled_run"),
            partition=_flat(table, "polled_partition"),
            offset=_flat(table, "polled_offset"),
            value=_flat(table, "polled_value"),
        )
        refuse_impossible(made.op_id, kind, asked, answered)
        refuse_overlaps(made.op_id, process, asked, answered, made.by_process)
        ordered = np.sort(made.sent_value)
        twice = np.flatnonzero(np.diff(ordered) == 0)
        if len(twice):
            raise UnusableTransactions(f"value {ordered[twice[0]]} was sent twice; values must be unique")
        return made


def _numbers(table: pa.Table, name: str, null: int) -> Ints:
    return np.asarray(pc.fill_null(table[name].cast(pa.int64()), null), dtype=np.int64)


def _flat(table: pa.Table, name: str) -> Ints:
    flat = pc.list_flatten(table[name]).cast(pa.int64())
    return np.asarray(pc.fill_null(flat, int(NONE)), dtype=np.int64)


def _owners(table: pa.Table, name: str) -> Ints:
    lengths = np.asarray(pc.list_value_length(table[name])).astype(np.int64)
    return np.repeat(np.arange(len(table)), lengths)


def _covered(table: pa.Table) -> tuple[Ints, Ints]:
    """Transactions, with the topic-partitions that they state as read whole, or else received records of."""
    told = table["final_partitions"]
    silent = np.flatnonzero(np.asarray(pc.is_null(told), dtype=np.bool_))
    sizes = np.asarray(pc.fill_null(pc.list_value_length(told), 0)).astype(np.int64)
    reader = _owners(table, "polled_value")
    delivered = np.isin(reader, silent)
    who = np.concatenate((np.repeat(np.arange(len(table)), sizes), reader[delivered]))
    return who, np.concatenate((_flat(table, "final_partitions"), _flat(table, "polled_partition")[delivered]))


@dataclass(frozen=True)
class LogFinding:
    """One instance: the transactions that prove it, and the record that it is about.

    For the laws of a log there are also the `roles` of the transactions, and the `other` record (offset, value) that
    contradicts the first.
    """

    anomaly: str
    transactions: tuple[int, ...]
    partition: int
    offset: int
    value: int
    roles: tuple[str, ...] = ()
    other: tuple[int, int] | None = None


@dataclass(frozen=True)
class LogFindings:
    """Anomalies by name with their number, a few instances of each, and examples of cycles by row of transactions."""

    counts: dict[str, int] = field(default_factory=dict)
    instances: tuple[LogFinding, ...] = ()
    cycles: Cycles = field(default_factory=Cycles)
    records: int = 0
    undecided: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Valid only if something was checked and nothing is undecided."""
        if self.counts:
            return "invalid"
        return "unknown" if self.undecided or not self.records else "valid"


def check_transactional_log(table: pa.Table, *, seconds: float = SECONDS) -> LogFindings:
    """Check T1 to T4 and the laws of a log over a table of `LOG_SCHEMA`."""
    deadline = time.monotonic() + seconds
    try:
        transactions = LogTransactions.of(table)
    except UnusableTransactions as trouble:
        return LogFindings(undecided=(str(trouble),))
    return _Rules(transactions).findings(deadline)


def _greatest_so_far(values: Ints) -> Ints:
    """By place: where the greatest value up to there is."""
    best = np.maximum.accumulate(values)
    fresh = np.concatenate((np.ones(1, np.bool_), best[1:] > best[:-1]))[: len(values)]
    return np.maximum.accumulate(np.where(fresh, np.arange(len(values)), 0))


class _Rules:
    """The rules over one history; each record delivered has its writer, -1 for none."""

    def __init__(self, transactions: LogTransactions) -> None:
        self.transactions = transactions
        self.counts: dict[str, int] = {}
        self.instances: list[LogFinding] = []
        self.sent = self._sent()
        self.writer = np.full(len(self.sent), -1, np.int64)
        self.writer[self.sent >= 0] = transactions.sender[self.sent[self.sent >= 0]]
        self.promised = transactions.committed_only[transactions.reader]
        self.undecided: list[str] = []
        whole = transactions.committed_only & transactions.final & (transactions.type == OK)
        covers = whole[transactions.covering]
        self.covering, self.covered = transactions.covering[covers], transactions.covered[covers]
        self.final_record = self.promised & whole[transactions.reader]
        self.own = self.writer == transactions.reader
        self.place = self._places()
        self.lost = np.zeros(len(transactions.sent_value), np.bool_)
        self.effective = transactions.type == OK
        by_others = self.promised & (self.writer >= 0) & ~self.own
        seen = self.writer[by_others]
        self.effective[seen[transactions.type[seen] == INFO]] = True
        self.known = self._known()

    def _sent(self) -> Ints:
        """By record delivered: the number of the record sent, -1 if none was sent to that topic-partition."""
        transactions = self.transactions
        if len(transactions.sent_value) == 0 or len(transactions.value) == 0:
            return np.full(len(transactions.value), -1, np.int64)
        order = np.argsort(transactions.sent_value, kind="stable")
        at = np.searchsorted(transactions.sent_value[order], transactions.value)
        sent = order[np.minimum(at, len(order) - 1)]
        same = transactions.sent_value[sent] == transactions.value
        same &= transactions.sent_partition[sent] == transactions.partition
        return np.where(same, sent, -1)

    def findings(self, deadline: float) -> LogFindings:
        self._provenance()
        self._losses()
        self._laws(deadline)
        cycles = self._cycles(deadline)
        self.counts |= cycles.counts
        records = int(self.promised.sum())
        undecided = (*self.undecided, *cycles.undecided)
        return LogFindings(self.counts, tuple(self.instances), cycles, records, undecided)

    def _add(self, anomaly: str, places: list[LogFinding], total: int) -> None:
        if total:
            self.counts[anomaly] = self.counts.get(anomaly, 0) + total
            self.instances += places

    def _provenance(self) -> None:
        """Check T1 and T3; each record counts once."""
        transactions = self.transactions
        aborted = (self.writer >= 0) & (transactions.type[self.writer] == FAIL)
        for anomaly, flags in (
            ("phantom", self.writer < 0),
            ("precommitted_read", self.promised & self.own),
            ("aborted_read", self.promised & aborted & ~self.own),
        ):
            at = np.flatnonzero(flags)
            _, once = np.unique(transactions.value[at], return_index=True)
            at = at[np.sort(once)]
            found = [
                LogFinding(
                    anomaly,
                    tuple(dict.fromkeys(int(who) for who in (self.writer[one], transactions.reader[one]) if who >= 0)),
                    int(transactions.partition[one]),
                    int(transactions.offset[one]),
                    int(transactions.value[one]),
                )
                for one in at[:WITNESSES]
            ]
            self._add(anomaly, found, len(at))

    # T2 ---------------------------------------------------------------------------------------------------------

    def _losses(self) -> None:
        """Find records of committed transactions that a poll passed over, or that final reads lack but should have."""
        transactions = self.transactions
        committed = np.flatnonzero(self.effective[transactions.sender])
        instead = self._replaced(committed)
        witness = np.maximum(self._passed_by(committed), self._left_out(committed))
        witness = np.where(instead >= 0, transactions.reader[instead] if len(transactions.reader) else -1, witness)
        places = np.flatnonzero(witness >= 0)
        lost = committed[places]
        self.lost[lost] = True
        found = [
            LogFinding(
                "lost_write",
                (int(transactions.sender[committed[at]]), int(witness[at])),
                int(transactions.sent_partition[committed[at]]),
                int(self.place[committed[at]]),
                int(transactions.sent_value[committed[at]]),
                other=self._record_delivered(int(instead[at])),
            )
            for at in places[:WITNESSES].tolist()
        ]
        self._add("lost_write", found, len(lost))
        delivered = np.zeros(len(transactions.sent_value), np.bool_)
        delivered[self.sent[(self.sent >= 0) & self.promised]] = True
        self._nobody_knows(committed[(witness < 0) & ~delivered[committed]])

    def _record_delivered(self, delivery: int) -> tuple[int, int] | None:
        """Offset and value of a delivery, None for -1."""
        if delivery < 0:
            return None
        return int(self.transactions.offset[delivery]), int(self.transactions.value[delivery])

    def _nobody_knows(self, records: Ints) -> None:
        """Report the topic-partitions of committed records that no reader and no final read covered."""
        if len(records) == 0:
            return
        names = np.unique(self.transactions.sent_partition[records])
        listed = ", ".join(map(str, names[:WITNESSES].tolist())) + (", …" if len(names) > WITNESSES else "")
        self.undecided.append(
            f"{several(len(records), 'committed record was', 'committed records were')} never delivered, and no final "
            f"read that began later covers topic-partition {listed}"
        )

    def _places(self) -> Ints:
        """By record sent: its offset, or where it was delivered if that was not stated; -1 if that is not one place."""
        transactions = self.transactions
        at = np.flatnonzero(self.sent >= 0)
        sent, offset = self.sent[at], transactions.offset[at]
        count = len(transactions.sent_value)
        least, most = np.full(count, NEVER), np.full(count, -1, np.int64)
        np.minimum.at(least, sent, offset)
        np.maximum.at(most, sent, offset)
        told = transactions.sent_offset != NONE
        least = np.where(told, np.minimum(least, transactions.sent_offset), least)
        most = np.where(told, np.maximum(most, transactions.sent_offset), most)
        return np.where(least == most, most, -1)

    def _passed_by(self, committed: Ints) -> Ints:
        """By record: a transaction in which one poll delivered records before and after it, but not it.

        A record that was delivered to any reader is lost only if final reads pass over it, and none of them has it.
        """
        transactions = self.transactions
        every, final = np.ones(len(transactions.value), np.bool_), self.final_record
        nowhere = self._passed_by_polls(committed[~self._delivered(every)[committed]], every)
        missing = self._passed_by_polls(committed[~self._delivered(final)[committed]], final)
        witness = np.full(len(transactions.sent_value), -1, np.int64)
        for records, who in (missing, nowhere):
            witness[records[who >= 0]] = who[who >= 0]
        return witness[committed]

    def _delivered(self, deliveries: Flags) -> Flags:
        """By record sent: whether it is among these deliveries."""
        delivered = np.zeros(len(self.transactions.sent_value), np.bool_)
        delivered[self.sent[(self.sent >= 0) & deliveries]] = True
        return delivered

    def _passed_by_polls(self, committed: Ints, deliveries: Flags) -> tuple[Ints, Ints]:
        """Return these records, and by record the transaction of a poll that passes over it; -1 if there is none.

        Only polls that made these deliveries count.
        """
        transactions = self.transactions
        records = np.flatnonzero(deliveries)
        order = records[
            np.lexsort(
                (
                    transactions.offset[records],
                    transactions.partition[records],
                    transactions.run[records],
                    transactions.reader[records],
                )
            )
        ]
        first, second = order[:-1], order[1:]
        together = (
            (transactions.reader[first] == transactions.reader[second])
            & (transactions.run[first] == transactions.run[second])
            & (transactions.partition[first] == transactions.partition[second])
            & (transactions.offset[second] > transactions.offset[first] + 1)
        )
        first, second = first[together], second[together]
        witness = np.full(len(committed), -1, np.int64)
        for partition in np.unique(transactions.partition[first]).tolist():
            gaps = np.flatnonzero(transactions.partition[first] == partition)
            gaps = gaps[np.argsort(transactions.offset[first[gaps]], kind="stable")]
            begin, end = transactions.offset[first[gaps]], transactions.offset[second[gaps]]
            widest = _greatest_so_far(end)
            here = np.flatnonzero((transactions.sent_partition[committed] == partition) & (self.place[committed] >= 0))
            offset = self.place[committed[here]]
            at = np.searchsorted(begin, offset) - 1  # the last gap that begins before it
            across = (at >= 0) & (end[widest[np.maximum(at, 0)]] > offset)
            witness[here[across]] = transactions.reader[first[gaps[widest[at[across]]]]]
        return committed, witness

    def _replaced(self, committed: Ints) -> Ints:
        """By record that was never delivered: the delivery at its offset of another value; -1 for none."""
        transactions = self.transactions
        found = np.full(len(committed), -1, np.int64)
        unseen = ~self._delivered(np.ones(len(transactions.value), np.bool_))[committed]
        silent = np.flatnonzero(unseen & (self.place[committed] >= 0))
        if len(silent) and len(transactions.value):
            sought = committed[silent]
            where = np.concatenate((transactions.partition, transactions.sent_partition[sought]))
            offset = np.concatenate((transactions.offset, self.place[sought]))
            order = np.lexsort((np.arange(len(where)), offset, where))
            fresh = (np.diff(where[order], prepend=NONE) != 0) | (np.diff(offset[order], prepend=NONE) != 0)
            first = order[np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))]
            leader = np.empty(len(order), np.int64)
            leader[order] = first
            there = leader[len(transactions.value) :]
            found[silent] = np.where(there < len(transactions.value), there, -1)
        return found

    def _left_out(self, committed: Ints) -> Ints:
        """By record: the last final read of its topic-partition, if no final read there delivered the record.

        Only a final read that began when the commit was known counts.
        """
        transactions = self.transactions
        there = self._delivered(self.final_record)
        order = np.argsort(transactions.invoked[self.covering], kind="stable")
        last = dict(zip(self.covered[order].tolist(), self.covering[order].tolist(), strict=True))
        final = np.array([last.get(one, -1) for one in transactions.sent_partition[committed].tolist()], np.int64)
        late = (final >= 0) & (transactions.invoked[final] > self.known[transactions.sender[committed]])
        return np.where(late & ~there[committed], final, -1)

    def _known(self) -> Ints:
        """By transaction: since when its commit is known, by its acknowledgement or by deliveries of its records."""
        transactions = self.transactions
        known = np.where(transactions.type == OK, transactions.completed, NEVER)
        others = self.promised & (self.writer >= 0) & ~self.own
        np.minimum.at(known, self.writer[others], transactions.completed[transactions.reader[others]])
        return known

    # R0 to R2, S1 to S3 ---------------------------------------------------------------------------------------------

    def _laws(self, deadline: float) -> None:
        """Judge each topic-partition as a log."""
        transactions = self.transactions
        whole = transactions.committed_only & transactions.final & (transactions.type == OK)
        known = Known(self.sent, self.place, self.lost, self.effective, self.known, whole)
        breaches = Breaches(WITNESSES)
        left = check_laws(transactions, known, breaches, deadline)
        for anomaly, total in breaches.counts.items():
            found = [
                LogFinding(anomaly, one.transactions, one.partition, one.offset, one.value, one.roles, one.other)
                for one in breaches.instances
                if one.anomaly == anomaly
            ]
            self._add(anomaly, found, total)
        if left:
            self.undecided.append(f"the time was up before {several(left, 'topic-partition')} had been judged as a log")

    # T4 ---------------------------------------------------------------------------------------------------------

    def _cycles(self, deadline: float) -> Cycles:
        transactions = self.transactions
        reads = self.promised & (self.writer >= 0) & ~self.own & self.effective[transactions.reader]
        reads &= self.effective[self.writer]
        pairs = np.flatnonzero(reads)
        order = pairs[np.lexsort((self.writer[pairs], transactions.reader[pairs]))]
        writer, reader = self.writer[order], transactions.reader[order]
        fresh = np.concatenate((np.ones(1, np.bool_), (np.diff(writer) != 0) | (np.diff(reader) != 0)))[: len(order)]
        effective = transactions.by_process[self.effective[transactions.by_process]]
        process, left_out = process_order(effective, transactions.process, transactions.asked, transactions.answered)
        self.undecided += left_out
        edges = joined([edges_of(writer[fresh], reader[fresh], WR), process])
        return find_cycles(transactions.invoked, transactions.completed, edges, deadline)
