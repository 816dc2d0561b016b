"""Forge list-append histories: healthy ones of any size, in columns, and small ones for injections.

The healthy history is that of one strictly serializable store: transactions take effect one after the other, each
between its invocation and its completion. A few are of unknown outcome, half of which took effect, and a few were
aborted. Keys retire after a while, so that lists stay short; processes have one transaction after the other.

`healthy_table` is built of whole columns, a million transactions in a second or two. `transactions_of` turns a table
into plain transactions, which the injections of `forge_cycles.py` change, and `table_of` turns them back into a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from squall.results.checkers.kernels.operations import FAIL, INFO, OK, Flags, Ints
from squall.results.checkers.transactions.versions import spread
from squall.results.history.table_schemas import APPEND, READ, TRANSACTION_SCHEMA

MILLISECOND: Final = 1_000_000
SPACING: Final = MILLISECOND
"""Time between the effects of one transaction and the next."""


@dataclass(frozen=True)
class Micro:
    """An append of an element, or a read; `read` is None if its result is unknown."""

    f: int
    key: int
    element: int = 0
    read: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ForgedTransaction:
    """One transaction; with `completed` None it has no completion."""

    process: int
    invoked: int
    completed: int | None
    operations: tuple[Micro, ...]
    type: int = OK


def append(key: int, element: int) -> Micro:
    return Micro(APPEND, key, element)


def read(key: int, *elements: int) -> Micro:
    return Micro(READ, key, read=elements)


def table_of(transactions: Iterable[ForgedTransaction]) -> pa.Table:
    """Return the columns of some transactions."""
    rows = list(transactions)
    return pa.table(
        {
            "op_id": list(range(len(rows))),
            "process": [one.process for one in rows],
            "type": [one.type for one in rows],
            "invoked": [one.invoked for one in rows],
            "completed": [one.completed for one in rows],
            "clock_error": [0] * len(rows),
            "functions": [[micro.f for micro in one.operations] for one in rows],
            "keys": [[micro.key for micro in one.operations] for one in rows],
            "elements": [[micro.element for micro in one.operations] for one in rows],
            "reads": [[micro.read for micro in one.operations] for one in rows],
        },
        schema=TRANSACTION_SCHEMA,
    )


def transactions_of(table: pa.Table) -> list[ForgedTransaction]:
    """Return the plain transactions of a table."""
    return [
        ForgedTransaction(
            row["process"],
            row["invoked"],
            row["completed"],
            tuple(
                Micro(f, key, element, None if shown is None else tuple(shown))
                for f, key, element, shown in zip(
                    row["functions"], row["keys"], row["elements"], row["reads"], strict=True
                )
            ),
            row["type"],
        )
        for row in table.to_pylist()
    ]


def healthy_table(
    seed: int,
    transactions: int = 200,
    *,
    processes: int = 10,
    active_keys: int = 8,
    appends_per_key: int = 30,
    most_operations: int = 4,
    unknown: float = 0.02,
    aborted: float = 0.02,
) -> pa.Table:
    """Return the history of a strictly serializable store."""
    random = np.random.default_rng(seed)
    widths = random.integers(1, most_operations + 1, transactions)
    owner = np.repeat(np.arange(transactions), widths)
    fate = random.random(transactions)
    kind = np.where(fate < unknown, INFO, np.where(fate < unknown + aborted, FAIL, OK))
    landed = (kind == OK) | ((kind == INFO) & (random.random(transactions) < 0.5))
    is_append = random.random(len(owner)) < 0.5
    key = _keys(random, len(owner), active_keys, appends_per_key)
    element, length = _grown(key, is_append, landed[owner])
    known = (kind[owner] == OK) & ~is_append
    invoked, completed, process = _times(random, transactions, processes, kind)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(widths)))
    return pa.table(
        {
            "op_id": np.arange(transactions),
            "process": process,
            "type": kind.astype(np.int8),
            "invoked": invoked,
            "completed": pa.array(completed, mask=kind == INFO),
            "clock_error": np.zeros(transactions, np.int64),
            "functions": _lists(offsets, np.where(is_append, APPEND, READ).astype(np.int8)),
            "keys": _lists(offsets, key),
            "elements": _lists(offsets, np.where(is_append, element, 0)),
            "reads": _reads(offsets, known, length, key),
        },
        schema=TRANSACTION_SCHEMA,
    )


def _keys(random: np.random.Generator, count: int, active: int, appends: int) -> Ints:
    """Choose a key for each micro-operation; the oldest key in use retires after its share of appends."""
    step = max(1, 2 * appends)
    return np.arange(count) // step + random.integers(0, active, count)


def _grown(key: Ints, is_append: Flags, landed: Flags) -> tuple[Ints, Ints]:
    """Return each append's element, unique within its key, and the key's list length before each micro-operation.

    Elements that never took effect have numbers above all others.
    """
    order = np.argsort(key, kind="stable")
    lands = (is_append & landed)[order].astype(np.int64)
    before = np.cumsum(lands) - lands
    begins = np.concatenate((np.ones(1, np.bool_), np.diff(key[order]) != 0))
    before -= np.maximum.accumulate(np.where(begins, before, 0))
    length = np.empty(len(key), np.int64)
    length[order] = before
    never = np.arange(len(key)) + (1 << 32)
    return np.where(is_append & landed, length + 1, never), length


def _times(random: np.random.Generator, transactions: int, processes: int, kind: Ints) -> tuple[Ints, Ints, Ints]:
    """Choose invocations and completions around each transaction's effect, and processes that do one at a time.

    After a transaction of unknown outcome its process is retired, and another takes its turn.
    """
    effect = (np.arange(transactions) + processes) * SPACING
    reach = max(2, processes * SPACING // 2)
    invoked = effect - random.integers(1, reach, transactions)
    completed = effect + random.integers(1, reach, transactions)
    turn = np.arange(transactions) % processes
    order = np.argsort(turn, kind="stable")
    retired = np.cumsum(kind[order] == INFO)
    process = np.empty(transactions, np.int64)
    process[order] = turn[order] + processes * (retired - (kind[order] == INFO))
    return invoked, completed, process


def _lists(offsets: Ints, values: npt.NDArray[np.generic]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


def _reads(offsets: Ints, known: Flags, length: Ints, key: Ints) -> pa.ListArray:
    """Make the lists read: of a key's list, the elements 1, 2, 3, … as many as there were."""
    sizes = np.where(known, length, 0)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    values = spread(np.ones(len(sizes), np.int64), sizes)
    runs = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(values), mask=pa.array(~known))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), runs)
