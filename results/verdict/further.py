"""Add the other checks to a verdict: their statements, reasons for unknown, and witnesses in words.

These are the checks other than that of logs. A violation found by any check makes a verdict invalid. What a check could
not decide, a check without anything to check, and a check that a suite requested but whose operations were never
recorded are reasons why a verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import grouped, several
from squall.results.checkers.further import FurtherResult, FurtherWitness
from squall.results.checkers.registry import FURTHER_CHECKS, KNOWN_CHECKS, LOG
from squall.results.history.manifest import Manifest
from squall.results.history.operation_kinds import OF_NODES
from squall.results.witnesses.presentations import tell_facts
from squall.results.witnesses.witness import Surroundings, WitnessLine

NOT_COLLECTED: Final = "nodes_not_collected"
"""Among a manifest's `options`: why a run has no tables of its nodes."""


class FurtherSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one check: its statement, whether that holds (None: unknown), and how much was checked."""

    check: str
    statement: str
    holds: bool | None
    checked: int
    acknowledged: int
    counts: dict[str, int]
    noted: dict[str, int]
    seconds: float
    plugin: str = ""
    """The package, with its version, whose check this is; empty for ours."""

    @property
    def counted(self) -> str:
        """`operations 200, registers 3, …`"""
        return ", ".join(f"{what} {grouped(count)}" for what, count in self.counts.items() if count) or "nothing"


class ToldFurther(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of an anomaly that is not a log's, described in words."""

    anomaly: str
    title: str
    lines: tuple[WitnessLine, ...]
    hint: str
    facts: FurtherWitness


def summarised(results: Sequence[FurtherResult]) -> tuple[FurtherSummary, ...]:
    """Summarise each check."""
    return tuple(
        FurtherSummary(
            check=one.check,
            statement=one.statement,
            holds=one.holds,
            checked=one.checked,
            acknowledged=one.acknowledged,
            counts=dict(one.counts),
            noted=one.noted,
            seconds=round(one.milliseconds / 1000, 3),
            plugin=one.plugin,
        )
        for one in results
    )


def further_reasons(manifest: Manifest, results: Sequence[FurtherResult]) -> list[str]:
    """Return the reasons why these checks prove less than they should."""
    reasons = []
    done = {one.check for one in results}
    for name in manifest.checks:
        if name not in KNOWN_CHECKS and name not in done:
            reasons.append(f"check {name}: unknown check; known are {', '.join(KNOWN_CHECKS)}")
        elif name in OF_NODES and name not in done:
            why = manifest.options.get(NOT_COLLECTED, "nothing was collected from the nodes")
            reasons.append(f"check {name}: {why}: nothing was checked")
        elif name in FURTHER_CHECKS and name not in done:
            reasons.append(f"check {name}: no such operation was recorded: nothing was checked")
    for one in results:
        reasons += [f"check {one.check}: {sentence}" for sentence in one.undecided]
        if not one.checked and not one.undecided and not one.anomalies:
            reasons.append(f"check {one.check}: no conclusive operation was acknowledged: nothing was checked")
    return reasons + _too_few(manifest, results)


def _too_few(manifest: Manifest, results: Sequence[FurtherResult]) -> list[str]:
    """For a run that is not about logs: whether enough operations were acknowledged to prove anything."""
    if LOG in manifest.checks or (manifest.checks and set(manifest.checks) <= set(OF_NODES)):
        return []
    of_operations = {*FURTHER_CHECKS, *(one.check for one in results if one.plugin)} - {*OF_NODES}
    if not of_operations & {*manifest.checks}:
        return ["no check of operations was requested: nothing was checked"]
    acknowledged = sum(one.acknowledged for one in results)
    if acknowledged >= manifest.min_acknowledged:
        return []
    said = several(acknowledged, "operation was", "operations were")
    return [
        f"only {said} acknowledged; fewer than {grouped(manifest.min_acknowledged)} (min_acknowledged) prove nothing"
    ]


def tell_further(results: Sequence[FurtherResult], around: Surroundings) -> tuple[ToldFurther, ...]:
    """Describe all witnesses in words, in the order of the registry of anomalies."""
    order = {name: place for place, name in enumerate(ANOMALIES)}
    told = [_told(one, facts, around) for one in results for facts in one.witnesses]
    return tuple(sorted(told, key=lambda one: order.get(one.anomaly, len(order))))


def _told(result: FurtherResult, facts: FurtherWitness, around: Surroundings) -> ToldFurther:
    title, lines = tell_facts(result.check, facts, around)
    hint = ANOMALIES[facts.anomaly].hint if facts.plugin is None else facts.plugin.hint
    return ToldFurther(anomaly=facts.anomaly, title=title, lines=lines, hint=hint, facts=facts)
