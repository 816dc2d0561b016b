"""Parquet files that show damage: pages carry check sums, and a seal beside the file has that of its footer.

Parquet checks the sums of its pages by itself if they are written and asked for; nothing guards the footer, which says
where the pages lie and what they mean. So a small file beside it, `history.parquet.seal`, holds the footer's check sum
and the size of the whole. A file without a seal, of before there were any, is read as it stands.

A file is written whole or not at all, and its seal after it: between the two it has none.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from squall.results.segments import IllFormedHistory

SEAL: Final = ".seal"
TAIL_BYTES: Final = 8
"""The length of the footer, and `PAR1`."""
REMEDY: Final = "delete it and the seal beside it, and it is made anew of the segments"


def seal_path(path: Path) -> Path:
    """Where the seal of a file lies."""
    return path.with_name(path.name + SEAL)


class SealedWriter:
    """Writes a Parquet file part by part; it takes its place, and gets its seal, when the last part is there."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self._draft = path.with_suffix(".parquet.new")
        self.writer = pq.ParquetWriter(self._draft, schema, compression="zstd", write_page_checksum=True)

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


def opened(path: Path, columns: Iterable[str]) -> pq.ParquetFile:
    """Open a file that must have these columns. Raises IllFormedHistory."""
    _require_seal(path)
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}") from trouble
    missing = [name for name in columns if name not in file.schema_arrow.names]
    if missing:
        raise IllFormedHistory(path, None, f"lacks the columns {', '.join(missing)}")
    return file


def read_table(path: Path, columns: Iterable[str], row_groups: Iterable[int] | None = None) -> pa.Table:
    """All columns of a file that must have these, or only some row groups of it. Raises IllFormedHistory."""
    file = opened(path, columns)
    try:
        return file.read() if row_groups is None else file.read_row_groups(list(row_groups), use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}; {REMEDY}") from trouble


def read_columns(path: Path, columns: list[str]) -> pa.Table:
    """Some columns of a whole file. Raises IllFormedHistory."""
    file = opened(path, columns)
    try:
        return file.read(columns=columns)
    except (pa.ArrowException, OSError, ValueError) as trouble:
        raise IllFormedHistory(path, None, f"cannot be read as Parquet: {trouble}; {REMEDY}") from trouble


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
