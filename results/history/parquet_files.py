"""Read and write Parquet files that show damage, by checksums of pages and a seal of the footer.

Parquet checks the sums of its pages if they are written and requested; nothing guards the footer, which states where
the pages lie and what they mean. So a small file beside it, `history.parquet.seal`, holds the footer's checksum and the
size of the whole. A file without a seal, from before seals were written, is read as it is.

A file is written whole or not at all, and its seal after it: between the two it has none.

Numbers of 64 bits (times, offsets, ids) are written as differences from one to the next, because they grow steadily;
all other columns by dictionary; pages are LZ4. That is smaller than dictionaries under zstd, and takes half the time to
read.

The footer of a large file takes longer to read than some of its row groups: within `kept_open` the file that was opened
last stays open. If requested, all rows of a small file (`SMALL_BYTES`) are read at once and kept as well: reading a
column of some thousand rows costs as much as reading ten times as many.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import accumulate
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from squall.results.history.ill_formed import IllFormedHistory

SEAL: Final = ".seal"
RUN_KEY: Final = b"squall.run_id"
"""The footer key that names the run of a file."""
TAIL_BYTES: Final = 8
"""The length of the footer, and `PAR1`."""
DIFFERENCES: Final = "DELTA_BINARY_PACKED"
REMEDY: Final = "delete it and its seal; both are then regenerated from the segments"

SMALL_BYTES: Final = 8 << 20
"""Of all row groups together, as they are stored; in memory they are some ten times as much."""


class _Kept:
    """The file that was opened last, and all its rows if they were requested."""

    def __init__(self, *, rows_as_well: bool) -> None:
        self.path: Path | None = None
        self.file: pq.ParquetFile | None = None
        self.columns: frozenset[str] = frozenset()
        self._rows_as_well = rows_as_well
        self._to_read = False
        self._rows: pa.Table | None = None
        self._starts: list[int] = []

    def drop(self, path: Path) -> None:
        """Forget a file that is about to be replaced."""
        if self.path == path:
            self.path, self.file, self._rows = None, None, None

    def take(self, path: Path, file: pq.ParquetFile, columns: frozenset[str]) -> None:
        self.path, self.file, self.columns, self._rows = path, file, columns, None
        self._to_read = self._rows_as_well

    def rows_of(self, row_groups: list[int]) -> pa.Table | None:
        """Return the rows of some consecutive row groups; None if they must be read separately."""
        first, last = row_groups[0], row_groups[-1]
        if row_groups != list(range(first, last + 1)) or not self._has_rows() or last + 1 >= len(self._starts):
            return None
        assert self._rows is not None
        return self._rows.slice(self._starts[first], self._starts[last + 1] - self._starts[first])

    def _has_rows(self) -> bool:
        """Whether the rows are there, or can be read. If not, each part is read alone, and a damaged one raises."""
        if self._to_read and self.file is not None:
            self._to_read = False
            footer = self.file.metadata
            groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
            rows_of_each = [one.num_rows for one in groups]
            if sum(one.total_byte_size for one in groups) <= SMALL_BYTES:
                with suppress(pa.ArrowException, OSError, ValueError):
                    rows = self.file.read(use_threads=False)
                    if rows.num_rows == sum(rows_of_each):
                        self._rows, self._starts = rows, list(accumulate(rows_of_each, initial=0))
        return self._rows is not None


_KEPT: Final[ContextVar[_Kept | None]] = ContextVar("kept", default=None)


def seal_path(path: Path) -> Path:
    """The path of a file's seal."""
    return path.with_name(path.name + SEAL)


class SealedWriter:
    """Writes a Parquet file part by part; the file takes its place, and gets its seal, after the last part."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self._draft = path.with_suffix(".parquet.new")
        columns = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
        self.writer = pq.ParquetWriter(
            self._draft,
            schema,
            compression="lz4",
            use_dictionary=[name for name, kind in columns if not pa.types.is_int64(kind)],
            column_encoding={name: DIFFERENCES for name, kind in columns if pa.types.is_int64(kind)},
            write_page_checksum=True,
        )

    def finish(self, metadata: Mapping[bytes, str] | None = None) -> None:
        """Complete the file. `metadata` goes into its footer."""
        if metadata:
            self.writer.add_key_value_metadata(dict(metadata))
        self.writer.close()
        with self._draft.open("rb") as file:
            os.fsync(file.fileno())
        seal, draft = seal_path(self.path), seal_path(self._draft)
        draft.write_text(_seal_of(self._draft))
        seal.unlink(missing_ok=True)
        kept = _KEPT.get()
        if kept is not None:
            kept.drop(self.path)
        self._draft.replace(self.path)
        draft.replace(seal)


def write_sealed(path: Path, table: pa.Table) -> None:
    """Write a whole table."""
    file = SealedWriter(path, table.schema)
    file.writer.write_table(table)
    file.finish()


@contextmanager
def kept_open(*, rows_as_well: bool = False) -> Iterator[None]:
    """Keep the file that was opened last open, and with `rows_as_well` keep its rows if it is small.

    In this context only a `SealedWriter` of this process may change the files that are read.
    """
    token = _KEPT.set(_Kept(rows_as_well=rows_as_well))
    try:
        yield
    finally:
        _KEPT.reset(token)


def opened(path: Path, columns: Iterable[str]) -> pq.ParquetFile:
    """Open a file that must have these columns. Raises IllFormedHistory."""
    kept = _KEPT.get()
    if kept is not None and kept.path == path and kept.file is not None:
        file, there = kept.file, kept.columns
    else:
        file = _opened(path)
        there = frozenset(file.schema_arrow.names)
        if kept is not None:
            kept.take(path, file, there)
    missing = [name for name in columns if name not in there]
    if missing:
        raise IllFormedHistory(path, None, f"lacks the columns {', '.join(missing)}")
    return file


def _opened(path: Path) -> pq.ParquetFile:
    _require_seal(path)
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}") from trouble


def run_id_of(path: Path, columns: Iterable[str]) -> str | None:
    """The run of a file, by its footer; None if that names none. Raises IllFormedHistory."""
    said = (opened(path, columns).metadata.metadata or {}).get(RUN_KEY)
    return None if said is None else said.decode(errors="replace")


def read_table(path: Path, columns: Iterable[str], row_groups: Iterable[int] | None = None) -> pa.Table:
    """Read all columns of a file that must have these, or only some of its row groups. Raises IllFormedHistory."""
    file = opened(path, columns)
    try:
        return file.read() if row_groups is None else _row_groups(file, list(row_groups))
    except (pa.ArrowException, OSError, ValueError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}; {REMEDY}") from trouble


def read_columns(path: Path, columns: list[str], row_groups: Iterable[int]) -> pa.Table:
    """Read some columns of some row groups. Raises IllFormedHistory."""
    file = opened(path, columns)
    try:
        return _row_groups(file, list(row_groups), columns)
    except (pa.ArrowException, OSError, ValueError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}; {REMEDY}") from trouble


def _row_groups(file: pq.ParquetFile, numbers: list[int], columns: list[str] | None = None) -> pa.Table:
    kept = _KEPT.get()
    found = None if kept is None or kept.file is not file or not numbers else kept.rows_of(numbers)
    if found is None:
        return file.read_row_groups(numbers, columns=columns, use_threads=False)
    return found if columns is None else found.select(columns)


def _leaves(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the columns that Parquet makes of one of Arrow's, and the type of each."""
    if pa.types.is_list(kind):
        yield from _leaves(f"{name}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{name}.{field.name}", field.type)
    else:
        yield name, kind


def _seal_of(path: Path) -> str:
    """`SIZE CHECKSUM` of a Parquet file; a file too short for a footer has a seal that fits no Parquet file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read()
        length = min(int.from_bytes(tail[:4], "little") + TAIL_BYTES, size)
        file.seek(size - length)
        return f"{size} {zlib.crc32(file.read()):08x}\n"


def _require_seal(path: Path) -> None:
    """Require that a file is the one that was sealed. Raises IllFormedHistory."""
    try:
        sealed = seal_path(path).read_bytes()
    except FileNotFoundError:
        return
    except OSError as trouble:
        raise IllFormedHistory(seal_path(path), None, f"cannot be read: {trouble.strerror}") from trouble
    try:
        found = _seal_of(path).encode()
    except OSError as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble.strerror}") from trouble
    if found != sealed:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: it is not the file that was written; {REMEDY}")
