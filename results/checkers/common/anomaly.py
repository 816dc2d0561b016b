"""Define an anomaly: a name that never changes, a meaning, a hint. `anomalies.py` lists them all."""

from __future__ import annotations

from dataclasses import dataclass

from squall.results.checkers.common.text import grouped


@dataclass(frozen=True)
class Anomaly:
    """`meaning` is a sentence about the system; `hint` says where in it to look; `headline` states a number of
    instances.
    """

    name: str
    meaning: str
    one: str
    many: str
    hint: str

    def headline(self, count: int) -> str:
        return self.one if count == 1 else f"{grouped(count)} {self.many}"
