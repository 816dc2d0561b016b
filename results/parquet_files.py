"""Parquet files that show damage: pages carry check sums, and a seal beside the file has that of its footer.

Parquet checks the sums of its pages by itself if they are written and asked for; nothing guards the footer, which says
where the pages lie and what they mean. So a small file beside it, `history.parquet.seal`, holds the footer's check sum
and the size of the whole. A file without a seal, of before there were any, is read as it stands.

A file is written whole or not at all, and its seal after it: between the two it has none.

Numbers of 64 bits (times, offsets, ids) are written as differences from one to the next, which is how they grow, all
else by dictionary; pages are LZ4. That is smaller than dictionaries under zstd, and takes half the time to read.

The footer of a large file takes longer to read than some of its row groups: within `kept_open` the file that was opened
last stays open.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from squall.results.segments import IllFormedHistory

SEAL: Final = ".seal"
TAIL_BYTES: Final = 8
"""The length of the footer, and `PAR1`."""
DIFFERENCES: Final = "DELTA_BINARY_PACKED"
REMEDY: Final = "delete it and the seal beside it, and it is made anew of the segments"

_KEPT: Final[ContextVar[dict[Path, pq.ParquetFile] | None]] = ContextVar("kept", default=None)


def seal_path(path: Path) -> Path:
    """Where the seal of a file lies."""
    return path.with_name(path.name + SEAL)


class SealedWriter:
    """Writes a Parquet file part by part; it takes its place, and gets its seal, when the last part is there."""

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
        """The file is whole. `metadata` goes into its footer."""
        if metadata:
            self.writer.add_key_value_metadata(dict(metadata))
        self.writer.close()
        with self._draft.open("rb") as file:
            os.fsync(file.fileno())
        seal, draft = seal_path(self.path), seal_path(self._draft)
        draft.write_text(_seal_of(self._draft))
        seal.unlink(missing_ok=True)
        self._draft.replace(self.path)
        draft.replace(seal)


def write_sealed(path: Path, table: pa.Table) -> None:
    """Write a whole table."""
    file = SealedWriter(path, table.schema)
    file.writer.write_table(table)
    file.finish()


@contextmanager
def kept_open() -> Iterator[None]:
    """While this lasts, nobody changes the files that are read, and the one opened last is not opened again."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def opened(path: Path, columns: Iterable[str]) -> pq.ParquetFile:
    """Open a file that must have these columns. Raises IllFormedHistory."""
    kept = _KEPT.get()
    file = _opened(path) if kept is None or path not in kept else kept[path]
    if kept is not None and path not in kept:
        kept.clear()
        kept[path] = file
    there = set(file.schema_arrow.names)
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


def read_table(path: Path, columns: Iterable[str], row_groups: Iterable[int] | None = None) -> pa.Table:
    """All columns of a file that must have these, or only some row groups of it. Raises IllFormedHistory."""
    file = opened(path, columns)
    try:
        return file.read() if row_groups is None else file.read_row_groups(list(row_groups), use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}; {REMEDY}") from trouble


def read_columns(path: Path, columns: list[str], row_groups: Iterable[int]) -> pa.Table:
    """Some columns of some row groups. Raises IllFormedHistory."""
    file = opened(path, columns)
    try:
        return file.read_row_groups(list(row_groups), columns=columns, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}; {REMEDY}") from trouble


def _leaves(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """The columns that Parquet makes of one of Arrow's, and what each holds."""
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
    """Raises IllFormedHistory if a file is not the one that was sealed."""
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
