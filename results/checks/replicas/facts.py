"""What the checks of replicas and control plane yield: counts, sentences, and witnesses as plain values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import msgspec

MOST_WITNESSES: Final = 3
"""Of one anomaly, over all topic-partitions."""


class ReplicaWitness(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of an anomaly: where it is (`events-3`, `__cluster_metadata-0`), and what proves it, a subject and a
    sentence each. `file` is the table in which the rows stand, `offset` where to look in it, -1 if it is no offset.
    """

    anomaly: str
    place: str
    offset: int
    evidence: tuple[tuple[str, str], ...]
    file: str


@dataclass
class Findings:
    """What was found so far; anomalies are counted by `count`, and the first few of each are witnesses."""

    file: str
    anomalies: Counter[str] = field(default_factory=Counter)
    witnesses: list[ReplicaWitness] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    noted: Counter[str] = field(default_factory=Counter)
    looked_at: Counter[str] = field(default_factory=Counter)

    def accuse(self, anomaly: str, place: str, offset: int, *evidence: tuple[str, str], count: int = 1) -> None:
        """An anomaly was found, so often."""
        self.anomalies[anomaly] += count
        if sum(one.anomaly == anomaly for one in self.witnesses) < MOST_WITNESSES:
            self.witnesses.append(
                ReplicaWitness(anomaly=anomaly, place=place, offset=offset, evidence=evidence, file=self.file)
            )
