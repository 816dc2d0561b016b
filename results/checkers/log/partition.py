"""Check one topic-partition: read its rows, run the kernels, collect the findings.

This is the unit that every engine schedules. It reads its own row groups with pyarrow, so that only the description of
the task and its result travel between processes.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from squall.results.checkers.common.tally import Counts
from squall.results.checkers.kernels.findings import Finding, Findings
from squall.results.checkers.kernels.log import check_log
from squall.results.checkers.kernels.observed import NOWHERE, FinalRead, Observed
from squall.results.checkers.kernels.operations import NEVER, NONE, Operations, UnusableRecords, filled
from squall.results.checkers.kernels.series import (
    FirstReads,
    Frame,
    acknowledged_within,
    availability,
    latencies,
    longest_gap_within,
    realtime_lag,
    throughput,
)
from squall.results.checkers.log.declared_losses import DeclaredLoss, without_lost
from squall.results.checkers.log.result import (
    Delivered,
    FinalReadFacts,
    Neighbour,
    OperationFacts,
    PartitionResult,
    WitnessFacts,
)
from squall.results.history.history import FUNCTIONS, TYPES, read_topic_partition
from squall.results.history.ill_formed import IllFormedHistory

NEAR: Final = 3
_FUNCTION_NAMES: Final = {code: name for name, code in FUNCTIONS.items()}
_NOTHING: Final = -1
"""Stands for an operation without an error; it is no index of the dictionary."""
_FUNCTION_LIMIT: Final = 128
"""Codes of `f` lie below it."""
_TYPE_NAMES: Final = {code: name for name, code in TYPES.items()}


class Task(msgspec.Struct, frozen=True, tag="topic-partition"):
    """One topic-partition of one run: where its rows lie, and the facts needed to check them."""

    run: int
    path: str
    topic: str
    partition: int
    row_groups: tuple[int, ...]
    frame_start: int
    frame_width: int
    frame_end: int
    linearizable_reads: bool = False
    windows: tuple[tuple[int, int], ...] = ()
    keeps_deletions: bool = True
    """Whether nodes make a log's new start durable before they acknowledge a deletion, as ours do."""
    keeps_front: bool = False
    """Whether neither settings nor clients of the run could remove records from the front of a log."""
    losses: tuple[DeclaredLoss, ...] = ()
    """What unclean elections were allowed to lose of it."""
    deadline: float | None = None
    """When the time for checking is up, by `time.time()`, which is the same on all hosts of a Spark cluster."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def frame(self) -> Frame:
        return Frame(self.frame_start, self.frame_width, self.frame_end)


class PartOfTask(msgspec.Struct, frozen=True):
    """A part of the work for a topic-partition, all of which `whole` would do alone."""

    whole: Task

    @property
    def run(self) -> int:
        return self.whole.run

    @property
    def path(self) -> str:
        return self.whole.path

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def deadline(self) -> float | None:
        return self.whole.deadline


def check_task(task: Task) -> tuple[PartitionResult, Counts]:
    """Read the rows of a task, check and count them. Raises IllFormedHistory if they cannot be read."""
    table = read_topic_partition(Path(task.path), task.row_groups)
    operations = _operations(task, table)
    counts = counted(task.frame, table, operations)
    return (check_table(task, table) if task.losses else _checked(task, table, operations)), counts


def check_table(task: Task, table: pa.Table) -> PartitionResult:
    """Check the rows of one topic-partition, sorted by invocation. Raises IllFormedHistory."""
    if not task.losses:
        return _checked(task, table, _operations(task, table))
    remaining, lost = without_lost(table, task.losses)
    result = _checked(task, remaining, _operations(task, remaining))
    return msgspec.structs.replace(result, noted={**result.noted, "declared_lost": lost})


def _operations(task: Task, table: pa.Table) -> Operations:
    try:
        return replace(Operations.from_table(table), keeps_front=task.keeps_front)
    except UnusableRecords as trouble:
        raise IllFormedHistory(Path(task.path), None, str(trouble)) from trouble


def _checked(task: Task, table: pa.Table, operations: Operations) -> PartitionResult:
    began = time.perf_counter()
    observed = Observed.of(operations)
    findings = check_log(operations, observed, linearizable_reads=task.linearizable_reads)
    if not task.keeps_deletions:
        findings.only_note("deleted_read")
    measured = figures(task, operations, observed, observed.final)
    witness = _WitnessMaker(task, table, operations, observed)
    return msgspec.structs.replace(
        measured,
        anomalies=findings.counts,
        noted={**findings.noted, "values_sent_twice": observed.values_sent_twice},
        witnesses=witness.all(findings),
        milliseconds=(time.perf_counter() - began) * 1000,
    )


def figures(task: Task, operations: Operations, reads: FirstReads, final: FinalRead) -> PartitionResult:
    """Measure a topic-partition; the result has no anomalies yet."""
    available = availability(operations, task.frame)
    lag = realtime_lag(operations, reads)
    return PartitionResult(
        run=task.run,
        topic=task.topic,
        partition=task.partition,
        operations=_counts(operations),
        acknowledged=int(operations.is_acked.sum()),
        records=len(operations.record_offset),
        anomalies={},
        noted={},
        witnesses=(),
        final=FinalReadFacts(
            complete=final.complete, records=final.records, end=final.end, marker_offset=final.marker_offset
        ),
        acknowledged_sends=available.acknowledged,
        longest_outage=available.longest,
        longest_outage_start=available.longest_start,
        outages=available.outages,
        acknowledged_within=tuple(acknowledged_within(operations, start, end) for start, end in task.windows),
        longest_gap_within=tuple(
            longest_gap_within(operations, start, min(end, task.frame_end)) for start, end in task.windows
        ),
        lag_p99=int(np.percentile(lag, 99)) if len(lag) else 0,
        lag_max=int(lag.max(initial=0)),
        milliseconds=0,
    )


def counted(frame: Frame, table: pa.Table, operations: Operations) -> Counts:
    """Count some rows over time."""
    return Counts(
        throughput=throughput(operations, frame),
        latencies=latencies(operations, frame),
        errors=_errors(table, operations, frame),
    )


def _counts(operations: Operations) -> dict[str, int]:
    return {f"{_FUNCTION_NAMES[f]}.{_TYPE_NAMES[kind]}": count for (f, kind), count in operations.tally.items()}


def _errors(table: pa.Table, operations: Operations, frame: Frame) -> tuple[tuple[int, int, str, int], ...]:
    """(bucket, f, error, operations) of every operation that ended with an error."""
    errors = table["error"]
    if errors.null_count == len(errors):
        return ()
    texts = _told(errors)
    said = filled(texts.indices, _NOTHING)
    rows = np.flatnonzero(said != _NOTHING)
    completed = operations.completed[rows]
    bucket = frame.bucket(np.where(completed == NEVER, operations.invoked[rows], completed))
    said = said[rows].astype(np.int64)
    first, words = int(bucket.min()), texts.dictionary.to_pylist()
    kinds = (bucket - first) * _FUNCTION_LIMIT + operations.f[rows]
    keys, counts = np.unique(kinds * len(words) + said, return_counts=True)
    found = []
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        kind, word = divmod(key, len(words))
        after, f = divmod(kind, _FUNCTION_LIMIT)
        found.append((first + after, f, words[word], count))
    return tuple(sorted(found))


def _told(errors: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return errors as a dictionary array in one chunk."""
    if pa.types.is_dictionary(errors.type) and errors.num_chunks == 1:
        return errors.chunk(0)
    return errors.cast(pa.string()).combine_chunks().dictionary_encode()


class _WitnessMaker:
    """Turns findings into facts that can be read without the history."""

    def __init__(self, task: Task, table: pa.Table, operations: Operations, observed: Observed) -> None:
        self.task = task
        self.table = table
        self.operations = operations
        self.observed = observed

    def all(self, findings: Findings) -> tuple[WitnessFacts, ...]:
        return tuple(self._witness(one) for one in findings.instances)

    def _witness(self, finding: Finding) -> WitnessFacts:
        return WitnessFacts(
            anomaly=finding.anomaly,
            topic=self.task.topic,
            partition=self.task.partition,
            offset=finding.offset,
            other_offset=finding.other_offset,
            values=finding.values,
            operations=tuple(self._operation(role, row, finding) for role, row in finding.roles),
            neighbours=neighbours(self.operations, self.observed, finding.offset - NEAR, finding.offset + NEAR),
        )

    def _operation(self, role: str, row: int, finding: Finding) -> OperationFacts:
        facts: dict[str, Any] = self.table.slice(row, 1).select(_WITNESS_COLUMNS).to_pylist()[0]
        facts |= {"f": _FUNCTION_NAMES[facts["f"]], "type": _TYPE_NAMES[facts["type"]]}
        return OperationFacts(role=role, delivered=self._delivered(row, finding), **facts)

    def _delivered(self, row: int, finding: Finding) -> Delivered | None:
        first, after = self.operations.starts[row : row + 2].tolist()
        if first == after:
            return None
        offsets = self.operations.record_offset[first:after]
        values = self.operations.record_value[first:after]
        near = (np.abs(offsets - finding.offset) <= NEAR) | (offsets == finding.other_offset)
        pairs = zip(offsets[near].tolist(), values[near].tolist(), strict=True)
        return Delivered(int(offsets[0]), int(offsets[-1]), len(offsets), tuple(pairs))


_WITNESS_COLUMNS: Final = [
    "op_id",
    "f",
    "type",
    "process",
    "client",
    "invoked",
    "completed",
    "value",
    "offset",
    "high_watermark",
    "leader_epoch",
    "node",
    "session",
    "error",
]


def neighbours(operations: Operations, observed: Observed, low: int, high: int) -> tuple[Neighbour, ...]:
    """What was acknowledged and read at the offsets from `low` to `high`; offsets without either are left out."""
    records = np.flatnonzero((operations.record_offset >= low) & (operations.record_offset <= high))
    acked = np.flatnonzero(
        operations.is_send & (operations.type == TYPES["ok"]) & (operations.offset >= low) & (operations.offset <= high)
    )
    found = []
    for offset in range(max(low, 0), high + 1):
        here = acked[operations.offset[acked] == offset]
        read = Counter(operations.record_value[records[operations.record_offset[records] == offset]].tolist())
        if len(here) == 0 and not read:
            continue
        slot = observed.slots.place(offset)
        final = NONE if slot == NOWHERE else int(observed.final.value[slot])
        found.append(
            Neighbour(
                offset=offset,
                acknowledged=tuple(
                    (int(operations.value[one]), int(operations.process[one]), int(operations.completed[one]))
                    for one in here
                ),
                read=tuple(sorted(read.items())),
                final=None if final == NONE else final,
            )
        )
    return tuple(found)
