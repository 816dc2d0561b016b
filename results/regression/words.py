"""Print comparisons: as lines for people, and as data for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from squall.results.checkers.common.text import several
from squall.results.regression.figure_change import CERTAIN, FigureChange
from squall.results.regression.sample import Sample
from squall.results.regression.side_by_side import GateResult, SideBySide
from squall.results.regression.verdict_change import VerdictChange
from squall.results.trends.ranks import smallest_p

MARKS = {"pass": "✔", "fail": "✘", "undecided": "?"}
FEW_FIGURES = 30
"""Up to so many figures all are listed, else those that differ."""
SHOWN_REASONS = 12
RUNS_TO_COMPARE = next(number for number in range(2, 100) if smallest_p(number, number) <= CERTAIN)


def lines(compared: SideBySide, *, everything: bool = False) -> list[str]:
    """Describe a comparison."""
    said = [_sample_line("baseline", compared.baseline), _sample_line("candidate", compared.candidate)]
    said += [f"{'machine':<11}{compared.machine.text()}"]
    said += [f"{'note':<11}{one}" for one in compared.notes]
    if compared.verdicts:
        said += ["", *_verdict_lines(compared.verdicts, everything)]
    return [*said, "", *_figure_lines(compared.figures, everything)]


def gate_lines(result: GateResult, candidate: Sample) -> list[str]:
    """Describe what a gate decided: the outcome, and why."""
    words = {"pass": "PASS", "fail": "FAIL", "undecided": "UNDECIDED"}
    said = [f"{'gate':<11}{words[result.outcome]}  {candidate.name}"]
    said += [f"{'':<9}{MARKS[one.outcome]} {one.text}" for one in result.reasons[:SHOWN_REASONS]]
    if (more := len(result.reasons) - SHOWN_REASONS) > 0:
        said.append(f"{'':<11}… and {several(more, 'further reason')}; --json lists all")
    return said


def _sample_line(role: str, sample: Sample) -> str:
    if sample.runs:
        what = f"{several(len(sample.runs), 'run')} of {several(len(sample.scenarios), 'scenario')}"
    else:
        what = f"{several(len(sample.repetitions), 'figure')} of {', '.join(sample.scenarios)}"
    commits = ", ".join(one[:10] for one in sample.commits[:3]) + (" …" if len(sample.commits) > 3 else "")
    return f"{role:<11}{sample.name}   {what}   commit {commits or 'unknown'}"


def _verdict_lines(changes: Sequence[VerdictChange], everything: bool) -> list[str]:
    shown = [one for one in changes if everything or one.change != "same" or one.outcome != "pass"]
    same = len(changes) - len(shown)
    said = [f"{'verdicts':<11}{several(len(changes), 'scenario')}" + (f", {same} of them the same" if same else "")]
    for one in shown:
        reason = f": {one.reason}" if one.reason else ""
        verdicts = f"{_counts(one.baseline)} → {_counts(one.candidate)}"
        said.append(f"{MARKS[one.outcome]} {one.scenario:<40} {verdicts:<32} {one.change}{reason}")
    return said


def _counts(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in verdicts.items()) or "not run"


def _figure_lines(changes: Sequence[FigureChange], everything: bool) -> list[str]:
    if not changes:
        return [f"{'figures':<11}none are known on both sides"]
    counted = Counter(one.label for one in changes)
    said = [f"{'figures':<11}{len(changes)}: " + ", ".join(f"{number} {label}" for label, number in counted.items())]
    if counted["too few runs"]:
        said.append(
            f"{'':<11}fewer than {RUNS_TO_COMPARE} runs on each side cannot show a difference, and a gate needs more:"
        )
        said.append(f"{'':<11}name several nights (A..B), or run with more seeds")
    quiet = ("no difference shown", "too few runs")
    shown = list(changes)
    if len(changes) > FEW_FIGURES and not everything:
        shown = [one for one in changes if one.label not in quiet]
    if not shown:
        return said
    widths = max(8, *(len(one.scenario) for one in shown)), max(6, *(len(one.metric.name) for one in shown))
    said.append(
        f"  {'scenario':<{widths[0]}}  {'figure':<{widths[1]}} {'baseline':>10} {'candidate':>10} {'':<5}{'shift':>8}  "
        f"{'95 % interval':<20}{'delta':>6} {'p adj.':>7}  runs"
    )
    return said + [line for one in shown for line in _figure_line(one, *widths)]


def _figure_line(one: FigureChange, names: int, figures: int) -> Iterable[str]:
    comparison = one.comparison
    interval = "no interval"
    if isfinite(comparison.low):
        interval = f"{_number(comparison.low, '+')} to {_number(comparison.high, '+')}"
    relative = f"{comparison.relative:+.1%}" if isfinite(comparison.relative) else "from 0"
    yield (
        f"  {one.scenario:<{names}}  {one.metric.name:<{figures}} {_number(one.baseline):>10} "
        f"{_number(one.candidate):>10} {one.metric.unit:<5}{relative:>8}  {interval:<20}{comparison.delta:>+6.2f} "
        f"{comparison.adjusted_p:>7.2g}  {comparison.baseline_runs}+{comparison.candidate_runs}  {one.label}"
    )
    indent = f"  {'':<{names}}  {'':<{figures}} "
    if one.label == "environment":
        yield f"{indent}{one.reason}"
    quantiles = one.quantiles
    if quantiles is not None and quantiles.low is not None and quantiles.high is not None:
        interval = f"{_number(quantiles.low, '+')} to {_number(quantiles.high, '+')}"
        yield (
            f"{indent}{_number(quantiles.baseline):>10} {_number(quantiles.candidate):>10} {one.metric.unit:<5}"
            f"{'':>8}  {interval:<20} of all sends, by bootstrap over runs"
        )


def _number(value: float, sign: str = "") -> str:
    return f"{value:{sign},.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:{sign}.3g}"


# -- for programs -----------------------------------------------------------------------------------------------------


def data(compared: SideBySide, result: GateResult | None = None) -> dict[str, Any]:
    """Return a comparison as JSON can hold it: numbers that are not finite become null."""
    found: dict[str, Any] = {
        "baseline": _sample_data(compared.baseline),
        "candidate": _sample_data(compared.candidate),
        "machine": {
            "same": compared.machine.same,
            "canaries": {name: asdict(one) for name, one in compared.machine.canaries.items()},
        },
        "notes": list(compared.notes),
        "verdicts": [asdict(one) for one in compared.verdicts],
        "figures": [_figure_data(one) for one in compared.figures],
    }
    if result is not None:
        decisions = [
            {"scenario": one.scenario, "figure": one.metric.name, "required": one.required, **asdict(one.decision)}
            for one in result.figures
        ]
        found["gate"] = {
            "outcome": result.outcome,
            "reasons": [asdict(one) for one in result.reasons],
            "figures": decisions,
        }
    return {name: _finite(value) for name, value in found.items()}


def _sample_data(sample: Sample) -> dict[str, Any]:
    return {
        "name": sample.name,
        "runs": [one.key for one in sample.runs],
        "scenarios": list(sample.scenarios),
        "commits": list(sample.commits),
        "machines": sorted(sample.machines),
    }


def _figure_data(one: FigureChange) -> dict[str, Any]:
    quantiles = None
    if one.quantiles is not None:
        quantiles = asdict(one.quantiles) | {"difference": one.quantiles.difference}
    return {
        "scenario": one.scenario,
        "figure": one.metric.name,
        "unit": one.metric.unit,
        "higher_is_better": one.metric.higher_is_better,
        "baseline": one.baseline,
        "candidate": one.candidate,
        "label": one.label,
        "reason": one.reason,
        **asdict(one.comparison),
        "quantiles": quantiles,
    }


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
