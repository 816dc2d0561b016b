"""What became of a scenario's verdict between two samples, and what a gate makes of that.

A run ends *as expected*, *violated* (valid or invalid, and not what the scenario expects), or *unknown*. One violation
is enough: other runs of the same scenario that went well do not retry it away. Unknown is never a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from squall.results.regression.measured_run import MeasuredRun
from squall.results.regression.sample import Sample
from squall.results.trends.flakes import FlakeRate, compare_with_upstream
from squall.results.trends.gate import Outcome


@dataclass(frozen=True)
class VerdictChange:
    """A scenario's verdicts on both sides, in words, and whether a gate may pass."""

    scenario: str
    baseline: Mapping[str, int]
    candidate: Mapping[str, int]
    change: str
    """`same`, or what happened: `became violated`, `became unknown`, `no longer violated` and so on."""
    outcome: Outcome
    reason: str = ""
    witnesses: tuple[str, ...] = ()
    """The keys of the candidate's runs that show a change for the worse."""


def verdict_changes(baseline: Sample, candidate: Sample) -> tuple[VerdictChange, ...]:
    """Compare the verdicts of every scenario of either sample; those that are worse come first."""
    names = sorted({one.scenario for one in (*baseline.runs, *candidate.runs)})
    found = [_change(name, baseline.of_scenario(name), candidate.of_scenario(name)) for name in names]
    order = ("fail", "undecided", "pass")
    return tuple(sorted(found, key=lambda one: (order.index(one.outcome), one.change == "same", one.scenario)))


def _change(scenario: str, before: Sequence[MeasuredRun], after: Sequence[MeasuredRun]) -> VerdictChange:
    was, became = _worst(before), _worst(after)
    change, outcome, reason = _judged(before, after, was, became)
    worse = () if outcome == "pass" else tuple(one.key for one in after if one.ending == became)
    return VerdictChange(scenario, _counts(before), _counts(after), change, outcome, reason, worse)


def _judged(
    before: Sequence[MeasuredRun], after: Sequence[MeasuredRun], was: str, became: str
) -> tuple[str, Outcome, str]:
    if became == "not run":
        return "not run", "undecided", "the candidate did not run it"
    if became == "violated":
        return _violated(before, after, was)
    if became == "unknown":
        reason = next((one.reasons[0] for one in after if one.reasons), "it was never judged")
        change = "still unknown" if was == "unknown" else "became unknown"
        return change, "undecided", f"unknown in {_of(after, 'unknown')}: {reason}"
    if was == "not run":
        return "added", "pass", "the baseline did not run it"
    if flaky := sum(one.ending == "unknown" for one in after):
        more = _flakier(before, after)
        words = f"unknown in {_of(after, 'unknown')}, as expected in the others"
        return ("flakier", "undecided", f"{words}; {more}") if more else ("flaky" if flaky else "same", "pass", words)
    return ("same" if was == "as expected" else f"no longer {was}"), "pass", ""


def _violated(before: Sequence[MeasuredRun], after: Sequence[MeasuredRun], was: str) -> tuple[str, Outcome, str]:
    known = {_finding(one) for one in before if one.ending == "violated"}
    new = sorted({_finding(one) for one in after if one.ending == "violated"} - known)
    if new:
        change = "became violated" if was != "violated" else "violated in another way"
        return change, "fail", f"{'; '.join(new)}, in {_of(after, 'violated')}"
    return "still violated", "undecided", f"{'; '.join(sorted(known))}, on both sides: not worse, and no pass"


def _finding(run: MeasuredRun) -> str:
    """Return what a violation is, in words that are equal for equal violations."""
    if run.anomalies:
        return f"{run.verdict} ({', '.join(sorted(run.anomalies))})"
    return f"{run.verdict}, which the scenario does not expect"


def _worst(runs: Sequence[MeasuredRun]) -> str:
    """Return how a scenario ended: one violation counts, and unknown only if no run was as expected."""
    endings = {one.ending for one in runs}
    if not endings:
        return "not run"
    return next(one for one in ("violated", "as expected", "unknown") if one in endings)


def _flakier(before: Sequence[MeasuredRun], after: Sequence[MeasuredRun]) -> str:
    """Say whether the candidate is unknown certainly more often than the baseline; empty if that is not certain."""
    branch, upstream = (
        FlakeRate("", sum(one.ending == "unknown" for one in some), len(some)) for some in (after, before)
    )
    compared = compare_with_upstream(branch, upstream)
    return compared.reason if compared.flakier else ""


def _of(runs: Sequence[MeasuredRun], ending: str) -> str:
    return f"{sum(one.ending == ending for one in runs)} of {len(runs)} runs"


def _counts(runs: Sequence[MeasuredRun]) -> dict[str, int]:
    return dict(sorted(Counter(one.verdict for one in runs).items()))
