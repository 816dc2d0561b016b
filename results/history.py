"""The history: schema, codes, reader, and the step from segments to Parquet.

It is the contract in the middle of the house: everything before it only writes it (`segments.py`), everything
after it only reads it. One row per operation, its invocation and completion joined.

Layout. `history.parquet` has row groups of one topic-partition each, sorted by invocation, zstd. A task that
checks one topic-partition reads its own row groups and nothing else; which those are is in the file's
metadata. `nemesis.parquet` and `cluster.parquet` lie beside it. A run whose control process was killed has
only segments; `History.load` reads those just as well, and `close_history` makes the Parquet files of them.

Ill-formed histories. A completion without an invocation, time running backwards within a process, two
outstanding operations of one process, or a file that cannot be read raise `IllFormedHistory` with file and
row. Such a history says nothing about the system under test: its verdict is unknown, never valid.

Times are the control process's monotonic nanoseconds; `clock_error` says how far off they may be, which the
real-time rules of the checkers allow for. `completed` is null while nothing came back, `type` is then info.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from squall.results.segments import (
    FUNCTIONS,
    SCHEMA_VERSION,
    SEGMENTS_FOLDER,
    TYPES,
    ClusterObservation,
    CompletionRow,
    EventWriter,
    FaultWindow,
    HistoryWriter,
    IllFormedHistory,
    InvocationRow,
    SegmentHeader,
    read_cluster,
    read_faults,
    read_segment,
    segment_path,
)

__all__ = [
    "CLUSTER_TABLE",
    "FUNCTIONS",
    "HISTORY_FILE",
    "NEMESIS_FILE",
    "SCHEMA",
    "TYPES",
    "ClusterObservation",
    "CompletionRow",
    "EventWriter",
    "FaultWindow",
    "History",
    "HistoryWriter",
    "IllFormedHistory",
    "InvocationRow",
    "SegmentHeader",
    "TopicPartitionRows",
    "close_history",
    "history_of",
    "joined",
    "layout",
    "read_cluster",
    "read_faults",
    "read_topic_partition",
    "segment_path",
    "torn_lines",
    "validate",
    "write_history",
]

HISTORY_FILE: Final = "history.parquet"
NEMESIS_FILE: Final = "nemesis.parquet"
CLUSTER_TABLE: Final = "cluster.parquet"
ROW_GROUP_ROWS: Final = 1 << 20
SEGMENT_BITS: Final = 40

_TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA: Final = pa.schema(
    [
        pa.field("op_id", pa.int64(), nullable=False),  # segment << 40 | number within the segment
        pa.field("process", pa.int64(), nullable=False),
        pa.field("client", pa.int32(), nullable=False),
        pa.field("sequence", pa.int64()),  # a pipelining client's order of sends
        pa.field("f", pa.int8(), nullable=False),
        pa.field("type", pa.int8(), nullable=False),
        pa.field("topic", _TEXT),
        pa.field("partition", pa.int32()),
        pa.field("at", pa.int64(), nullable=False),  # when it was meant to start
        pa.field("invoked", pa.int64(), nullable=False),
        pa.field("completed", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("acks", pa.int8(), nullable=False),
        pa.field("idempotent", pa.bool_(), nullable=False),
        pa.field("offsets", pa.list_(pa.int64()), nullable=False),  # a poll's run, in delivery order
        pa.field("values", pa.list_(pa.int64()), nullable=False),
        pa.field("session", pa.int32()),  # the client's assignment
        pa.field("position", pa.int64()),  # its cursor before the poll
        pa.field("leader_epoch", pa.int32()),
        pa.field("high_watermark", pa.int64()),
        pa.field("log_start", pa.int64()),
        pa.field("node", pa.int32()),
        pa.field("error", _TEXT),
        pa.field("clock_id", pa.int16(), nullable=False),
        pa.field("clock_error", pa.int64(), nullable=False),
    ]
)

_LAYOUT_KEY: Final = b"squall.topic_partitions"
_TORN_KEY: Final = b"squall.torn_lines"
_SCHEMA_KEY: Final = b"squall.schema"


@dataclass(frozen=True)
class TopicPartitionRows:
    """Where the rows of one topic-partition lie in `history.parquet`."""

    topic: str
    partition: int
    row_groups: tuple[int, ...]
    rows: int


@dataclass(frozen=True)
class History:
    """All operations of a run, sorted by topic-partition and invocation. `torn` counts torn last lines."""

    table: pa.Table
    torn: int
    source: Path

    @classmethod
    def load(cls, run_dir: Path | str) -> History:
        """From `history.parquet`, or from the segments of a run that was never closed."""
        run_dir = Path(run_dir)
        path = run_dir / HISTORY_FILE
        if not _is_closed(run_dir):
            return _from_segments(run_dir)
        file = _opened(path)
        try:
            table = file.read()
        except (pa.ArrowException, OSError) as trouble:
            raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}") from trouble
        history = cls(table, torn_lines(path), path)
        validate(table, path)
        return history

    @property
    def topic_partitions(self) -> list[tuple[str, int]]:
        return [(topic, partition) for topic, partition, _, _ in _slices(self.table)]

    def parts(self) -> Iterator[tuple[str, int, pa.Table]]:
        """The operations of each topic-partition, sorted by invocation."""
        for topic, partition, start, stop in _slices(self.table):
            yield topic, partition, self.table.slice(start, stop - start)

    def of(self, topic: str, partition: int) -> pa.Table:
        """The operations of one topic-partition, sorted by invocation; empty if there are none."""
        for name, number, start, stop in _slices(self.table):
            if (name, number) == (topic, partition):
                return self.table.slice(start, stop - start)
        return self.table.slice(0, 0)


def close_history(run_dir: Path | str) -> Path:
    """Make `history.parquet`, `nemesis.parquet` and `cluster.parquet` of what was recorded. Does nothing for a
    run that has its history. Raises IllFormedHistory.
    """
    run_dir = Path(run_dir)
    path = run_dir / HISTORY_FILE
    _write_events(run_dir / NEMESIS_FILE, [_fault_row(one) for one in read_faults(run_dir)], _FAULTS)
    _write_events(run_dir / CLUSTER_TABLE, [_cluster_row(one) for one in read_cluster(run_dir)], _CLUSTER)
    if not _is_closed(run_dir):
        write_history(_from_segments(run_dir), path)
    return path


def _is_closed(run_dir: Path) -> bool:
    """Whether its Parquet file holds all that was recorded: a worker may outlive the control process for a while."""
    try:
        closed = (run_dir / HISTORY_FILE).stat().st_mtime_ns
    except FileNotFoundError:
        return False
    return all(path.stat().st_mtime_ns <= closed for path in (run_dir / SEGMENTS_FOLDER).glob("segment-*.jsonl"))


def write_history(history: History, path: Path) -> None:
    """Write the Parquet file whole or not at all."""
    draft = path.with_suffix(".parquet.new")
    places, group = [], 0
    metadata = {_SCHEMA_KEY: str(SCHEMA_VERSION), _TORN_KEY: str(history.torn)}
    with pq.ParquetWriter(draft, SCHEMA.with_metadata(metadata), compression="zstd") as writer:
        for topic, partition, start, stop in _slices(history.table):
            writer.write_table(history.table.slice(start, stop - start), row_group_size=ROW_GROUP_ROWS)
            groups = -(-(stop - start) // ROW_GROUP_ROWS)
            places.append([topic, partition, list(range(group, group + groups)), stop - start])
            group += groups
        writer.add_key_value_metadata({_LAYOUT_KEY: json.dumps(places)})
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.replace(path)


def layout(path: Path) -> list[TopicPartitionRows]:
    """Which row groups hold which topic-partition."""
    metadata = _opened(path).metadata.metadata or {}
    if _LAYOUT_KEY not in metadata:
        raise IllFormedHistory(path, None, "has no list of its topic-partitions; it was not written by Squall")
    return [
        TopicPartitionRows(topic, partition, tuple(groups), rows)
        for topic, partition, groups, rows in json.loads(metadata[_LAYOUT_KEY])
    ]


def torn_lines(path: Path) -> int:
    """How many torn last lines the segments had from which a Parquet file was made."""
    return int((_opened(path).schema_arrow.metadata or {}).get(_TORN_KEY, b"0"))


def read_topic_partition(path: Path, row_groups: Iterable[int]) -> pa.Table:
    """The rows of some row groups. Raises IllFormedHistory."""
    file = _opened(path)
    try:
        return file.read_row_groups(list(row_groups), use_threads=False)
    except (pa.ArrowException, OSError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}") from trouble


def _opened(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}") from trouble
    missing = [name for name in SCHEMA.names if name not in file.schema_arrow.names]
    if missing:
        raise IllFormedHistory(path, None, f"lacks the columns {', '.join(missing)}")
    return file


# From segments ------------------------------------------------------------------------------------------------


def _from_segments(run_dir: Path) -> History:
    folder = run_dir / SEGMENTS_FOLDER
    paths = sorted(folder.glob("segment-*.jsonl"))
    if not paths:
        raise IllFormedHistory(folder, None, "holds no segments: nothing was recorded")
    tables, torn, run_ids = [], 0, {}
    for path in paths:
        if path.stat().st_size == 0:  # its worker died before it had written the header
            torn += 1
            continue
        header, rows, torn_here = read_segment(path)
        run_ids[header.run_id] = path
        tables.append(joined(path, header, rows))
        torn += torn_here
    if not tables:
        raise IllFormedHistory(folder, None, "holds only empty segments: nothing was recorded")
    if len(run_ids) > 1:
        raise IllFormedHistory(folder, None, f"mixes segments of the runs {', '.join(sorted(run_ids))}")
    return history_of(tables, torn, folder)


def joined(path: Path, header: SegmentHeader, rows: Iterable[tuple[int, InvocationRow | CompletionRow]]) -> pa.Table:
    """The operations of one segment from its numbered rows. Raises IllFormedHistory."""
    return _Joiner(path, header).table(rows)


def history_of(tables: list[pa.Table], torn: int, source: Path) -> History:
    """The history that the operations of several segments make. Raises IllFormedHistory."""
    table = _sorted(pa.concat_tables(tables).unify_dictionaries().combine_chunks())
    validate(table, source)
    return History(table, torn, source)


def _sorted(table: pa.Table) -> pa.Table:
    """By topic, partition, invocation."""
    topics = table["topic"].combine_chunks()
    ranks = np.argsort(np.argsort(np.asarray(topics.dictionary.to_pylist(), dtype=object)))
    codes = np.asarray(pc.fill_null(topics.indices, -1))
    rank = np.where(codes >= 0, ranks[codes] if len(ranks) else 0, -1)
    partitions = np.asarray(pc.fill_null(table["partition"], -1))
    return table.take(np.lexsort((np.asarray(table["invoked"]), partitions, rank)))


class _Joiner:
    """Joins the invocations and completions of one segment, line by line."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self.path = path
        self.header = header
        self.invocations: list[InvocationRow] = []
        self.completions: list[CompletionRow | None] = []
        self.open: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.retired: set[int] = set()

    def table(self, rows: Iterable[tuple[int, InvocationRow | CompletionRow]]) -> pa.Table:
        for line, row in rows:
            if isinstance(row, InvocationRow):
                self._invoke(line, row)
            else:
                self._complete(line, row)
        try:
            return _columns(self.header, self.invocations, self.completions)
        except (pa.ArrowException, OverflowError) as trouble:
            raise IllFormedHistory(self.path, None, f"a number does not fit its column: {trouble}") from trouble

    def _invoke(self, line: int, row: InvocationRow) -> None:
        process = row.process
        if process in self.open:
            raise self._error(line, f"process {process} has two outstanding operations")
        if process in self.retired:
            raise self._error(line, f"process {process} went on after an operation of unknown outcome (info)")
        if row.invoked < self.last.get(process, row.invoked):
            raise self._error(line, f"time runs backwards within process {process}")
        if row.f not in FUNCTIONS:
            raise self._error(line, f"f {row.f!r} is none of {', '.join(FUNCTIONS)}")
        if row.f in ("send", "marker") and row.value is None:
            raise self._error(line, f"a {row.f} without a value")
        self.open[process] = len(self.invocations)
        self.last[process] = row.invoked
        self.invocations.append(row)
        self.completions.append(None)

    def _complete(self, line: int, row: CompletionRow) -> None:
        process = row.process
        index = self.open.pop(process, None)
        if index is None:
            raise self._error(line, f"a completion of process {process} without an invocation")
        if row.completed < self.last[process]:
            raise self._error(line, f"time runs backwards within process {process}")
        if len(row.offsets) != len(row.values):
            raise self._error(line, f"{len(row.offsets)} offsets but {len(row.values)} values")
        self.last[process] = row.completed
        if row.type == "info":
            self.retired.add(process)
        self.completions[index] = row

    def _error(self, line: int, problem: str) -> IllFormedHistory:
        return IllFormedHistory(self.path, line, problem)


_OPEN: Final = CompletionRow(process=-1, type="info", completed=-1)


def _columns(
    header: SegmentHeader, invocations: list[InvocationRow], completions: list[CompletionRow | None]
) -> pa.Table:
    shift, count = header.clock_offset, len(invocations)
    begun, ended = invocations, [one or _OPEN for one in completions]
    first = header.segment << SEGMENT_BITS
    columns: dict[str, Any] = {
        "op_id": range(first, first + count),
        "process": [one.process for one in begun],
        "client": [start.client if end.client is None else end.client for start, end in zip(begun, ended, strict=True)],
        "sequence": [one.sequence for one in ended],
        "f": [FUNCTIONS[one.f] for one in begun],
        "type": [TYPES[one.type] for one in ended],
        "topic": [one.topic for one in begun],
        "partition": [one.partition for one in begun],
        "at": [one.at + shift for one in begun],
        "invoked": [one.invoked + shift for one in begun],
        "completed": [None if one is None else one.completed + shift for one in completions],
        "value": [one.value for one in begun],
        "offset": [one.offset for one in ended],
        "acks": [header.acks if one.acks is None else one.acks for one in begun],
        "idempotent": [
            next((said for said in (end.idempotent, start.idempotent) if said is not None), header.idempotent)
            for start, end in zip(begun, ended, strict=True)
        ],
        "session": [one.session for one in ended],
        "position": [one.position for one in ended],
        "leader_epoch": [one.leader_epoch for one in ended],
        "high_watermark": [one.high_watermark for one in ended],
        "log_start": [one.log_start for one in ended],
        "node": [one.node for one in ended],
        "error": [one.error for one in ended],
        "clock_id": np.full(count, header.clock_id, np.int16),
        "clock_error": np.full(count, header.clock_error, np.int64),
    }
    arrays = {name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}
    lengths = np.fromiter((len(one.offsets) for one in ended), np.int32, count)
    ends = pa.array(np.concatenate((np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32))))
    for name, runs in (("offsets", (one.offsets for one in ended)), ("values", (one.values for one in ended))):
        flat = np.fromiter(chain.from_iterable(runs), np.int64, int(lengths.sum()))
        arrays[name] = pa.ListArray.from_arrays(ends, pa.array(flat))
    return pa.table([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def _slices(table: pa.Table) -> Iterator[tuple[str, int, int, int]]:
    """(topic, partition, start, stop) of each topic-partition of a sorted table. Rows of none come as "", -1."""
    if table.num_rows == 0:
        return
    topics = table["topic"].combine_chunks()
    codes = np.asarray(pc.fill_null(topics.indices, -1))
    partitions = np.asarray(pc.fill_null(table["partition"], -1))
    changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(partitions) != 0)) + 1
    bounds = [0, *changes.tolist(), table.num_rows]
    for start, stop in pairwise(bounds):
        topic = topics.dictionary[int(codes[start])].as_py() if codes[start] >= 0 else ""
        yield topic, int(partitions[start]), start, stop


def validate(table: pa.Table, source: Path) -> None:
    """What must hold of every history, whatever wrote it. Raises IllFormedHistory."""
    problem = _duplicate_ids(table) or _overlaps(table)
    if problem is not None:
        raise IllFormedHistory(source, problem[0], problem[1])


def _duplicate_ids(table: pa.Table) -> tuple[int, str] | None:
    ids = np.asarray(table["op_id"])
    order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(twice) == 0:
        return None
    row = int(order[twice[0] + 1])
    return row, f"operation {ids[row]} is recorded twice"


def _overlaps(table: pa.Table) -> tuple[int, str] | None:
    """The first row, in order of process and time, that breaks the rule of one operation at a time."""
    process, invoked = np.asarray(table["process"]), np.asarray(table["invoked"])
    endless = np.iinfo(np.int64).max
    completed = np.asarray(pc.fill_null(table["completed"], endless))
    backwards = np.flatnonzero(completed < invoked)
    if len(backwards):
        row = int(backwards[0])
        return row, f"time runs backwards within process {process[row]}: completed before it was invoked"
    ended = np.where(np.asarray(table["type"]) == TYPES["info"], endless, completed)
    order = np.lexsort((np.asarray(table["op_id"]), invoked, process))
    same = np.diff(process[order]) == 0
    wrong = np.flatnonzero(same & (invoked[order][1:] < ended[order][:-1]))
    if len(wrong) == 0:
        return None
    row = int(order[wrong[0] + 1])
    return row, f"process {process[row]} has two outstanding operations"


# Faults and observations as tables ---------------------------------------------------------------------------------

_FAULTS: Final = pa.schema(
    [
        ("id", pa.string()),
        ("fault", pa.string()),
        ("targets", pa.list_(pa.string())),
        ("summary", pa.string()),
        ("injected", pa.int64()),
        ("healed", pa.int64()),
        ("took", pa.bool_()),
        ("undone", pa.bool_()),
        ("before", pa.string()),
        ("during", pa.string()),
        ("after", pa.string()),
        ("trouble", pa.string()),
    ]
)
_CLUSTER: Final = pa.schema(
    [
        ("time", pa.int64()),
        ("kind", pa.string()),
        ("node", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("epoch", pa.int32()),
        ("nodes", pa.list_(pa.string())),
    ]
)


def _fault_row(window: FaultWindow) -> dict[str, Any]:
    return {name: getattr(window, name) for name in _FAULTS.names}


def _cluster_row(observation: ClusterObservation) -> dict[str, Any]:
    return {name: getattr(observation, name) for name in _CLUSTER.names}


def _write_events(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    draft = path.with_suffix(".parquet.new")
    pq.write_table(pa.Table.from_pylist(rows, schema), draft, compression="zstd")
    draft.replace(path)
