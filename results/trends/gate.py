"""Decide whether a candidate may pass beside its baseline: pass, fail or undecided, with stated error rates.

Two exact rank tests decide. The first asks whether the candidate is worse at all: of pairs without any difference, at
most a share `alpha` fail. The second asks whether it is worse by less than `margin`: of pairs in which it is worse by
the margin or more, at most a share `beta` pass. What neither shows is undecided, and more runs may decide it. Both
rates hold for noise of any distribution, if a regression multiplies the metric of each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from squall.results.trends.comparison import Comparison, compare
from squall.results.trends.ranks import rank_test, sample

Outcome = Literal["pass", "fail", "undecided"]


@dataclass(frozen=True)
class GateRules:
    """`margin` is the relative change to the worse that counts, `alpha` and `beta` the error rates (see the module)."""

    margin: float = 0.05
    alpha: float = 0.01
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.margin < 1 or not 0 < self.alpha < 0.5 or not 0 < self.beta < 0.5:
            raise ValueError("the margin lies between 0 and 1, alpha and beta between 0 and one half")


DEFAULT_RULES = GateRules()


@dataclass(frozen=True)
class Decision:
    """A decision with its reason in a sentence, the comparison behind it and the p-values of both tests."""

    outcome: Outcome
    reason: str
    comparison: Comparison
    worse_p: float
    within_margin_p: float


def gate(
    baseline: npt.ArrayLike,
    candidate: npt.ArrayLike,
    *,
    higher_is_better: bool,
    canary: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    rules: GateRules = DEFAULT_RULES,
) -> Decision:
    """Decide on a metric whose values are not negative, one a run.

    `canary` is a pair of samples of a figure of the machine, from the same runs: if it differs as well, what looks like
    a regression may be the machine's, and is undecided. Raises ValueError for empty samples and for negative values or
    such that are not finite.
    """
    before, after = sample(baseline), sample(candidate)
    if (before < 0).any() or (after < 0).any():
        raise ValueError("a gate compares ratios: values must not be negative")
    comparison = compare(before, after)
    worse, within = _one_sided(before, after, rules.margin, higher_is_better)
    facts = _facts(comparison)
    if within <= rules.beta:
        return Decision("pass", f"worse by less than {rules.margin:.0%}: {facts}", comparison, worse, within)
    if worse > rules.alpha:
        reason = f"neither worse nor within {rules.margin:.0%} is certain: {facts}"
        return Decision("undecided", reason, comparison, worse, within)
    if canary is not None and (p := _machine_differs(canary)) <= rules.alpha:
        reason = f"worse, but the machine differs as well (canary, p {p:.2g}): {facts}"
        return Decision("undecided", reason, comparison, worse, within)
    return Decision("fail", f"worse: {facts}", comparison, worse, within)


def _one_sided(
    before: npt.NDArray[np.float64], after: npt.NDArray[np.float64], margin: float, higher_is_better: bool
) -> tuple[float, float]:
    """The p-values of "the candidate is worse" and of "it is worse by less than the margin"."""
    if higher_is_better:
        return rank_test(before, after).smaller, rank_test(before * (1 - margin), after).larger
    return rank_test(before, after).larger, rank_test(before * (1 + margin), after).smaller


def _machine_differs(canary: tuple[npt.ArrayLike, npt.ArrayLike]) -> float:
    return rank_test(*canary).p


def _facts(one: Comparison) -> str:
    interval = f"{one.low:+.4g} to {one.high:+.4g}" if np.isfinite(one.low) else "no interval"
    return (
        f"{one.relative:+.1%} ({one.shift:+.4g}; 95 %: {interval}), p {one.p:.2g}, "
        f"{one.baseline_runs} and {one.candidate_runs} runs"
    )


def runs_needed(rules: GateRules = DEFAULT_RULES) -> int:
    """The fewest runs of each sample with which a gate can fail and can pass at all."""
    number = 1
    while rank_test(np.zeros(number), np.ones(number)).larger > min(rules.alpha, rules.beta):
        number += 1
    return number
