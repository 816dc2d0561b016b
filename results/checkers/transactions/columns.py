"""Load transactions as numpy arrays, the input of the checks of list-append histories.

A history of list-append has one row per transaction and, in it, a list of micro-operations: `append` of an element to a
key's list, and `read` of the whole list. Elements of a key are appended once, which makes the checks exact: a list that
was read shows who wrote what, in which order. `Transactions.of` refuses histories in which an element was appended
twice, because nothing certain can be concluded from them.

Lists stay in Arrow's layout, flat with offsets; nothing is copied per row. Intervals are widened by the clock's error
here, once, so that no later rule has to consider it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.checkers.kernels.operations import FAIL, INFO, NEVER, OK, Flags, Ints
from squall.results.history.table_schemas import APPEND, READ, TRANSACTION_SCHEMA


class UnusableTransactions(Exception):
    """A history of transactions that proves nothing about the system: its verdict is unknown."""


@dataclass(frozen=True)
class Transactions:
    """One element per transaction; then one per micro-operation, in order; then the elements of all reads.

    `key` numbers the keys from 0; `key_names` has their names. `start` and `length` say where in `elements` the list of
    a read lies; its length is -1 without a list. `invoked` and `completed` are widened by the error of the clock,
    `asked` and `answered` are the process's own times. `by_process` has all transactions, grouped by process, in its
    order.
    """

    op_id: Ints
    process: Ints
    type: Ints
    invoked: Ints
    completed: Ints
    asked: Ints
    answered: Ints
    owner: Ints
    is_append: Flags
    key: Ints
    element: Ints
    start: Ints
    length: Ints
    elements: Ints
    key_names: Ints
    by_process: Ints

    def __len__(self) -> int:
        return len(self.op_id)

    @classmethod
    def of(cls, table: pa.Table) -> Transactions:
        """From rows of `TRANSACTION_SCHEMA`, in any order. Raises UnusableTransactions."""
        table = conformed(table, TRANSACTION_SCHEMA, unknown_within=frozenset(("reads",)))
        error = _numbers(table, "clock_error", 0)
        asked, answered = _numbers(table, "invoked", 0), _numbers(table, "completed", NEVER)
        kind = _numbers(table, "type", INFO)
        answered = np.where(kind == INFO, NEVER, answered)
        functions = _whole(table, "functions")
        widths = np.asarray(pc.list_value_length(functions)).astype(np.int64)
        reads = _whole(table, "reads")
        _same_widths(widths, table)
        runs = reads.flatten()
        length = np.asarray(pc.fill_null(pc.list_value_length(runs), -1)).astype(np.int64)
        codes = np.asarray(functions.flatten())
        _refuse(bool(((codes != APPEND) & (codes != READ)).any()), "functions must be 0 (append) or 1 (read)")
        _refuse(runs.values.null_count > 0, "the lists in the column reads hold nulls")
        is_append = codes == APPEND
        names, key = _numbered(_whole(table, "keys").flatten())
        process = _numbers(table, "process", -1)
        made = cls(
            op_id=_numbers(table, "op_id", -1),
            process=process,
            type=kind,
            invoked=asked - error,
            completed=np.where(answered == NEVER, NEVER, answered + error),
            asked=asked,
            answered=answered,
            owner=np.repeat(np.arange(len(table)), widths),
            is_append=is_append,
            key=key,
            element=np.asarray(_whole(table, "elements").flatten(), dtype=np.int64),
            start=np.asarray(runs.offsets, dtype=np.int64)[:-1],
            length=np.where(is_append, -1, length),
            elements=np.asarray(runs.values, dtype=np.int64),
            key_names=names,
            by_process=np.lexsort((answered, asked, process)),
        )
        made._refuse_nonsense()
        return made

    def _refuse_nonsense(self) -> None:
        _refuse(bool((self.invoked > self.asked).any()), "the error of a clock must not be negative")
        refuse_impossible(self.op_id, self.type, self.asked, self.answered)
        refuse_overlaps(self.op_id, self.process, self.asked, self.answered, self.by_process)

    def list_of(self, micro: int) -> list[int]:
        """Return the list of a read."""
        return self.elements[self.start[micro] : self.start[micro] + max(0, self.length[micro])].tolist()


def conformed(table: pa.Table, schema: pa.Schema, *, unknown_within: frozenset[str]) -> pa.Table:
    """Return the columns of a schema, cast to its types. Raises UnusableTransactions.

    Nulls are allowed where the schema allows them, and in the lists of the columns `unknown_within`.
    """
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise UnusableTransactions(f"the table of transactions lacks the columns {', '.join(missing)}")
    table = table.select(schema.names)
    for field in schema:
        column = table[field.name]
        inside = isinstance(field.type, pa.ListType) and field.name not in unknown_within
        nulls = column.null_count if not field.nullable else 0
        if nulls or (inside and pa.types.is_list(column.type) and pc.list_flatten(column).null_count):
            raise UnusableTransactions(f"the column {field.name} holds nulls; it must not")
    try:
        return table.cast(schema)
    except (pa.ArrowException, ValueError) as trouble:
        raise UnusableTransactions(f"the columns do not have the types they must have: {trouble}") from trouble


def refuse_impossible(op_id: Ints, kind: Ints, asked: Ints, answered: Ints) -> None:
    """Refuse operations that ended before they began or have an invalid outcome. Raises UnusableTransactions."""
    bad = np.flatnonzero(answered < asked)
    if len(bad):
        raise UnusableTransactions(f"operation {op_id[bad[0]]} ended before it began")
    unknown = np.flatnonzero(~np.isin(kind, (OK, FAIL, INFO)))
    if len(unknown):
        raise UnusableTransactions(
            f"operation {op_id[unknown[0]]} has the type {kind[unknown[0]]}; it must be 0, 1 or 2"
        )


def refuse_overlaps(
    op_id: Ints, process: Ints, asked: Ints, answered: Ints, by_process: Ints, *, what: str = "transaction"
) -> None:
    """Refuse two operations (`what`) of one process that overlap. Raises UnusableTransactions.

    `by_process` is all of them, sorted by process, invocation and completion.
    """
    first, second = by_process[:-1], by_process[1:]
    both = (process[first] == process[second]) & (answered[first] > asked[second])
    if both.any():
        one = first[np.flatnonzero(both)[0]]
        raise UnusableTransactions(f"process {process[one]} began another {what} before {op_id[one]} had ended")


def _refuse(condition: bool, reason: str) -> None:
    if condition:
        raise UnusableTransactions(reason)


def _numbers(table: pa.Table, name: str, null: int) -> Ints:
    column = table[name]
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), null)
    return np.asarray(column, dtype=np.int64)


def _whole(table: pa.Table, name: str) -> pa.ListArray:
    column = table[name].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _same_widths(widths: Ints, table: pa.Table) -> None:
    for name in ("keys", "elements", "reads"):
        if not np.array_equal(np.asarray(pc.list_value_length(_whole(table, name))), widths):
            raise UnusableTransactions(f"the lists in the columns functions and {name} differ in length")


def _numbered(keys: pa.Array) -> tuple[Ints, Ints]:
    """Return the distinct keys, and each key's number among them."""
    encoded = keys.dictionary_encode()
    return np.asarray(encoded.dictionary, dtype=np.int64), np.asarray(encoded.indices, dtype=np.int64)
