"""The findings of the rules of a log: anomalies with proofs, and counts of what is no anomaly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

WITNESSES: Final = 3


@dataclass(frozen=True)
class Finding:
    """One instance of an anomaly: where, and the operations (by row) that prove it, each in its role."""

    anomaly: str
    offset: int
    roles: tuple[tuple[str, int], ...]
    values: tuple[int, ...] = ()
    other_offset: int = -1


@dataclass
class Findings:
    """Anomalies by name with their number, and a few instances of each; counts of what is no anomaly."""

    counts: dict[str, int] = field(default_factory=dict)
    instances: list[Finding] = field(default_factory=list)
    noted: dict[str, int] = field(default_factory=dict)

    def add(self, anomaly: str, total: int, instances: list[Finding]) -> None:
        """Add `total` instances of an anomaly; `instances` has the first of them."""
        if total:
            self.counts[anomaly] = self.counts.get(anomaly, 0) + total
            self.instances += instances[:WITNESSES]

    def only_note(self, anomaly: str) -> None:
        """Count an anomaly as legal: these nodes do not promise to be without it."""
        self.instances = [one for one in self.instances if one.anomaly != anomaly]
        if anomaly in self.counts:
            self.noted[anomaly] = self.counts.pop(anomaly)
