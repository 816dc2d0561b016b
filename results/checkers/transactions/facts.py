"""The result of the check of transactions: plain values, complete without the history."""

from __future__ import annotations

from typing import Literal

import msgspec

Order = Literal["ww", "wr", "rw", "process", "realtime"]
ORDERS: tuple[Order, ...] = ("ww", "wr", "rw", "process", "realtime")
"""By code of edge."""


class MicroFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One append or read.

    Only a part of a list is kept, `shown` from place `since` on: its end, or what a witness is about. `length` is its
    length, -1 if unknown.
    """

    f: Literal["append", "read"]
    key: int
    element: int | None = None
    shown: tuple[int, ...] = ()
    since: int = 0
    length: int = -1


class TransactionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction of a witness."""

    op_id: int
    process: int
    type: str
    invoked: int
    completed: int | None
    operations: tuple[MicroFacts, ...]


class StepFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why one transaction comes before another: places in the witness, and what makes the edge.

    ww: the target appended `element` after the source's `previous`. wr: the target read a list that ends in the
    source's `element`. rw: the source read a list that ends in `previous` (None: empty), and the target appended
    `element` next; `unread` means that it was never read.
    """

    source: int
    target: int
    order: Order
    key: int | None = None
    element: int | None = None
    previous: int | None = None
    unread: bool = False


class TransactionWitness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance: its transactions, the steps of the cycle if it is one, and the micro-operations it is about.

    `places` are (transaction, operation within it).
    """

    anomaly: str
    transactions: tuple[TransactionFacts, ...]
    steps: tuple[StepFacts, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    element: int | None = None
    group: int = 0


class ListAppendResult(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of the check of a list-append history. `undecided` are reasons why more might be wrong.

    `edges` counts by order; real time is not made edge by edge, and does not appear.
    """

    transactions: dict[str, int]
    micro_operations: int
    elements: int
    keys: int
    effective_unknown: int
    edges: dict[str, int]
    anomalies: dict[str, int]
    witnesses: tuple[TransactionWitness, ...]
    undecided: tuple[str, ...]
    large_groups: int
    milliseconds: float
