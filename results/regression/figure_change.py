"""By how much the figures of two samples differ, how certainly, and whether a gate may pass.

One number a run. The p-values are adjusted for the number of figures compared. A difference that the machine may
explain is labelled `environment`; where too few runs could show any difference, the label says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from squall.results.regression.machine_change import MachineChange
from squall.results.regression.metrics import Metric
from squall.results.regression.sample import Figures, Sample
from squall.results.trends.comparison import Comparison, compare_all
from squall.results.trends.family_wise import level_of_each
from squall.results.trends.gate import DEFAULT_RULES, Decision, GateRules, gate
from squall.results.trends.quantile_difference import QuantileDifference, quantile_difference
from squall.results.trends.ranks import smallest_p

Label = Literal["worse", "better", "environment", "no difference shown", "too few runs", "scenario changed"]

CERTAIN: Final = 0.05
"""A difference with an adjusted p-value of at most this is called worse or better."""
BOOTSTRAP_SEED: Final = 1


@dataclass(frozen=True)
class FigureChange:
    """A figure of a scenario, or benchmark, on both sides; `baseline` and `candidate` are the medians.

    `quantiles` compares a latency quantile of all operations of both samples. `reason` says what a label rests on.
    """

    scenario: str
    metric: Metric
    baseline: float
    candidate: float
    comparison: Comparison
    label: Label
    reason: str = ""
    quantiles: QuantileDifference | None = None

    @property
    def is_worse(self) -> bool:
        """Whether it lies on the worse side, however uncertainly."""
        return self.comparison.shift < 0 if self.metric.higher_is_better else self.comparison.shift > 0


Pair = tuple[Figures, Figures]


def pairs_of(baseline: Sample, candidate: Sample, wanted: Sequence[str] = ()) -> dict[tuple[str, str], Pair]:
    """Return the figures that both samples have, by scenario and name; only the `wanted` ones, if any are named."""
    found = {}
    for scenario in sorted(set(baseline.scenarios) & set(candidate.scenarios)):
        before, after = baseline.figures(scenario), candidate.figures(scenario)
        for name in before:
            if name in after and (not wanted or name in wanted):
                found[scenario, name] = before[name], after[name]
    return found


def changed_scenarios(baseline: Sample, candidate: Sample) -> frozenset[str]:
    """Return the scenarios that state different things on both sides: their figures measure different loads."""
    changed = set()
    for scenario in set(baseline.scenarios) & set(candidate.scenarios):
        hashes = [
            {one.scenario_hash for one in sample.of_scenario(scenario) if one.scenario_hash}
            for sample in (baseline, candidate)
        ]
        if all(hashes) and hashes[0] != hashes[1]:
            changed.add(scenario)
    return frozenset(changed)


def figure_changes(
    baseline: Sample,
    candidate: Sample,
    machine: MachineChange,
    wanted: Sequence[str] = (),
    on_progress: Callable[[float], None] | None = None,
) -> tuple[FigureChange, ...]:
    """Compare every figure that both samples have. `on_progress` is called with the share that is done."""
    pairs = pairs_of(baseline, candidate, wanted)
    changed = changed_scenarios(baseline, candidate)
    compared = compare_all({f"{number}": (one.values, two.values) for number, (one, two) in enumerate(pairs.values())})
    found = []
    for ((scenario, _), pair), one in zip(pairs.items(), compared.values(), strict=True):
        metric = pair[0].metric
        label, reason = _label(metric, one, machine, scenario in changed)
        before, after = (float(np.median(some.values)) for some in pair)
        quantiles = _quantiles(baseline, candidate, scenario, metric)
        found.append(FigureChange(scenario, metric, before, after, one, label, reason, quantiles))
        if on_progress is not None:
            on_progress(len(found) / len(pairs))
    return tuple(found)


def _label(metric: Metric, one: Comparison, machine: MachineChange, changed: bool) -> tuple[Label, str]:
    if changed:
        return "scenario changed", "the scenario is not the same on both sides"
    if smallest_p(one.baseline_runs, one.candidate_runs) > CERTAIN:
        return (
            "too few runs",
            f"no figures of {one.baseline_runs} and {one.candidate_runs} runs could show a difference",
        )
    if one.adjusted_p > CERTAIN:
        return "no difference shown", ""
    if explained := _explained(metric, one, machine):
        return "environment", explained
    return ("better" if (one.shift > 0) == metric.higher_is_better else "worse"), ""


def _explained(metric: Metric, one: Comparison, machine: MachineChange) -> str:
    slower = (one.shift > 0) != metric.higher_is_better
    return machine.explains(slower, one.relative)


def _quantiles(baseline: Sample, candidate: Sample, scenario: str, metric: Metric) -> QuantileDifference | None:
    if metric.share is None:
        return None
    before, after = (
        [one.histogram for one in sample.of_scenario(scenario) if one.histogram is not None]
        for sample in (baseline, candidate)
    )
    if not before or not after:
        return None
    return quantile_difference(before, after, metric.share, seed=BOOTSTRAP_SEED)


# -- the gate ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FigureDecision:
    """What a gate decides on a figure; it passes by `required` figures only, and fails by any.

    `decidable` is False if no figures of so few runs could pass or fail.
    """

    scenario: str
    metric: Metric
    required: bool
    decidable: bool
    decision: Decision


def figure_decisions(
    baseline: Sample,
    candidate: Sample,
    machine: MachineChange,
    wanted: Sequence[str] = (),
    rules: GateRules = DEFAULT_RULES,
) -> tuple[FigureDecision, ...]:
    """Decide on every figure that both samples have.

    Of candidates that are equal to their baseline, at most a share `alpha` fails by any of their figures: each is
    tested at the level that `level_of_each` gives. Figures named in `wanted` are required; else those whose metric is.
    """
    pairs = pairs_of(baseline, candidate, wanted)
    changed = changed_scenarios(baseline, candidate)
    smallest = [smallest_p(len(one.values), len(two.values)) / 2 for one, two in pairs.values()]
    each = replace(rules, alpha=level_of_each(rules.alpha, smallest))
    found = []
    for ((scenario, name), (before, after)), smallest_of_it in zip(pairs.items(), smallest, strict=True):
        metric = before.metric
        decision = gate(before.values, after.values, higher_is_better=metric.higher_is_better, rules=each)
        if decision.outcome != "pass" and scenario in changed:
            reason = f"the scenario is not the same on both sides: {decision.reason}"
            decision = replace(decision, outcome="undecided", reason=reason)
        elif decision.outcome == "fail" and (explained := _explained(metric, decision.comparison, machine)):
            decision = replace(decision, outcome="undecided", reason=f"{explained}; {decision.reason}")
        required = name in wanted if wanted else metric.required
        decidable = smallest_of_it <= max(each.alpha, each.beta)
        found.append(FigureDecision(scenario, metric, required, decidable, decision))
    return tuple(found)
