"""What a history may hold beside operations on logs: other kinds of operations, and what nodes left, each in a table
of its own.

    history.parquet             sends, polls and what concerns logs (`joining.SCHEMA`)
    registers.parquet           reads, writes and compare-and-sets of registers; made of the segments
    transactions.parquet        list-append: transactions of appends to lists and reads of them
    log-transactions.parquet    sends and polls that are committed or aborted together
    groups.parquet              joins, commits, positions and polls of consumer groups
    replicas.parquet            no operations: every replica's log after the run, batch by batch
    control-plane.parquet       no operations: metadata logs and control traces of the nodes

Only of registers rows stand in segments. Those of the workload `list-append` are made of its sends and polls
(`lists.py`); of the other kinds, what records such operations writes the table. A kind is known by its
name, which is also that of its check (`checks/further.py`) and stands in a suite's `checks`. A table that is not there
means that a history holds no such operations.

Each says in its footer whose it is: `squall.run_id`, as `history.parquet` does. What is found in the table of another
run proves nothing about this one, however well it fits, so whoever reads one says of which run it must be, and is
refused what belongs to another, or to nobody knows whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from squall.results.ill_formed import IllFormedHistory
from squall.results.parquet_files import RUN_KEY, kept_open, opened, read_table, run_id_of, write_sealed
from squall.results.table_schemas import (
    CONTROL_SCHEMA,
    GROUP_SCHEMA,
    LOG_OPTIONAL,
    LOG_SCHEMA,
    REGISTER_SCHEMA,
    REPLICA_SCHEMA,
    TRANSACTION_SCHEMA,
)

REGISTERS: Final = "registers"
LIST_APPEND: Final = "list-append"
TRANSACTIONAL_LOG: Final = "transactional-log"
GROUPS: Final = "groups"
REPLICAS: Final = "replicas"
CONTROL_PLANE: Final = "control-plane"
OF_NODES: Final = (REPLICAS, CONTROL_PLANE)
"""The kinds that are no operations: a run collects them from its nodes."""


@dataclass(frozen=True)
class Kind:
    """One kind of operations: the file of its table, the columns, and those of them that older tables lack."""

    file: str
    schema: pa.Schema
    optional: tuple[str, ...] = ()

    @property
    def required(self) -> list[str]:
        """The columns that every table of the kind has."""
        return [name for name in self.schema.names if name not in self.optional]


KINDS: Final[Mapping[str, Kind]] = {
    REGISTERS: Kind("registers.parquet", REGISTER_SCHEMA),
    LIST_APPEND: Kind("transactions.parquet", TRANSACTION_SCHEMA),
    TRANSACTIONAL_LOG: Kind("log-transactions.parquet", LOG_SCHEMA, LOG_OPTIONAL),
    GROUPS: Kind("groups.parquet", GROUP_SCHEMA),
    REPLICAS: Kind("replicas.parquet", REPLICA_SCHEMA),
    CONTROL_PLANE: Kind("control-plane.parquet", CONTROL_SCHEMA),
}


_REMEDIES: Final[Mapping[str, str]] = {
    LIST_APPEND: "squall check makes that of the workload list-append anew; any other must be put back",
}
"""What to do about the table of another run, where that is not simply to put back that of this one."""


def write_kind(run_dir: Path, name: str, table: pa.Table, *, run_id: str) -> Path:
    """Write the table of a kind beside the history of the run of which it is."""
    path = run_dir / KINDS[name].file
    write_sealed(path, table.replace_schema_metadata({**(table.schema.metadata or {}), RUN_KEY: run_id}))
    return path


def require_owner(path: Path, name: str, run_id: str) -> None:
    """A table of a kind must say that it is that of this run. Raises IllFormedHistory."""
    problem = foreign(path, name, run_id)
    if problem is not None:
        raise IllFormedHistory(path, None, problem)


def foreign(path: Path, name: str, run_id: str) -> str | None:
    """Why a table of a kind is not known to be that of this run, and what to do; None if it says that it is. Raises
    IllFormedHistory if it cannot be read.
    """
    said = run_id_of(path, KINDS[name].required)
    if said == run_id:
        return None
    remedy = _REMEDIES.get(name, "put back that of this run")
    if said is None:
        problem = f"does not say of which run it is, and must say {run_id!r}"
        remedy = f"if it is of that run, write it with write_kind(..., run_id={run_id!r}); else {remedy}"
    else:
        problem = f"is the table of run {said!r}, and must be that of run {run_id!r}"
    return f"{problem}: {remedy}"


def recorded_rows(run_dir: Path, name: str) -> int:
    """How many operations of a kind there are; 0 without a table. Raises IllFormedHistory."""
    path = run_dir / KINDS[name].file
    return opened(path, KINDS[name].required).metadata.num_rows if path.exists() else 0


def recorded_files(run_dir: Path) -> dict[str, Path]:
    """The tables that lie beside a history, by kind."""
    files = {name: run_dir / kind.file for name, kind in KINDS.items()}
    return {name: path for name, path in files.items() if path.exists()}


def read_kind(path: Path, name: str, run_id: str | None) -> pa.Table:
    """The table of a kind, which must be that of a run (None: of whichever). Raises IllFormedHistory."""
    with kept_open():
        if run_id is not None:
            require_owner(path, name, run_id)
        return read_table(path, KINDS[name].required)


def recorded_kinds(run_dir: Path, run_id: str | None, names: Iterable[str] = tuple(KINDS)) -> dict[str, pa.Table]:
    """What the tables of these kinds hold that lie beside the history of a run. Raises IllFormedHistory for one that
    cannot be read, or is that of another.
    """
    there = recorded_files(run_dir)
    return {name: read_kind(there[name], name, run_id) for name in names if name in there}
