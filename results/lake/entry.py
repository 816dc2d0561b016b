"""An entry of the lake: all rows about one run, campaign or benchmark, in one small file until they are compacted.

One file an entry, because a file appears whole or not at all: two runs that end at once write two files, and a writer
that is killed leaves none. Its columns are lists, so that ten thousand entries become tables without a loop over rows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.whole_file import write_whole
from squall.results.lake.schema import SCHEMA_VERSION, TABLES, columns_of

SUFFIX: Final = ".entry.json"
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9._-]{1,80}")


class NewerEntry(IllFormedHistory):
    """The entry is of a schema that only a newer Squall reads: nothing is wrong with it."""

    def __init__(self, path: Path, schema: int) -> None:
        super().__init__(path, None, f"has schema {schema}, this Squall reads {SCHEMA_VERSION}")
        self.schema = schema


class _Schema(msgspec.Struct, frozen=True):
    """The one field that entries of every schema have."""

    schema: int = SCHEMA_VERSION


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The rows about one thing. `tables` holds their columns; `recorded` is when they were made, in ISO 8601."""

    key: str
    date: str
    recorded: str
    tables: dict[str, dict[str, list[Any]]]
    schema: int = SCHEMA_VERSION

    @classmethod
    def of(cls, key: str, date: str, recorded: str, rows: Mapping[str, list[Mapping[str, Any]]]) -> Entry:
        """Make an entry of rows by table; `key` and `date` are added to each row."""
        tables = {
            name: columns_of(name, [{"key": key, "date": date, **row} for row in some])
            for name, some in rows.items()
            if some
        }
        return cls(key=key, date=date, recorded=recorded, tables=tables)

    def save(self, folder: Path, *, durably: bool = True) -> Path:
        """Write the entry whole; it replaces an earlier one of the same key. Raises OSError."""
        path = folder / file_name(self.key)
        write_whole(path, msgspec.json.encode(self), durably=durably)
        return path

    @classmethod
    def load(cls, path: Path) -> Entry:
        """Load an entry. Raises IllFormedHistory naming the file and what is wrong; NewerEntry if nothing is wrong."""
        try:
            content = path.read_bytes()
            entry = msgspec.json.decode(content, type=cls)
        except OSError as trouble:
            raise IllFormedHistory(path, None, f"cannot be read: {trouble.strerror}") from trouble
        except msgspec.ValidationError as trouble:
            _refuse_newer(path, content)
            raise IllFormedHistory(path, None, f"is not an entry of a lake: {trouble}") from trouble
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
            raise IllFormedHistory(path, None, f"is not JSON: {trouble}") from trouble
        entry.require_fitting(path)
        return entry

    def require_fitting(self, path: Path) -> None:
        """Raise IllFormedHistory if its tables are not those of this version of the schema."""
        if self.schema > SCHEMA_VERSION:
            raise NewerEntry(path, self.schema)
        if self.schema != SCHEMA_VERSION:
            problem = f"has schema {self.schema}, this Squall reads {SCHEMA_VERSION}"
            raise IllFormedHistory(path, None, problem)
        for name, columns in self.tables.items():
            if name not in TABLES:
                raise IllFormedHistory(path, None, f"has a table {name!r}, which is not one of the lake")
            _require_types(path, name, columns)
            if len({len(values) for values in columns.values()}) > 1:
                raise IllFormedHistory(path, None, f"has columns of different lengths in its table {name}")


def file_name(key: str) -> str:
    """Return a file name for the entry of a key, also if the key is not fit to be one."""
    if _PLAIN_KEY.fullmatch(key) and not key.startswith("."):
        return key + SUFFIX
    return hashlib.sha256(key.encode()).hexdigest()[:40] + SUFFIX


def _refuse_newer(path: Path, content: bytes) -> None:
    """Raise NewerEntry if an entry that does not fit states a newer schema."""
    with suppress(msgspec.ValidationError):
        schema = msgspec.json.decode(content, type=_Schema).schema
        if schema > SCHEMA_VERSION:
            raise NewerEntry(path, schema)


def _require_types(path: Path, name: str, columns: Mapping[str, list[Any]]) -> None:
    """Raise IllFormedHistory if a column is not of its type, or a row lacks its key."""
    schema = TABLES[name].schema
    if not {"key", "date"} <= set(columns):
        raise IllFormedHistory(path, None, f"has rows of {name} without a key or a date")
    for column, values in columns.items():
        if column not in schema.names:
            raise IllFormedHistory(
                path, None, f"has a column {column!r} in its table {name}, which has none of that name"
            )
        try:
            pa.array(values, schema.field(column).type)
        except (pa.ArrowException, TypeError, OverflowError) as trouble:
            raise IllFormedHistory(path, None, f"has a wrong value in {name}.{column}: {trouble}") from trouble
