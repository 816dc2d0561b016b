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
from squall.results.checkers.common.text import clock, grouped, several
from squall.results.checkers.further import FURTHER_CHECKS, FurtherResult, FurtherWitness
from squall.results.checkers.replicas.facts import ReplicaWitness
from squall.results.history.manifest import Manifest
from squall.results.history.operation_tables import KINDS, OF_NODES
from squall.results.witnesses.cycle import tell_transactions, title_of
from squall.results.witnesses.group import group_title, tell_group
from squall.results.witnesses.log import log_title, tell_log
from squall.results.witnesses.register import tell_register
from squall.results.witnesses.witness import Surroundings, WitnessLine, faults_between

LOG: Final = "log"
"""The name of the check of logs among a manifest's `checks`."""
KNOWN_CHECKS: Final = (LOG, "availability", *FURTHER_CHECKS)
"""The names allowed among a manifest's `checks`."""
MOST_FAULTS: Final = 3
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
    if facts.plugin is not None:
        lines = tuple(WitnessLine(subject, text) for subject, text in facts.plugin.lines)
        title = f"{result.check}: {facts.plugin.title}"
        return ToldFurther(anomaly=facts.anomaly, title=title, lines=lines, hint=facts.plugin.hint, facts=facts)
    title, lines = _title_and_lines(result, facts, around)
    return ToldFurther(anomaly=facts.anomaly, title=title, lines=lines, hint=ANOMALIES[facts.anomaly].hint, facts=facts)


def _title_and_lines(
    result: FurtherResult, facts: FurtherWitness, around: Surroundings
) -> tuple[str, tuple[WitnessLine, ...]]:
    if facts.register is not None:
        register = tell_register(facts.register, around.origin, around.faults)
        return register.title, register.lines
    if facts.transactions is not None:
        title = f"{result.check}: {title_of(facts.transactions)}."
        return title, (*tell_transactions(facts.transactions, around.origin), *_faults(facts, around))
    if facts.replica is not None:
        return _told_replica(facts.replica)
    if facts.log is not None:
        ids = [one.op_id for one in facts.log.transactions]
        title, told = log_title(facts.log), tell_log(facts.log, around.origin)
    else:
        assert facts.group is not None
        ids = [one.op_id for one in facts.group.operations]
        title, told = group_title(facts.group), tell_group(facts.group, around.origin)
    return title, (*told, *_faults(facts, around), _rows(result, ids))


def _told_replica(witness: ReplicaWitness) -> tuple[str, tuple[WitnessLine, ...]]:
    at = "" if witness.offset < 0 else f" at offset {grouped(witness.offset)}"
    title = f"{witness.place}: {ANOMALIES[witness.anomaly].headline(1)}{at and ','}{at}."
    rows = WitnessLine("rows", f"{witness.place}{at} in {witness.file}")
    return title, (*(WitnessLine(subject, text) for subject, text in witness.evidence), rows)


def _rows(result: FurtherResult, ids: Sequence[int]) -> WitnessLine:
    """Where to look up the operations of the proof."""
    return WitnessLine("rows", f"op_id {', '.join(map(str, ids))} in {KINDS[result.check].file}")


def _faults(facts: FurtherWitness, around: Surroundings) -> tuple[WitnessLine, ...]:
    return tuple(
        WitnessLine(
            "under fault", one.name, f"{clock(one.injected, around.origin, 1)} to {clock(one.healed, around.origin, 1)}"
        )
        for one in faults_between(around.faults, *facts.span)[:MOST_FAULTS]
    )
