"""The findings of the rules of registers: anomalies with the operations that prove a few of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

WITNESSES: Final = 3


@dataclass(frozen=True)
class RegisterFinding:
    """One instance of an anomaly.

    `rows` are the operations that cannot be put in order, or that contradict each other; `orders` are pairs of them of
    which the first had ended before the second began.
    """

    anomaly: str
    register: int
    rows: tuple[int, ...]
    orders: tuple[tuple[int, int], ...] = ()
    held: tuple[int, ...] = ()  # what the register may have held before these operations, if that matters


@dataclass
class RegisterFindings:
    """Counts by name, instances, and the registers with findings."""

    counts: dict[str, int] = field(default_factory=dict)
    instances: list[RegisterFinding] = field(default_factory=list)
    registers: set[int] = field(default_factory=set)

    def add(self, anomaly: str, total: int, registers: Sequence[int], instances: Sequence[RegisterFinding]) -> None:
        """Add `total` instances of an anomaly in these registers; `instances` has the first of them."""
        if not total:
            return
        known = sum(one.anomaly == anomaly for one in self.instances)
        self.counts[anomaly] = self.counts.get(anomaly, 0) + total
        self.instances += instances[: max(0, WITNESSES - known)]
        self.registers.update(registers)
