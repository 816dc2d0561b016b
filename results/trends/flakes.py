"""How often runs of equal code and equal plan end differently, without a finding.

Only a run that ended `unknown` or `error` can be a flake, and it is one if another run of the same plan hash and system
version ended differently. An `invalid` run is a finding, however seldom it repeats, and never a flake; a plan whose
runs all end alike, even in error, is not flaky.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from squall.results.trends.binomial import Interval, beta_interval, probability_of_at_least, wilson_interval

Verdict = Literal["valid", "invalid", "unknown", "error"]
RUNS_MIN = 10
"""Comparable runs from which on a rate is shown."""
UPSTREAM_ALPHA = 0.01


@dataclass(frozen=True)
class Outcome:
    """How one run ended. Runs with the same scenario, plan hash and version should end alike."""

    scenario: str
    plan_hash: str
    version: str
    verdict: Verdict


@dataclass(frozen=True)
class FlakeRate:
    """The flakes of a scenario among its comparable runs: those with another run of the same plan hash and version."""

    scenario: str
    flakes: int
    runs: int

    @property
    def shown(self) -> bool:
        """Whether there are enough runs to show a rate."""
        return self.runs >= RUNS_MIN

    @property
    def rate(self) -> float:
        return self.flakes / self.runs if self.runs else 0.0

    @property
    def wilson(self) -> Interval:
        return wilson_interval(self.flakes, self.runs)

    @property
    def beta(self) -> Interval:
        return beta_interval(self.flakes, self.runs)


def flake_rates(outcomes: Iterable[Outcome]) -> tuple[FlakeRate, ...]:
    """The flake rate of each scenario, in order of their names. The order of the runs does not matter."""
    groups: dict[tuple[str, str, str], list[Verdict]] = defaultdict(list)
    for one in outcomes:
        groups[one.scenario, one.plan_hash, one.version].append(one.verdict)
    flakes: dict[str, int] = defaultdict(int)
    runs: dict[str, int] = defaultdict(int)
    for (scenario, _, _), verdicts in groups.items():
        runs[scenario] += len(verdicts) if len(verdicts) > 1 else 0
        flakes[scenario] += sum(one in ("unknown", "error") for one in verdicts) if len(set(verdicts)) > 1 else 0
    return tuple(FlakeRate(one, flakes[one], runs[one]) for one in sorted(runs))


@dataclass(frozen=True)
class BranchFlakes:
    """Whether a branch is flakier than upstream, with the reason in a sentence. None: too few runs to say."""

    flakier: bool | None
    reason: str
    p: float | None = None


def compare_with_upstream(branch: FlakeRate, upstream: FlakeRate, alpha: float = UPSTREAM_ALPHA) -> BranchFlakes:
    """Compare by an exact one-sided binomial test against the upper end of the upstream rate's interval.

    Since it is the upper end, a branch as flaky as upstream is called flakier in less than `alpha` of all cases.
    """
    counts = f"branch {branch.flakes} of {branch.runs} runs, upstream {upstream.flakes} of {upstream.runs}"
    if not branch.runs or not upstream.shown:
        return BranchFlakes(None, f"too few comparable runs: {counts}")
    most = upstream.beta.high
    p = probability_of_at_least(branch.flakes, branch.runs, most)
    sign, word = ("<=", "flakier than") if p <= alpha else (">", "not shown to be flakier than")
    return BranchFlakes(
        p <= alpha, f"{word} upstream: {counts} (rate at most {most:.1%}); p {p:.2g} {sign} {alpha:g}", p
    )
