"""Check a list-append history: from Arrow columns to anomalies with witnesses.

    columns.py → versions.py → dependencies.py → suspects.py → cycles.py

A history is serializable if and only if none of these finds anything but `-process` and `-realtime` cycles, and
strictly serializable if and only if none finds anything: without contradictions in the lists and without cycles, any
order of the transactions that respects all edges is a serial one that explains every read. (Its test searches through
all serial orders.) `MODELS` states which anomalies each consistency model forbids; each forbids what the one before it
does, and more.
"""

from __future__ import annotations

import time
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from squall.results.checkers.kernels.operations import FAIL, INFO, NEVER, OK
from squall.results.checkers.transactions.anomalies import CYCLES, LIST_ANOMALIES
from squall.results.checkers.transactions.columns import Transactions, UnusableTransactions
from squall.results.checkers.transactions.cycles import Cycle, find_cycles
from squall.results.checkers.transactions.dependencies import PROCESS, RW, WR, WW, dependencies
from squall.results.checkers.transactions.facts import (
    ORDERS,
    ListAppendResult,
    MicroFacts,
    StepFacts,
    TransactionFacts,
    TransactionWitness,
)
from squall.results.checkers.transactions.versions import Contradiction, Versions, versions

SECONDS: Final = 120.0
SHOWN: Final = 6
_TYPES: Final = {OK: "ok", FAIL: "fail", INFO: "info"}

Name = Literal["valid", "invalid", "unknown"]

_LISTS: Final = tuple(one.name for one in LIST_ANOMALIES)
_NAMES: Final = tuple(one.name for one in CYCLES)
MODELS: Final[dict[str, frozenset[str]]] = {
    "read-committed": frozenset((*_LISTS, *_NAMES[:2])),
    "serializable": frozenset((*_LISTS, *_NAMES[:4])),
    "strong-session-serializable": frozenset((*_LISTS, *_NAMES[:8])),
    "strict-serializable": frozenset((*_LISTS, *_NAMES)),
}
"""The anomalies that each consistency model forbids."""


def verdict_of(result: ListAppendResult, model: str) -> Name:
    """Return the verdict on a history under a consistency model. A check without reads proves nothing."""
    if MODELS[model] & set(result.anomalies):
        return "invalid"
    if result.undecided or not result.transactions.get("ok") or not result.elements:
        return "unknown"
    return "valid"


def check_list_append(table: pa.Table, *, seconds: float = SECONDS) -> ListAppendResult:
    """Check a table (`TRANSACTION_SCHEMA`). What is not begun after `seconds` is named in `undecided`."""
    began = time.perf_counter()
    deadline = time.monotonic() + seconds
    try:
        transactions = Transactions.of(table)
        orders = versions(transactions)
    except UnusableTransactions as trouble:
        return _unusable(str(trouble), began)
    found = dependencies(transactions, orders)
    edges = found.edges
    cycles = find_cycles(transactions.invoked, transactions.completed, edges, deadline)
    undecided = (*cycles.undecided, *found.left_out)
    told = _Teller(transactions, orders)
    listed = (*orders.contradictions, *found.contradictions)
    kinds = np.bincount(edges.kind, minlength=len(ORDERS))
    counts = np.bincount(transactions.type, minlength=3)
    effective = int(orders.effective[transactions.type == INFO].sum())
    return ListAppendResult(
        transactions={name: int(counts[code]) for code, name in _TYPES.items()},
        micro_operations=len(transactions.owner),
        elements=int(np.maximum(transactions.length[orders.reads], 0).sum()),
        keys=len(transactions.key_names),
        effective_unknown=effective,
        edges={ORDERS[kind]: int(kinds[kind]) for kind in (WW, WR, RW, PROCESS)},
        anomalies={one.anomaly: one.total for one in listed} | cycles.counts,
        witnesses=(
            *(told.contradiction(one) for each in listed for one in each.instances),
            *(told.cycle(one) for one in cycles.examples),
        ),
        undecided=undecided,
        large_groups=cycles.partly,
        milliseconds=(time.perf_counter() - began) * 1000,
    )


def _unusable(reason: str, began: float) -> ListAppendResult:
    return ListAppendResult(
        transactions={},
        micro_operations=0,
        elements=0,
        keys=0,
        effective_unknown=0,
        edges={},
        anomalies={},
        witnesses=(),
        undecided=(reason,),
        large_groups=0,
        milliseconds=(time.perf_counter() - began) * 1000,
    )


class _Teller:
    """Turns numbers of transactions and micro-operations into facts that can be read without the history."""

    def __init__(self, transactions: Transactions, orders: Versions) -> None:
        self.transactions, self.orders = transactions, orders
        self.first = np.searchsorted(transactions.owner, np.arange(len(transactions) + 1))

    def contradiction(self, one: Contradiction) -> TransactionWitness:
        owners = [int(self.transactions.owner[micro]) for micro in one.micros]
        distinct = list(dict.fromkeys(owners))
        places = tuple(
            (distinct.index(owner), micro - int(self.first[owner]))
            for owner, micro in zip(owners, one.micros, strict=True)
        )
        focus = self._focus(one)
        return TransactionWitness(
            anomaly=one.anomaly,
            transactions=tuple(self._transaction(owner, focus) for owner in distinct),
            places=places,
            element=one.element,
        )

    def _focus(self, one: Contradiction) -> dict[int, int]:
        """By micro-operation: the place in its list that a contradiction is about."""
        lists = {micro: self.transactions.list_of(micro) for micro in one.micros}
        if one.element is not None:
            return {micro: shown.index(one.element) for micro, shown in lists.items() if one.element in shown}
        if one.anomaly == "duplicate_element":
            again = [at for at, element in enumerate(lists[one.micros[-1]]) if element in lists[one.micros[-1]][:at]]
            return {one.micros[-1]: again[0]}
        if one.anomaly == "incompatible_order":
            pairs = zip(*lists.values(), strict=False)
            apart = next((at for at, (first, second) in enumerate(pairs) if first != second), 0)
            return dict.fromkeys(lists, apart)
        return {}

    def cycle(self, one: Cycle) -> TransactionWitness:
        owners = [edge.source for edge in one.edges]
        place = {owner: at for at, owner in enumerate(owners)}
        steps = tuple(self._step(place[edge.source], place[edge.target], edge.kind, edge.append) for edge in one.edges)
        transactions = tuple(self._transaction(owner) for owner in owners)
        return TransactionWitness(anomaly=one.name, transactions=transactions, steps=steps, group=one.group)

    def _step(self, source: int, target: int, kind: int, append: int) -> StepFacts:
        if append < 0:
            return StepFacts(source=source, target=target, order=ORDERS[kind])
        key = int(self.transactions.key[append])
        at = int(self.orders.place[append])
        previous: int | None = None
        if kind != WR:
            before = (int(self.orders.first[key + 1]) if at < 0 else at) - 1
            while before >= self.orders.first[key] and self.orders.writer[before] < 0:
                before -= 1
            if before >= self.orders.first[key]:
                previous = int(self.transactions.element[self.orders.writer[before]])
        return StepFacts(
            source=source,
            target=target,
            order=ORDERS[kind],
            key=int(self.transactions.key_names[key]),
            element=int(self.transactions.element[append]),
            previous=previous,
            unread=at < 0,
        )

    def _transaction(self, row: int, focus: dict[int, int] | None = None) -> TransactionFacts:
        transactions = self.transactions
        answered = int(transactions.answered[row])
        return TransactionFacts(
            op_id=int(transactions.op_id[row]),
            process=int(transactions.process[row]),
            type=_TYPES[int(transactions.type[row])],
            invoked=int(transactions.asked[row]),
            completed=None if answered == NEVER else answered,
            operations=tuple(
                self._micro(micro, (focus or {}).get(micro))
                for micro in range(int(self.first[row]), int(self.first[row + 1]))
            ),
        )

    def _micro(self, micro: int, focus: int | None) -> MicroFacts:
        transactions = self.transactions
        key = int(transactions.key_names[transactions.key[micro]])
        if transactions.is_append[micro]:
            return MicroFacts(f="append", key=key, element=int(transactions.element[micro]))
        shown = tuple(transactions.list_of(micro))
        since = max(0, len(shown) - SHOWN) if focus is None else max(0, focus - SHOWN // 2)
        part = shown[since : since + SHOWN]
        return MicroFacts(f="read", key=key, shown=part, since=since, length=int(transactions.length[micro]))
