"""The findings of the checks of replicas and control plane, as plain values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import msgspec

MOST_WITNESSES: Final = 3
"""Of one anomaly, over all topic-partitions."""


class ReplicaWitness(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of an anomaly: where it is (`events-3`, `__cluster_metadata-0`), and what proves it.

    `evidence` has a subject and a sentence each. `file` is the table with the rows, `offset` where to look in it, -1 if
    there is none.
    """

    anomaly: str
    place: str
    offset: int
    evidence: tuple[tuple[str, str], ...]
    file: str


@dataclass
class Findings:
    """The findings so far; anomalies are counted by name, and the first few of each are witnesses."""

    file: str
    anomalies: Counter[str] = field(default_factory=Counter)
    witnesses: list[ReplicaWitness] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    noted: Counter[str] = field(default_factory=Counter)
    looked_at: Counter[str] = field(default_factory=Counter)

    def accuse(self, anomaly: str, place: str, offset: int, *evidence: tuple[str, str], count: int = 1) -> None:
        """Add an anomaly that occurred `count` times."""
        self.anomalies[anomaly] += count
        if sum(one.anomaly == anomaly for one in self.witnesses) < MOST_WITNESSES:
            self.witnesses.append(
                ReplicaWitness(anomaly=anomaly, place=place, offset=offset, evidence=evidence, file=self.file)
            )
