"""A candidate beside its baseline: verdicts, figures, machine, and the decision of a gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from squall.results.regression.figure_change import (
    FigureChange,
    FigureDecision,
    changed_scenarios,
    figure_changes,
    figure_decisions,
)
from squall.results.regression.machine_change import MachineChange, machine_change
from squall.results.regression.sample import Sample
from squall.results.regression.verdict_change import VerdictChange, verdict_changes
from squall.results.trends.gate import DEFAULT_RULES, GateRules, Outcome


class NothingInCommon(Exception):
    """The samples share no scenario and no benchmark. The message says what each has."""


@dataclass(frozen=True)
class SideBySide:
    """The comparison of two samples. `notes` say what else a reader must know."""

    baseline: Sample
    candidate: Sample
    machine: MachineChange
    verdicts: tuple[VerdictChange, ...]
    figures: tuple[FigureChange, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Reason:
    """Why a gate does not pass."""

    outcome: Outcome
    text: str


@dataclass(frozen=True)
class GateResult:
    """What a gate decides on a candidate, and why: the worst first."""

    outcome: Outcome
    reasons: tuple[Reason, ...]
    figures: tuple[FigureDecision, ...] = ()


def compare_samples(
    baseline: Sample,
    candidate: Sample,
    wanted: Sequence[str] = (),
    on_progress: Callable[[float], None] | None = None,
) -> SideBySide:
    """Compare a candidate with its baseline; only the `wanted` figures, if any are named. Raises NothingInCommon."""
    common = set(baseline.scenarios) & set(candidate.scenarios)
    if not common:
        raise NothingInCommon(
            f"{baseline.name} and {candidate.name} share no scenario and no benchmark: "
            f"{baseline.name} has {_few(baseline.scenarios)}; {candidate.name} has {_few(candidate.scenarios)}"
        )
    machine = machine_change(baseline, candidate)
    return SideBySide(
        baseline,
        candidate,
        machine,
        verdict_changes(baseline, candidate),
        figure_changes(baseline, candidate, machine, wanted, on_progress),
        tuple(_notes(baseline, candidate)),
    )


def decide(
    compared: SideBySide,
    wanted: Sequence[str] = (),
    *,
    rules: GateRules = DEFAULT_RULES,
    verdicts_only: bool = False,
) -> GateResult:
    """Decide whether the candidate may pass.

    It fails by a verdict that became worse or by a figure that certainly did. It passes if neither holds, every verdict
    is as expected, and every required figure is shown to be worse by less than the margin. All else is undecided.
    """
    found = [
        Reason(one.outcome, f"{one.scenario}: {one.change}: {one.reason}")
        for one in compared.verdicts
        if one.outcome != "pass"
    ]
    figures: tuple[FigureDecision, ...] = ()
    if not verdicts_only:
        figures = figure_decisions(compared.baseline, compared.candidate, compared.machine, wanted, rules)
        found += [
            Reason(one.decision.outcome, f"{one.scenario}: {one.metric.name}: {one.decision.reason}")
            for one in figures
            if one.decision.outcome == "fail"
            or (one.required and one.decidable and one.decision.outcome == "undecided")
        ]
        if few := [f"{one.scenario}: {one.metric.name}" for one in figures if one.required and not one.decidable]:
            found.append(Reason("undecided", f"too few runs on a side to decide on {_few(few, 3)}"))
        found += [Reason("undecided", f"{one}: has figures on one side only") for one in _one_sided(compared, wanted)]
        if not any(one.required for one in figures):
            found.append(Reason("undecided", "no required figure is known on both sides"))
    elif not compared.verdicts:
        found.append(Reason("undecided", "neither side has a verdict"))
    found.sort(key=lambda one: one.outcome != "fail")
    outcome: Outcome = found[0].outcome if found else "pass"
    return GateResult(outcome, tuple(found), figures)


def _one_sided(compared: SideBySide, wanted: Sequence[str]) -> list[str]:
    """Name the required figures of common scenarios that only one side has."""
    names = []
    for scenario in set(compared.baseline.scenarios) & set(compared.candidate.scenarios):
        before, after = (side.figures(scenario) for side in (compared.baseline, compared.candidate))
        for name in before.keys() ^ after.keys():
            metric = (before.get(name) or after[name]).metric
            if name in wanted or (not wanted and metric.required):
                names.append(f"{scenario}: {name}")
    return sorted(names)


def _notes(baseline: Sample, candidate: Sample) -> list[str]:
    notes = [f"{one.name}: {note}" for one in (baseline, candidate) for note in one.notes]
    for one, other in ((baseline, candidate), (candidate, baseline)):
        alone = sorted(set(one.scenarios) - set(other.scenarios))
        if alone:
            notes.append(f"only in {one.name}: {_few(alone)}")
    if changed := sorted(changed_scenarios(baseline, candidate)):
        notes.append(f"changed between the sides, so that figures decide nothing: {_few(changed)}")
    return notes


def _few(names: Sequence[str], most: int = 5) -> str:
    """List some names, and how many more there are."""
    shown = ", ".join(names[:most]) or "nothing"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
