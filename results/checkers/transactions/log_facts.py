"""Collect the facts that prove an anomaly of a transactional log, complete without the history.

The facts are plain values. The check names only the transactions that contradict each other. This module adds those
that explain them: which reader showed that a transaction of unknown outcome was committed, which transaction sent a
phantom's value elsewhere. Each has a role, which the description (`results/witnesses/log.py`) uses. A transaction keeps
the records that a witness is about and the extent of what it polled there. A few transactions at the same
topic-partition stand beside the proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from squall.results.checkers.kernels.operations import INFO, Ints
from squall.results.checkers.kernels.witness_context import witness_context
from squall.results.checkers.transactions.cycles import Cycle
from squall.results.checkers.transactions.dependencies import WR
from squall.results.checkers.transactions.facts import ORDERS, Order
from squall.results.checkers.transactions.log_rules import LogFinding, LogFindings, LogTransactions
from squall.results.history.rows import TYPES

_TYPE_NAMES: Final = {code: name for name, code in TYPES.items()}

Parts = list[tuple[str, int]]
"""Roles and rows."""


class LogRecord(msgspec.Struct, frozen=True):
    """A record of a topic-partition; the offset of one that was sent may be unknown."""

    partition: int
    offset: int | None
    value: int


class PolledExtent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the polls of a transaction delivered of one topic-partition.

    `below` and `above` are the nearest offsets on both sides of the one that a witness is about.
    """

    partition: int
    first: int
    last: int
    count: int
    below: int | None = None
    above: int | None = None


class LogTransactionFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One transaction of a witness, or a plain poll (`sends` is 0), and its `role` in the proof."""

    role: str
    op_id: int
    process: int
    type: str
    invoked: int
    completed: int | None = None
    committed_only: bool
    final: bool
    sends: int
    sent: tuple[LogRecord, ...] = ()
    polled: tuple[LogRecord, ...] = ()
    extents: tuple[PolledExtent, ...] = ()


class LogStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why one transaction of a cycle comes before another: places in the witness, and the record if one was read."""

    source: int
    target: int
    order: Order
    record: LogRecord | None = None


class LogWitness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance: the transactions that prove it, in order of the cycle or else of time.

    `record` is the record that it is about, `other` one that contradicts it; `steps` are those of the cycle. `before`
    and `after` are some transactions around the proof.
    """

    anomaly: str
    transactions: tuple[LogTransactionFacts, ...]
    record: LogRecord | None = None
    other: LogRecord | None = None
    steps: tuple[LogStep, ...] = ()
    group: int = 0
    before: tuple[LogTransactionFacts, ...] = ()
    after: tuple[LogTransactionFacts, ...] = ()

    def of(self, role: str) -> list[int]:
        """Return the places of the transactions with a role."""
        return [at for at, one in enumerate(self.transactions) if one.role == role]


def log_witnesses(table: pa.Table, findings: LogFindings) -> Iterator[LogWitness]:
    """Yield the facts of all instances and cycle examples that `check_transactional_log` found in a table."""
    if findings.instances or findings.cycles.examples:
        facts = _Facts(table, LogTransactions.of(table))
        yield from (facts.of_record(one) for one in findings.instances)
        yield from (facts.of_cycle(one) for one in findings.cycles.examples)


@dataclass(frozen=True)
class _Facts:
    """The rows of a history, and the same in columns."""

    table: pa.Table
    columns: LogTransactions

    def of_record(self, finding: LogFinding) -> LogWitness:
        record = LogRecord(finding.partition, finding.offset if finding.offset >= 0 else None, finding.value)
        chosen: dict[int, str] = {}
        for role, row in self._parts(finding):
            chosen.setdefault(row, role)
        rows = sorted(chosen, key=lambda row: (int(self.columns.invoked[row]), row))
        other = None if finding.other is None else LogRecord(finding.partition, *finding.other)
        shown = {record, *(() if other is None else (other,)), *self._proof_of_commit(rows, chosen)}
        before, after = self._around(record.partition, finding.transactions[-1], set(rows))
        return LogWitness(
            anomaly=finding.anomaly,
            transactions=tuple(self._transaction(row, chosen[row], shown, record) for row in rows),
            record=record,
            other=other,
            before=tuple(self._transaction(row, "before", {record}, record) for row in before),
            after=tuple(self._transaction(row, "after", {record}, record) for row in after),
        )

    def of_cycle(self, cycle: Cycle) -> LogWitness:
        rows = [edge.source for edge in cycle.edges]
        read = [self._read(edge.source, edge.target) if edge.kind == WR else None for edge in cycle.edges]
        shown = {one for one in read if one is not None}
        record = next(iter(one for one in read if one is not None), None)
        before, after = self._around(record.partition, rows[-1], set(rows)) if record else ([], [])
        return LogWitness(
            anomaly=cycle.name,
            transactions=tuple(self._transaction(row, "", shown, None) for row in rows),
            steps=tuple(
                LogStep(source=at, target=rows.index(edge.target), order=ORDERS[edge.kind], record=one)
                for at, (edge, one) in enumerate(zip(cycle.edges, read, strict=True))
            ),
            group=cycle.group,
            before=tuple(self._transaction(row, "before", shown, record) for row in before),
            after=tuple(self._transaction(row, "after", shown, record) for row in after),
        )

    # roles ----------------------------------------------------------------------------------------------------------

    def _parts(self, finding: LogFinding) -> Parts:
        proof = list(finding.transactions)
        if finding.roles:
            parts = list(zip(finding.roles, proof, strict=True))
            return [*parts, *(("shown", row) for role, one in parts if role == "writer" for row in self._showed(one))]
        if finding.anomaly == "precommitted_read":
            return [("both", proof[0])]
        if finding.anomaly == "phantom":
            return [("reader", proof[-1]), *(("elsewhere", row) for row in self._senders(finding.value))]
        if finding.anomaly == "aborted_read":
            return [("writer", proof[0]), ("reader", proof[1])]
        writer, reader = proof
        return [("writer", writer), ("missing", reader), *(("shown", row) for row in self._showed(writer))]

    def _senders(self, value: int) -> list[int]:
        columns = self.columns
        return columns.sender[columns.sent_value == value].tolist()

    def _showed(self, writer: int) -> list[int]:
        """The first reader that received a record of a transaction of unknown outcome, which proves the commit."""
        if self.columns.type[writer] != INFO:
            return []
        readers = self.columns.reader[self._delivered_of(writer)]
        readers = readers[readers != writer]
        return readers[np.argsort(self.columns.completed[readers], kind="stable")][:1].tolist()

    def _delivered_of(self, writer: int) -> Ints:
        """The places, among all delivered records, of those a transaction sent, for readers of committed records."""
        columns = self.columns
        own = columns.sender == writer
        sent = set(zip(columns.sent_partition[own].tolist(), columns.sent_value[own].tolist(), strict=True))
        promised = columns.committed_only[columns.reader]
        at = np.flatnonzero(np.isin(columns.value, columns.sent_value[own]) & promised)
        return at[[(int(columns.partition[one]), int(columns.value[one])) in sent for one in at]]

    def _proof_of_commit(self, rows: list[int], roles: dict[int, str]) -> Iterator[LogRecord]:
        """The records of transactions of unknown outcome that were delivered to transactions of the proof."""
        unknown = [row for row in rows if roles[row] == "writer" and self.columns.type[row] == INFO]
        for writer in unknown:
            yield from (record for row in rows if (record := self._read(writer, row)))

    def _read(self, writer: int, reader: int) -> LogRecord | None:
        """The first record of one transaction that was delivered to another."""
        at = self._delivered_of(writer)
        at = at[self.columns.reader[at] == reader][:1]
        for one in at.tolist():
            columns = self.columns
            return LogRecord(int(columns.partition[one]), int(columns.offset[one]), int(columns.value[one]))
        return None

    # rows -----------------------------------------------------------------------------------------------------------

    def _around(self, partition: int, pivot: int, shown: set[int]) -> tuple[list[int], list[int]]:
        """Choose transactions at a topic-partition around the proof."""
        columns = self.columns
        there = np.append(
            columns.sender[columns.sent_partition == partition], columns.reader[columns.partition == partition]
        )
        return witness_context(columns.invoked, np.unique(there), pivot, shown)

    def _transaction(self, row: int, role: str, shown: set[LogRecord], about: LogRecord | None) -> LogTransactionFacts:
        one: dict[str, Any] = self.table.slice(row, 1).to_pylist()[0]
        names = {(each.partition, each.value) for each in shown}
        partitions = sorted({each.partition for each in shown})
        sent = zip(one["sent_partition"], one["sent_offset"], one["sent_value"], strict=True)
        polled = zip(one["polled_partition"], one["polled_offset"], one["polled_value"], strict=True)
        return LogTransactionFacts(
            role=role,
            op_id=one["op_id"],
            process=one["process"],
            type=_TYPE_NAMES[one["type"]],
            invoked=one["invoked"],
            completed=one["completed"],
            committed_only=one["committed_only"],
            final=one["final"],
            sends=len(one["sent_value"]),
            sent=tuple(LogRecord(*each) for each in sent if _concerns(role, each, names, about)),
            polled=tuple(LogRecord(*each) for each in polled if (each[0], each[2]) in names),
            extents=tuple(extent for each in partitions if (extent := _extent(one, each, about))),
        )


def _concerns(
    role: str, record: tuple[int, int | None, int], names: set[tuple[int, int]], about: LogRecord | None
) -> bool:
    """Whether a record that a transaction sent is shown.

    Shown are the records in question; for a transaction beside the proof, all that it sent there; for one that sent a
    phantom's value elsewhere, that record.
    """
    if role in ("before", "after"):
        return about is not None and record[0] == about.partition
    if role == "elsewhere":
        return about is not None and record[2] == about.value
    return (record[0], record[2]) in names


def _extent(one: dict[str, Any], partition: int, about: LogRecord | None) -> PolledExtent | None:
    """What the polls of a transaction delivered of a topic-partition. `below` and `above` are from a single poll."""
    polled = zip(one["polled_run"], one["polled_partition"], one["polled_offset"], strict=True)
    here = [(run, offset) for run, where, offset in polled if where == partition]
    if not here:
        return None
    offsets = [offset for _, offset in here]
    below, above = _neighbours(here, about.offset) if about and about.partition == partition else (None, None)
    return PolledExtent(
        partition=partition, first=min(offsets), last=max(offsets), count=len(offsets), below=below, above=above
    )


def _neighbours(polled: list[tuple[int, int]], offset: int | None) -> tuple[int | None, int | None]:
    """The nearest offsets below and above one that a single poll delivered, if there is such a poll."""
    for number in sorted({run for run, _ in polled}) if offset is not None else ():
        below = [one for run, one in polled if run == number and one < (offset or 0)]
        above = [one for run, one in polled if run == number and one > (offset or 0)]
        if below and above:
            return max(below), min(above)
    return None, None
