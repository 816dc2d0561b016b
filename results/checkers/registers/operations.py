"""Load operations on registers as arrays, the input of the checks of registers.

A register holds one value at a time. Three functions act on it: `read`, `write` of a value, and `cas`, which replaces
an expected value by another and leaves everything as it is if the register holds something else.

What an operation states, by its type:

    ok      it took effect between `invoked` and `completed`; a read shows a value in `found`
    info    it may have taken effect at any time after `invoked`, or may do so yet, or never
    fail    it has certainly not changed anything, and never will

A compare-and-set that failed because the register held something else is `fail` and `refused`. That is a statement
about the register, unlike a plain failure; `found` says what it held, if the response says so. `version` is the version
in a response: of the value read, or of the value written. Versions grow with every change, not necessarily by one. A
register that holds nothing holds `ABSENT`.

Times are the control process's. If operations come from several clocks, each interval is widened by the error of its
clock, so that only what is certain counts as one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.history.rows import ABSENT, REGISTER_FUNCTIONS
from squall.results.history.table_schemas import REGISTER_SCHEMA

__all__ = ["ABSENT", "REGISTER_FUNCTIONS", "REGISTER_SCHEMA", "RegisterOperation", "Registers", "register_table"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).max
NONE: Final = np.iinfo(np.int64).min

READ: Final = REGISTER_FUNCTIONS["read"]
WRITE: Final = REGISTER_FUNCTIONS["write"]
CAS: Final = REGISTER_FUNCTIONS["cas"]

OK: Final = 0
FAIL: Final = 1
INFO: Final = 2
REGISTER_TYPES: Final = {"ok": OK, "fail": FAIL, "info": INFO}


@dataclass(frozen=True)
class RegisterOperation:
    """One operation with its completion; with `completed` None it has no completion."""

    f: str
    process: int
    invoked: int
    completed: int | None
    type: str = "ok"
    register: str = "r"
    value: int | None = None
    expected: int | None = None
    found: int | None = None
    version: int | None = None
    refused: bool = False
    error: str | None = None
    clock_id: int = 0
    clock_error: int = 0


def register_table(operations: Sequence[RegisterOperation]) -> pa.Table:
    """Make a table of operations, numbered in their order."""
    columns = {
        name: [getattr(one, name) for one in operations]
        for name in REGISTER_SCHEMA.names
        if name not in ("op_id", "f", "type", "register")
    }
    columns["op_id"] = list(range(len(operations)))
    columns["f"] = [REGISTER_FUNCTIONS[one.f] for one in operations]
    columns["type"] = [REGISTER_TYPES[one.type] for one in operations]
    arrays = {name: pa.array(values, REGISTER_SCHEMA.field(name).type) for name, values in columns.items()}
    arrays["register"] = pa.array([one.register for one in operations], pa.string()).dictionary_encode()
    return pa.table([arrays[name] for name in REGISTER_SCHEMA.names], schema=REGISTER_SCHEMA)


@dataclass(frozen=True)
class Registers:
    """Columns of the operations on many registers, one element per operation; `register` is an index of `names`."""

    names: tuple[str, ...]
    op_id: Ints
    process: Ints
    register: Ints
    f: Ints
    type: Ints
    invoked: Ints
    completed: Ints
    value: Ints
    expected: Ints
    found: Ints
    version: Ints
    refused: Flags

    @classmethod
    def from_table(cls, table: pa.Table) -> Registers:
        """Read rows of `REGISTER_SCHEMA` in any order. Nulls become NEVER for times and NONE for other numbers."""
        names = table["register"].cast(pa.string()).combine_chunks().dictionary_encode()
        types = _numbers(table, "type", INFO)
        invoked, completed = _numbers(table, "invoked", 0), _numbers(table, "completed", int(NEVER))
        completed = np.where(types == INFO, NEVER, completed)
        if len(np.unique(np.asarray(table["clock_id"]))) > 1:
            error = _numbers(table, "clock_error", 0)
            invoked = invoked - error
            completed = np.where(completed == NEVER, NEVER, completed + error)
        return cls(
            names=tuple(names.dictionary.to_pylist()),
            op_id=_numbers(table, "op_id", 0),
            process=_numbers(table, "process", -1),
            register=np.asarray(names.indices, dtype=np.int64),
            f=_numbers(table, "f", READ),
            type=types,
            invoked=invoked,
            completed=completed,
            value=_numbers(table, "value", int(NONE)),
            expected=_numbers(table, "expected", int(NONE)),
            found=_numbers(table, "found", int(NONE)),
            version=np.where(types == INFO, NONE, _numbers(table, "version", int(NONE))),
            refused=np.asarray(table["refused"], dtype=np.bool_),
        )

    def __len__(self) -> int:
        return len(self.f)

    @property
    def changes(self) -> Flags:
        """Operations that replaced the register's value, or may have."""
        return (self.f != READ) & (self.type != FAIL)

    @property
    def observes(self) -> Flags:
        """Responses that say what the register held and change nothing: reads, and refusals that say why."""
        return (self.found != NONE) & (((self.f == READ) & (self.type == OK)) | self.is_refusal)

    @property
    def is_refusal(self) -> Flags:
        """Compare-and-sets that failed because the register held something else."""
        return (self.f == CAS) & (self.type == FAIL) & self.refused

    @property
    def is_false_refusal(self) -> Flags:
        """Refusals that show the very value that was expected."""
        return self.is_refusal & (self.found == self.expected) & (self.found != NONE)

    @property
    def has_effect(self) -> Flags:
        """Operations that state anything about the register; the others failed, or are reads that showed nothing."""
        return self.changes | self.observes | self.is_refusal

    @property
    def tells(self) -> Flags:
        """Responses that could be wrong: about the value that was there, its version, or the version of a new one.

        A change of unknown outcome is none, nor is a write that was only acknowledged.
        """
        changed = self.changes & (self.type == OK)
        return self.observes | self.is_refusal | (changed & ((self.f == CAS) | (self.version != NONE)))


def _numbers(table: pa.Table, name: str, null: int) -> Ints:
    column = table[name]
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), null)
    return np.asarray(column, dtype=np.int64)
