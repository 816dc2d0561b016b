"""The result of the check of registers: plain values that travel from a task to the control process."""

from __future__ import annotations

from typing import Literal

import msgspec


class RegisterOperationFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operation of a witness. Numbers that were not stated are None."""

    op_id: int
    f: str
    type: str
    process: int
    invoked: int
    completed: int | None = None
    value: int | None = None
    expected: int | None = None
    found: int | None = None
    version: int | None = None
    refused: bool = False


class RegisterWitness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance of an anomaly: the operations that prove it, in order of invocation.

    `orders` are pairs of their ids, the first of which had ended before the second began; `held` is what the register
    may have held before.
    """

    anomaly: str
    register: str
    operations: tuple[RegisterOperationFacts, ...]
    orders: tuple[tuple[int, int], ...] = ()
    held: tuple[int, ...] = ()


class RegisterResult(msgspec.Struct, frozen=True, kw_only=True):
    """The findings about some registers, and what they rest on.

    `operations` counts by `f.type`. `by_zones` and `by_search` count the registers decided in each way, `checked` the
    operations on them; `wrong` are the registers with an anomaly. What could not be decided is in `undecided`, a
    sentence per register, `undecided_count` in all.
    """

    registers: int
    operations: dict[str, int]
    checked: int
    by_zones: int
    by_search: int
    anomalies: dict[str, int]
    wrong: tuple[str, ...]
    witnesses: tuple[RegisterWitness, ...]
    undecided: tuple[str, ...]
    undecided_count: int
    milliseconds: float

    @property
    def verdict(self) -> Literal["valid", "invalid", "unknown"]:
        """A violation stands even if other registers could not be decided; without checked operations it is unknown."""
        if self.anomalies:
            return "invalid"
        return "unknown" if self.undecided_count or not self.checked else "valid"
