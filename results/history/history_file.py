"""Write `history.parquet` topic-partition by topic-partition, and read where each lies in it.

Row groups hold one topic-partition each, sorted by invocation. The file's metadata lists which row groups hold which
topic-partition, the version of the schema and the facts about the segments that the file was made of. A history larger
than memory is written like any other: part by part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.joining import SCHEMA
from squall.results.history.manifest import MANIFEST_FILE
from squall.results.history.parquet_files import RUN_KEY, SealedWriter, opened
from squall.results.history.segments import SCHEMA_VERSION

ROW_GROUP_ROWS: Final = 1 << 20
LARGE_ROWS: Final = 1 << 22
"""From this size on, a topic-partition may be checked in slices.

Each slice reads some row groups of its neighbours and a part of the final read, so row groups then have few rows and
few delivered records.
"""
FEW_ROWS: Final = 1 << 18
FEW_RECORDS: Final = 1 << 20

_LAYOUT_KEY: Final = b"squall.topic_partitions"
_TORN_KEY: Final = b"squall.torn_lines"
_CUT_OFF_KEY: Final = b"squall.cut_off"
_SEGMENTS_KEY: Final = b"squall.segments"
_REGISTERS_KEY: Final = b"squall.registers"
_SCHEMA_KEY: Final = b"squall.schema"


@dataclass(frozen=True)
class TopicPartitionRows:
    """Where the rows of one topic-partition lie in `history.parquet`."""

    topic: str
    partition: int
    row_groups: tuple[int, ...]
    rows: int


@dataclass(frozen=True)
class Origin:
    """What a history was made of: its run, the numbers of its segments, and how many operations on registers they held.

    Operations on registers have a separate table. A field is None if it is unknown, as for a file not made of segments.
    """

    run_id: str | None = None
    segments: tuple[int, ...] | None = None
    registers: int | None = None


UNKNOWN_ORIGIN: Final = Origin()


class HistoryFile:
    """A `history.parquet` that is being written. The file appears, whole, when `finish` is called, and not before."""

    def __init__(self, path: Path, *, torn: int = 0, cut_off: int = 0, origin: Origin = UNKNOWN_ORIGIN) -> None:
        metadata = {_SCHEMA_KEY: str(SCHEMA_VERSION), _TORN_KEY: str(torn), _CUT_OFF_KEY: str(cut_off)}
        if origin.run_id is not None:
            metadata[RUN_KEY] = origin.run_id
        if origin.segments is not None:
            metadata[_SEGMENTS_KEY] = json.dumps(origin.segments)
        if origin.registers is not None:
            metadata[_REGISTERS_KEY] = str(origin.registers)
        self._file = SealedWriter(path, SCHEMA.with_metadata(metadata))
        self._places: list[list[object]] = []
        self._groups = 0

    def add(self, topic: str, partition: int, rows: pa.Table) -> None:
        """Add all rows of one topic-partition, sorted by invocation; "", -1 for rows without one."""
        large = rows.num_rows >= LARGE_ROWS
        sizes = _row_groups(rows, FEW_ROWS, FEW_RECORDS) if large else _row_groups(rows, ROW_GROUP_ROWS)
        begins = accumulate(sizes, initial=0)
        for begin, size in zip(begins, sizes, strict=False):
            self._file.writer.write_table(rows.slice(begin, size), row_group_size=size)
        groups = len(sizes)
        self._places.append([topic, partition, list(range(self._groups, self._groups + groups)), rows.num_rows])
        self._groups += groups

    def finish(self) -> None:
        self._file.finish({_LAYOUT_KEY: json.dumps(self._places)})


def _row_groups(rows: pa.Table, most_rows: int, most_records: int | None = None) -> list[int]:
    """Compute row group sizes: at most `most_rows`, and either one row or at most `most_records` delivered records."""
    if most_records is None:
        return [min(most_rows, rows.num_rows - begin) for begin in range(0, rows.num_rows, most_rows)]
    lengths = np.asarray(pc.list_value_length(rows["offsets"]), dtype=np.int64)
    delivered = np.cumsum(lengths)
    sizes, begin, before = [], 0, 0
    while begin < rows.num_rows:
        fitting = int(np.searchsorted(delivered, before + most_records, side="right")) - begin
        sizes.append(min(max(fitting, 1), most_rows, rows.num_rows - begin))
        begin += sizes[-1]
        before = int(delivered[begin - 1])
    return sizes


def layout(path: Path) -> list[TopicPartitionRows]:
    """Return which row groups hold which topic-partition. Raises IllFormedHistory unless that covers every row."""
    file = opened(path, SCHEMA.names)
    metadata = file.metadata.metadata or {}
    _require_schema(path, metadata)
    if _LAYOUT_KEY not in metadata:
        raise IllFormedHistory(path, None, "has no list of its topic-partitions; it was not written by Squall")
    try:
        places = [
            TopicPartitionRows(topic, partition, tuple(groups), rows)
            for topic, partition, groups, rows in json.loads(metadata[_LAYOUT_KEY])
        ]
    except (ValueError, TypeError) as trouble:
        raise IllFormedHistory(path, None, f"has a malformed list of its topic-partitions: {trouble}") from trouble
    groups = [group for one in places for group in one.row_groups]
    if groups != list(range(file.num_row_groups)) or sum(one.rows for one in places) != file.metadata.num_rows:
        raise IllFormedHistory(path, None, "has rows that its list of topic-partitions does not account for")
    return places


def torn_lines(path: Path) -> int:
    """The number of torn last lines in the segments from which a Parquet file was made."""
    return _number(path, _TORN_KEY)


def cut_off_segments(path: Path) -> int:
    """The number of segments without an end from which a Parquet file was made."""
    return _number(path, _CUT_OFF_KEY)


def origin_of(path: Path) -> Origin:
    """Return what a Parquet file states about the segments from which it was made."""
    metadata = opened(path, SCHEMA.names).schema_arrow.metadata or {}
    _require_schema(path, metadata)
    run_id, segments, registers = (metadata.get(key) for key in (RUN_KEY, _SEGMENTS_KEY, _REGISTERS_KEY))
    try:
        return Origin(
            None if run_id is None else run_id.decode(),
            None if segments is None else tuple(int(one) for one in json.loads(segments)),
            None if registers is None else int(registers),
        )
    except (ValueError, TypeError) as trouble:
        raise IllFormedHistory(path, None, f"does not say what it was made of: {trouble}") from trouble


def require_run(source: Path, origin: Origin, run_id: str) -> None:
    """Require that a history that names its run is of this run, as `run.json` names it. Raises IllFormedHistory."""
    if origin.run_id is not None and origin.run_id != run_id:
        problem = f"is the history of run {origin.run_id!r}, and {MANIFEST_FILE} beside it says {run_id!r}"
        raise IllFormedHistory(source, None, problem)


def _require_schema(path: Path, metadata: Mapping[bytes, bytes]) -> None:
    version = metadata.get(_SCHEMA_KEY, str(SCHEMA_VERSION).encode())
    if version != str(SCHEMA_VERSION).encode():
        said = version.decode(errors="replace")
        raise IllFormedHistory(path, None, f"has schema {said}; this version reads {SCHEMA_VERSION}")


def _number(path: Path, key: bytes) -> int:
    metadata = opened(path, SCHEMA.names).schema_arrow.metadata or {}
    _require_schema(path, metadata)
    try:
        return int(metadata.get(key, b"0"))
    except ValueError as trouble:
        raise IllFormedHistory(path, None, f"{key.decode()} is not a number: {trouble}") from trouble
