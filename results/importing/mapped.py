"""The result of mapping a foreign history: rows of logs and registers, and other tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from squall.results.history.rows import CompletionRow, InvocationRow, RegisterCompletion, RegisterInvocation

Pair = tuple[InvocationRow | RegisterInvocation, CompletionRow | RegisterCompletion | None]
"""An invocation and its completion, if there is one."""


@dataclass(frozen=True)
class Mapped:
    """One mapped history.

    `what` says in words what became what. `names` are the keys and values that are not integers, by what they name,
    with their numbers.
    """

    kind: str
    what: str
    checks: tuple[str, ...]
    pairs: tuple[Pair, ...] = ()
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    names: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """What such a history leaves unknown, in words, other than faults."""
