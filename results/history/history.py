"""Read, validate and close histories: the schema, its codes, and the step from segments to Parquet.

The history is the contract between the packages: those before it only write it (`segments.py`), those after it only
read it. One row per operation, its invocation and completion joined.

Layout. `history.parquet` has row groups of one topic-partition each, sorted by invocation. A task that checks one
topic-partition reads only its own row groups, which the file's metadata lists. `nemesis.parquet` and `cluster.parquet`
lie beside it. A run whose control process was killed has only segments; `History.load` reads those as well, and
`close_history` makes the Parquet files of them. Operations that are not about logs have separate tables
(`operation_tables.py`); `joining.py` makes columns of rows.

Ill-formed histories. A completion without an invocation, time running backwards within a process, two outstanding
operations of one process, or a file that cannot be read raise `IllFormedHistory` with file and row. `validate` checks a
table in memory; the engine checks stored ones (`checkers/engine/well_formed_task.py`). A file whose content is not what
was written is ill-formed, too: segments and Parquet files have checksums. `cut_off` counts segments that their writers
did not end, as killed writers leave them. An ill-formed history proves nothing about the system under test: its verdict
is unknown, never valid.

Times are the control process's monotonic nanoseconds; `clock_error` bounds their error, which the real-time rules of
the checkers allow for. `completed` is null without a response, and `type` is then info.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from squall.results.history.history_file import (
    UNKNOWN_ORIGIN,
    HistoryFile,
    Origin,
    TopicPartitionRows,
    cut_off_segments,
    layout,
    origin_of,
    require_run,
    torn_lines,
)
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.joining import SCHEMA, SEGMENT_BITS, JoinedSegment, joined, joined_segment
from squall.results.history.operation_tables import KINDS, REGISTERS, foreign, recorded_kinds, recorded_rows, write_kind
from squall.results.history.parquet_files import read_table
from squall.results.history.segments import (
    CLUSTER_FILE,
    FAULTS_FILE,
    FUNCTIONS,
    SEGMENTS_FOLDER,
    TYPES,
    ClusterObservation,
    CompletionRow,
    EventWriter,
    FaultWindow,
    HistoryWriter,
    InvocationRow,
    SegmentHeader,
    open_segment,
    read_cluster,
    read_faults,
    read_watched,
    segment_number,
    segment_path,
)
from squall.results.history.well_formed import (
    NEVER,
    Breach,
    backwards,
    first_overlap,
    least_repeated,
    overlapping,
    repeated,
    suspects,
)

__all__ = [
    "CLUSTER_TABLE",
    "FUNCTIONS",
    "HISTORY_FILE",
    "NEMESIS_FILE",
    "SCHEMA",
    "SEGMENT_BITS",
    "TYPES",
    "ClusterObservation",
    "CompletionRow",
    "EventWriter",
    "FaultWindow",
    "History",
    "HistoryWriter",
    "IllFormedHistory",
    "InvocationRow",
    "Origin",
    "SegmentHeader",
    "TopicPartitionRows",
    "close_history",
    "cut_off_segments",
    "history_of",
    "joined",
    "layout",
    "origin_of",
    "read_cluster",
    "read_faults",
    "read_topic_partition",
    "read_watched",
    "require_run",
    "segment_path",
    "torn_lines",
    "validate",
    "write_history",
]

HISTORY_FILE: Final = "history.parquet"
NEMESIS_FILE: Final = "nemesis.parquet"
CLUSTER_TABLE: Final = "cluster.parquet"


@dataclass(frozen=True)
class History:
    """All operations of a run on logs, sorted by topic-partition and invocation.

    `torn` counts torn last lines, `cut_off` segments without an end; `further` has the operations of other kinds, by
    kind.
    """

    table: pa.Table
    torn: int
    source: Path
    cut_off: int = 0
    origin: Origin = UNKNOWN_ORIGIN
    further: Mapping[str, pa.Table] = field(default_factory=dict)

    @classmethod
    def load(cls, run_dir: Path | str, *, run_id: str | None = None, kinds: Iterable[str] = tuple(KINDS)) -> History:
        """Load `history.parquet` or the segments of a run that was never closed, with the tables of these kinds.

        All must be of one run: that of `run_id`, or else the one that the history names.
        """
        run_dir = Path(run_dir)
        path = run_dir / HISTORY_FILE
        closed = _is_closed(run_dir)
        if closed:
            table = read_table(path, SCHEMA.names)
            history = cls(table, torn_lines(path), path, cut_off_segments(path), origin_of(path))
        else:
            history = _from_segments(run_dir)
        if run_id is not None:
            require_run(history.source, history.origin, run_id)
        made = history.further
        owner = history.origin.run_id if run_id is None else run_id
        beside = recorded_kinds(run_dir, owner, [name for name in kinds if name not in made])
        history = replace(history, further={**made, **beside})
        if closed or REGISTERS in beside:
            validate_together(history, history.source)
        return history

    @property
    def topic_partitions(self) -> list[tuple[str, int]]:
        return [(topic, partition) for topic, partition, _, _ in _slices(self.table)]

    def parts(self) -> Iterator[tuple[str, int, pa.Table]]:
        """Yield the operations of each topic-partition, sorted by invocation."""
        for topic, partition, start, stop in _slices(self.table):
            yield topic, partition, self.table.slice(start, stop - start)

    def of(self, topic: str, partition: int) -> pa.Table:
        """Return the operations of one topic-partition, sorted by invocation; empty if there are none."""
        for name, number, start, stop in _slices(self.table):
            if (name, number) == (topic, partition):
                return self.table.slice(start, stop - start)
        return self.table.slice(0, 0)


def close_history(run_dir: Path | str) -> Path:
    """Make `history.parquet`, `nemesis.parquet` and `cluster.parquet` from what was recorded.

    Does nothing for a run that has its history. Raises IllFormedHistory.
    """
    run_dir = Path(run_dir)
    path = run_dir / HISTORY_FILE
    if _is_stale(run_dir / NEMESIS_FILE, run_dir / FAULTS_FILE):
        _write_events(run_dir / NEMESIS_FILE, [_fault_row(one) for one in read_faults(run_dir)], _FAULTS)
    if _is_stale(run_dir / CLUSTER_TABLE, run_dir / CLUSTER_FILE):
        _write_events(run_dir / CLUSTER_TABLE, [_cluster_row(one) for one in read_cluster(run_dir)], _CLUSTER)
    if not _is_closed(run_dir):
        history = _from_segments(run_dir)
        if REGISTERS in history.further:
            assert history.origin.run_id is not None, "segments say of which run they are"
            write_kind(run_dir, REGISTERS, history.further[REGISTERS], run_id=history.origin.run_id)
        write_history(history, path)
    return path


def _is_closed(run_dir: Path) -> bool:
    """Whether the Parquet files hold all that was recorded.

    They may not: a worker may outlive the control process for a while, and the table of registers may be missing or be
    that of another run. Raises IllFormedHistory if that table cannot be made again.
    """
    path = run_dir / HISTORY_FILE
    try:
        closed = path.stat().st_mtime_ns
    except FileNotFoundError:
        return False
    segments = list((run_dir / SEGMENTS_FOLDER).glob("segment-*.jsonl"))
    if any(one.stat().st_mtime_ns > closed for one in segments):
        return False
    origin = origin_of(path)
    problem = _registers_problem(run_dir, origin)
    if problem is None:
        return True
    if segments and set(origin.segments or ()) <= {segment_number(one) for one in segments}:
        return False
    raise IllFormedHistory(run_dir / KINDS[REGISTERS].file, None, problem)


def _registers_problem(run_dir: Path, origin: Origin) -> str | None:
    """Why the table of registers is not the one made with a history of this origin; None if it is, or if none was made.

    Raises IllFormedHistory if the table cannot be read.
    """
    there = recorded_rows(run_dir, REGISTERS)
    if not origin.registers:
        return None
    if there and origin.run_id is not None:
        problem = foreign(run_dir / KINDS[REGISTERS].file, REGISTERS, origin.run_id)
        if problem is not None:
            return problem
    if there != origin.registers:
        return f"holds {there} of the {origin.registers} operations on registers that belong to {HISTORY_FILE}"
    return None


def _is_stale(table: Path, recorded: Path) -> bool:
    """Whether a table must be made, or made again, from what was recorded."""
    try:
        made = table.stat().st_mtime_ns
        return recorded.stat().st_mtime_ns >= made
    except FileNotFoundError:
        return not table.exists()


def write_history(history: History, path: Path) -> None:
    """Write the Parquet file whole or not at all."""
    file = HistoryFile(path, torn=history.torn, cut_off=history.cut_off, origin=history.origin)
    for topic, partition, start, stop in _slices(history.table):
        file.add(topic, partition, history.table.slice(start, stop - start))
    file.finish()


def read_topic_partition(path: Path, row_groups: Iterable[int]) -> pa.Table:
    """Read the rows of some row groups. Raises IllFormedHistory."""
    return read_table(path, SCHEMA.names, row_groups)


# From segments ------------------------------------------------------------------------------------------------


def _from_segments(run_dir: Path) -> History:
    """Load the history from its segments, with operations on registers if they hold any."""
    folder = run_dir / SEGMENTS_FOLDER
    paths = sorted(folder.glob("segment-*.jsonl"))
    if not paths:
        raise IllFormedHistory(folder, None, "has no segments: nothing was recorded")
    parts: list[JoinedSegment] = []
    torn, cut_off, run_ids, numbers = 0, 0, {}, []
    for path in paths:
        if path.stat().st_size == 0:  # its worker died before it had written the header
            torn, cut_off = torn + 1, cut_off + 1
            numbers.append(segment_number(path))
            continue
        segment = open_segment(path)
        run_ids[segment.header.run_id] = path
        numbers.append(segment.header.segment)
        parts.append(joined_segment(path, segment.header, segment.rows()))
        torn, cut_off = torn + segment.torn, cut_off + segment.cut_off
    if not parts:
        raise IllFormedHistory(folder, None, "holds only empty segments: nothing was recorded")
    if len(run_ids) > 1:
        raise IllFormedHistory(folder, None, f"mixes segments of the runs {', '.join(sorted(run_ids))}")
    registers = pa.concat_tables([one.registers for one in parts]).unify_dictionaries().combine_chunks()
    further = {REGISTERS: registers} if registers.num_rows else {}
    history = history_of([one.log for one in parts], torn, folder)
    origin = Origin(next(iter(run_ids)), tuple(sorted(numbers)), registers.num_rows)
    history = History(history.table, torn, folder, cut_off, origin, further)
    if registers.num_rows:
        validate_together(history, folder)
    return history


def history_of(tables: Sequence[pa.Table], torn: int, source: Path) -> History:
    """Make the history of several segments' operations on logs. Raises IllFormedHistory."""
    table = _sorted(pa.concat_tables(tables).unify_dictionaries().combine_chunks())
    validate(table, source)
    return History(table, torn, source)


def _sorted(table: pa.Table) -> pa.Table:
    """Sort by topic, partition, invocation."""
    topics = table["topic"].combine_chunks()
    ranks = np.argsort(np.argsort(np.asarray(topics.dictionary.to_pylist(), dtype=object)))
    codes = np.asarray(pc.fill_null(topics.indices, -1))
    rank = np.where(codes >= 0, ranks[codes] if len(ranks) else 0, -1)
    partitions = np.asarray(pc.fill_null(table["partition"], -1))
    return table.take(np.lexsort((np.asarray(table["invoked"]), partitions, rank)))


def _slices(table: pa.Table) -> Iterator[tuple[str, int, int, int]]:
    """Yield (topic, partition, start, stop) of each topic-partition of a sorted table; "", -1 for rows without one."""
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
    """Require what must hold of every history, regardless of its writer. Raises IllFormedHistory."""
    breach = _first_breach(table)
    if breach is not None:
        raise IllFormedHistory(source, breach.row, breach.problem)


def validate_together(history: History, source: Path) -> None:
    """Require that operations on logs and on registers together obey the rules. Raises IllFormedHistory."""
    registers = history.further.get(REGISTERS)
    if registers is None:
        validate(history.table, source)
    else:
        both = pa.concat_tables([one.select(_COMMON) for one in (history.table, registers)])
        breach = _first_breach(both.combine_chunks())
        if breach is not None:
            raise IllFormedHistory(*_place(history, source, breach.row), breach.problem)


def _place(history: History, source: Path, row: int) -> tuple[Path, int]:
    """Return file and row of an operation on a log or on a register; register rows are numbered after log rows."""
    rows = history.table.num_rows
    if source.name != HISTORY_FILE or row < rows:
        return source, row
    return source.with_name(KINDS[REGISTERS].file), row - rows


_COMMON: Final = ["op_id", "process", "type", "invoked", "completed"]


def _first_breach(table: pa.Table) -> Breach | None:
    op_id, process, invoked = (np.asarray(table[name]) for name in ("op_id", "process", "invoked"))
    twice = least_repeated(op_id.copy())
    if twice is not None:
        return repeated(twice, int(np.flatnonzero(op_id == twice)[1]))
    completed = np.asarray(pc.fill_null(table["completed"], NEVER))
    early = np.flatnonzero(completed < invoked)
    if len(early):
        return backwards(int(process[early[0]]), int(early[0]))
    ended = np.where(np.asarray(table["type"]) == TYPES["info"], NEVER, completed)
    named = suspects(process.copy(), invoked.copy(), ended.copy())
    rows = np.flatnonzero(np.isin(process, named))
    found = first_overlap(process[rows], invoked[rows], ended[rows], op_id[rows])
    if found is None:
        return None
    row = int(rows[found])
    return overlapping(int(process[row]), int(invoked[row]), int(op_id[row]), row)


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
        ("offset", pa.int64()),
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
