"""What a history may hold beside operations on logs: other kinds of operations, each in a table of its own.

    history.parquet             sends, polls and what concerns logs (`joining.SCHEMA`)
    registers.parquet           reads, writes and compare-and-sets of registers; made of the segments
    transactions.parquet        list-append: transactions of appends to lists and reads of them
    log-transactions.parquet    sends and polls that are committed or aborted together
    groups.parquet              joins, commits, positions and polls of consumer groups

Of the latter three no rows stand in segments. Those of the workload `list-append` are made of its sends and polls
(`lists.py`); of the other kinds, what records such operations writes the table. A kind is known by its
name, which is also that of its check (`checks/further.py`) and stands in a suite's `checks`. A table that is not there
means that a history holds no such operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from squall.results.checks.groups import GROUP_SCHEMA
from squall.results.checks.registers.operations import REGISTER_SCHEMA
from squall.results.checks.transactions.columns import SCHEMA as TRANSACTION_SCHEMA
from squall.results.checks.transactions.log_rules import LOG_SCHEMA
from squall.results.parquet_files import opened, read_table, write_sealed

REGISTERS: Final = "registers"
LIST_APPEND: Final = "list-append"
TRANSACTIONAL_LOG: Final = "transactional-log"
GROUPS: Final = "groups"


@dataclass(frozen=True)
class Kind:
    """One kind of operations: the file of its table, and the columns."""

    file: str
    schema: pa.Schema


KINDS: Final[Mapping[str, Kind]] = {
    REGISTERS: Kind("registers.parquet", REGISTER_SCHEMA),
    LIST_APPEND: Kind("transactions.parquet", TRANSACTION_SCHEMA),
    TRANSACTIONAL_LOG: Kind("log-transactions.parquet", LOG_SCHEMA),
    GROUPS: Kind("groups.parquet", GROUP_SCHEMA),
}


def write_kind(run_dir: Path, name: str, table: pa.Table) -> Path:
    """Write the table of a kind beside the history."""
    path = run_dir / KINDS[name].file
    write_sealed(path, table)
    return path


def recorded_rows(run_dir: Path, name: str) -> int:
    """How many operations of a kind there are; 0 without a table. Raises IllFormedHistory."""
    path = run_dir / KINDS[name].file
    return opened(path, KINDS[name].schema.names).metadata.num_rows if path.exists() else 0


def recorded_files(run_dir: Path) -> dict[str, Path]:
    """The tables that lie beside a history, by kind."""
    files = {name: run_dir / kind.file for name, kind in KINDS.items()}
    return {name: path for name, path in files.items() if path.exists()}


def recorded_kinds(run_dir: Path) -> dict[str, pa.Table]:
    """What those tables hold. Raises IllFormedHistory for one that cannot be read."""
    return {name: read_table(path, KINDS[name].schema.names) for name, path in recorded_files(run_dir).items()}
