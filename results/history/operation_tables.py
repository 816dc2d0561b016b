"""Read and write the tables beside a history: other kinds of operations, and what the nodes left.

    history.parquet             sends, polls and what concerns logs (`joining.SCHEMA`)
    registers.parquet           reads, writes and compare-and-sets of registers; made of the segments
    transactions.parquet        list-append: transactions of appends to lists and reads of them
    log-transactions.parquet    sends and polls that are committed or aborted together
    groups.parquet              joins, commits, positions and polls of consumer groups
    replicas.parquet            no operations: every replica's log after the run, batch by batch
    control-plane.parquet       no operations: metadata logs and control traces of the nodes

Of these kinds, only operations on registers are rows of segments. The table of the workload `list-append` is made of
its sends and polls (`lists.py`); the tables of other kinds are written by what records such operations. A kind is
identified by its name (`operation_kinds.py`), which is also that of its check and is used in a suite's `checks`. A
missing table means that a history holds no such operations.

A kind's file and its columns are declared here and not with its check (`checkers/registry.py`): they are part of the
format of a run directory, to which its writers keep as well: `history.py`, `lists.py`, importers, and what collects
tables from nodes. None of these needs a check. For the same reason the engine knows registers by name where it checks
whether a history is well-formed: their operations share ids and processes with those on logs.

Each table names its run in the footer: `squall.run_id`, as `history.parquet` does. A finding in the table of another
run proves nothing about this one, however well the table fits. So a reader states which run it must belong to, and a
table of another or an unknown run is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.operation_kinds import (
    CONTROL_PLANE,
    GROUPS,
    LIST_APPEND,
    REGISTERS,
    REPLICAS,
    TRANSACTIONAL_LOG,
)
from squall.results.history.parquet_files import RUN_KEY, kept_open, opened, read_table, run_id_of, write_sealed
from squall.results.history.table_schemas import (
    CONTROL_OPTIONAL,
    CONTROL_SCHEMA,
    GROUP_SCHEMA,
    LOG_OPTIONAL,
    LOG_SCHEMA,
    REGISTER_SCHEMA,
    REPLICA_OPTIONAL,
    REPLICA_SCHEMA,
    TRANSACTION_SCHEMA,
)


@dataclass(frozen=True)
class Kind:
    """One kind of operations: the file of its table, its columns, and the columns that older tables lack."""

    file: str
    schema: pa.Schema
    optional: tuple[str, ...] = ()
    remedy: str = "put back that of this run"
    """What to do about the table of another run."""

    @property
    def required(self) -> list[str]:
        """The columns that every table of the kind has."""
        return [name for name in self.schema.names if name not in self.optional]


KINDS: Final[Mapping[str, Kind]] = {
    REGISTERS: Kind("registers.parquet", REGISTER_SCHEMA),
    LIST_APPEND: Kind(
        "transactions.parquet",
        TRANSACTION_SCHEMA,
        remedy="squall check regenerates it for the workload list-append; any other must be restored",
    ),
    TRANSACTIONAL_LOG: Kind("log-transactions.parquet", LOG_SCHEMA, LOG_OPTIONAL),
    GROUPS: Kind("groups.parquet", GROUP_SCHEMA),
    REPLICAS: Kind("replicas.parquet", REPLICA_SCHEMA, REPLICA_OPTIONAL),
    CONTROL_PLANE: Kind("control-plane.parquet", CONTROL_SCHEMA, CONTROL_OPTIONAL),
}
"""By name, in the order in which tables are read and checked."""


def write_kind(run_dir: Path, name: str, table: pa.Table, *, run_id: str) -> Path:
    """Write the table of a kind beside the history of its run."""
    path = run_dir / KINDS[name].file
    write_sealed(path, table.replace_schema_metadata({**(table.schema.metadata or {}), RUN_KEY: run_id}))
    return path


def require_owner(path: Path, name: str, run_id: str) -> None:
    """Require that a table of a kind names this run. Raises IllFormedHistory."""
    problem = foreign(path, name, run_id)
    if problem is not None:
        raise IllFormedHistory(path, None, problem)


def foreign(path: Path, name: str, run_id: str) -> str | None:
    """Why a table of a kind is not known to belong to this run, and what to do; None if it names this run.

    Raises IllFormedHistory if it cannot be read.
    """
    said = run_id_of(path, KINDS[name].required)
    if said == run_id:
        return None
    remedy = KINDS[name].remedy
    if said is None:
        problem = f"does not say of which run it is, and must say {run_id!r}"
        remedy = f"if it is of that run, write it with write_kind(..., run_id={run_id!r}); else {remedy}"
    else:
        problem = f"is the table of run {said!r}, and must be that of run {run_id!r}"
    return f"{problem}: {remedy}"


def recorded_rows(run_dir: Path, name: str) -> int:
    """The number of operations of a kind; 0 without a table. Raises IllFormedHistory."""
    path = run_dir / KINDS[name].file
    return opened(path, KINDS[name].required).metadata.num_rows if path.exists() else 0


def recorded_files(run_dir: Path) -> dict[str, Path]:
    """The tables that lie beside a history, by kind."""
    files = {name: run_dir / kind.file for name, kind in KINDS.items()}
    return {name: path for name, path in files.items() if path.exists()}


def read_kind(path: Path, name: str, run_id: str | None) -> pa.Table:
    """Read the table of a kind, which must belong to a run (None: any). Raises IllFormedHistory."""
    with kept_open():
        if run_id is not None:
            require_owner(path, name, run_id)
        return read_table(path, KINDS[name].required)


def recorded_kinds(run_dir: Path, run_id: str | None, names: Iterable[str] = tuple(KINDS)) -> dict[str, pa.Table]:
    """Read the tables of these kinds that lie beside the history of a run.

    Raises IllFormedHistory for a table that cannot be read or belongs to another run.
    """
    there = recorded_files(run_dir)
    return {name: read_kind(there[name], name, run_id) for name in names if name in there}
