"""Compare a second opinion (`cross_check/dataframes.py`) with the verdicts, by topic-partition and anomaly.

Where the two disagree, one formulation of the rules is wrong, and it is unknown which: that is a mistake of Squall's,
and the verdict of that run must not be trusted. A run whose logs were not checked gets no second opinion, and neither
does a topic-partition with declared losses: the queries do not remove what an unclean election may lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from squall.results.checkers.log.declared_losses import declared_losses
from squall.results.cross_check.dataframes import COVERED, OPINION_ON_LOSSES, second_opinions
from squall.results.history.history import HISTORY_FILE
from squall.results.history.operation_tables import KINDS
from squall.results.history.segments import read_cluster
from squall.results.verdict.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Opinions = Mapping[str, Mapping[str, int]]
"""How often each anomaly occurs, by topic-partition."""


@dataclass(frozen=True)
class CrossCheck:
    """The comparison: `counts` numbers were compared; `disagreements` describes those that differ.

    `left_out` are the names of topic-partitions without a second opinion because losses were declared there.
    """

    counts: int
    disagreements: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def compared_with(verdicts: Sequence[tuple[Path, Verdict]], session: SparkSession) -> list[CrossCheck | None]:
    """Return a second opinion on each run whose logs were checked, in one query; None for the others."""
    histories = [(run / HISTORY_FILE).resolve() for run, _ in verdicts]
    checked = [file for file, (_, one) in zip(histories, verdicts, strict=True) if one.coverage.topic_partitions]
    found = second_opinions(session, checked) if checked else {}
    by_run: dict[Path, dict[str, Mapping[str, int]]] = {file: {} for file in checked}
    for (file, topic, partition), counts in found.items():
        by_run[file][f"{topic}-{partition}"] = counts
    return [
        comparison(verdict, by_run[file], _with_declared_losses(run)) if file in by_run else None
        for file, (run, verdict) in zip(histories, verdicts, strict=True)
    ]


def _with_declared_losses(run: Path) -> frozenset[str]:
    return frozenset(f"{topic}-{partition}" for topic, partition in declared_losses(read_cluster(run)))


def comparison(verdict: Verdict, opinions: Opinions, left_out: Set[str] = frozenset()) -> CrossCheck:
    """Compare the counts of the verdict with those of the second opinion, except in `left_out`.

    Losses count only where both know the log's end.
    """
    told = {one.name: one.where for one in verdict.anomalies}
    places = sorted({*opinions, *(place for name in COVERED for place in told.get(name, {}))} - set(KINDS) - left_out)
    counts, disagreements = 0, []
    for place in places:
        opinion = opinions.get(place, {})
        for name in COVERED:
            if name == "lost_write" and OPINION_ON_LOSSES not in opinion:
                continue
            counts += 1
            first, second = told.get(name, {}).get(place, 0), opinion.get(name, 0)
            if first != second:
                disagreements.append(f"{place}: {name} is counted {first} times, and {second} times as a query")
    return CrossCheck(counts, tuple(disagreements), tuple(sorted(left_out)))
