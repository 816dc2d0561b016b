"""The gate: what it decides, and its error rates over pairs with real noise."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from squall.results.trends.gate import GateRules, gate, runs_needed
from tests.results.trends.forged_nights import REPETITIONS_A_RUN, figures

Floats = npt.NDArray[np.float64]
RUNS = 10
EVEN = np.linspace(99, 101, 20)


def outcomes(seed: int, factor: float, *, pairs: int = 1_000, higher_is_better: bool = False) -> Counter[str]:
    """Of 1 000 pairs of ten runs each, the candidate's multiplied by a factor."""
    rng = np.random.default_rng(seed)
    before = figures(rng, pairs, RUNS, REPETITIONS_A_RUN)
    after = figures(rng, pairs, RUNS, REPETITIONS_A_RUN) * factor
    return Counter(gate(*pair, higher_is_better=higher_is_better).outcome for pair in zip(before, after, strict=True))


def test_at_most_one_of_a_hundred_pairs_without_a_difference_fails() -> None:
    counted = outcomes(1, 1.0)
    assert counted["fail"] <= 16, counted  # one per cent of 1 000, and two standard deviations
    assert counted["pass"] >= 750, counted


def test_at_most_one_of_twenty_pairs_worse_by_the_margin_passes() -> None:
    counted = outcomes(2, 1.05)
    assert counted["pass"] <= 64, counted  # five per cent of 1 000, and two standard deviations


def test_nineteen_of_twenty_pairs_worse_by_a_tenth_fail() -> None:
    counted = outcomes(3, 1.1)
    assert counted["fail"] >= 950 and counted["pass"] <= 1, counted


def test_a_metric_of_which_more_is_better_has_the_same_error_rates() -> None:
    assert outcomes(4, 1.0, pairs=300, higher_is_better=True)["fail"] <= 6
    assert outcomes(5, 0.95, pairs=300, higher_is_better=True)["pass"] <= 22
    assert outcomes(6, 0.9, pairs=300, higher_is_better=True)["fail"] >= 285


def test_equal_samples_pass_and_worse_ones_fail_with_a_reason() -> None:
    for higher_is_better in (False, True):
        assert gate(EVEN, EVEN, higher_is_better=higher_is_better).outcome == "pass"
    failed = gate(EVEN, EVEN * 1.1, higher_is_better=False)
    assert failed.outcome == "fail"
    assert failed.reason.startswith("worse: +10.0% (") and "20 and 20 runs" in failed.reason


def test_what_is_better_passes_however_much() -> None:
    assert gate(EVEN, EVEN / 2, higher_is_better=False).outcome == "pass"
    assert gate(EVEN, EVEN * 2, higher_is_better=True).outcome == "pass"


def test_what_is_certainly_worse_by_less_than_the_margin_passes() -> None:
    decision = gate(EVEN, EVEN * 1.02, higher_is_better=False)
    assert decision.worse_p <= 0.01 and decision.outcome == "pass"
    assert gate(EVEN, EVEN * 1.02, higher_is_better=False, rules=GateRules(margin=0.01)).outcome == "fail"


def test_too_few_runs_decide_nothing() -> None:
    assert runs_needed() == 5
    for runs, outcome in ((4, "undecided"), (5, "fail")):
        assert gate([1.0] * runs, [9.0] * runs, higher_is_better=False).outcome == outcome
    assert gate([1.0] * 2, [1.0] * 2, higher_is_better=False).outcome == "undecided"


def test_a_machine_that_differs_leaves_a_regression_undecided() -> None:
    canary = (EVEN, EVEN * 1.1)
    decision = gate(EVEN, EVEN * 1.1, higher_is_better=False, canary=canary)
    assert decision.outcome == "undecided" and "machine" in decision.reason
    assert gate(EVEN, EVEN * 1.1, higher_is_better=False, canary=(EVEN, EVEN)).outcome == "fail"


def test_a_machine_that_differs_does_not_fail_what_passes() -> None:
    assert gate(EVEN, EVEN, higher_is_better=False, canary=(EVEN, EVEN * 1.1)).outcome == "pass"


def test_a_metric_that_is_always_zero_is_undecided() -> None:
    """Zero has no ratio. Counts of rare events are for the tests of `binomial`."""
    assert gate([0.0] * 20, [0.0] * 20, higher_is_better=False).outcome == "undecided"


def test_the_unit_of_a_metric_does_not_matter() -> None:
    for pair in zip(
        figures(np.random.default_rng(7), 50, 8, 50), figures(np.random.default_rng(8), 50, 8, 50), strict=True
    ):
        plain, scaled = (gate(pair[0] * unit, pair[1] * unit, higher_is_better=False) for unit in (1.0, 1024.0))
        assert (plain.outcome, plain.worse_p, plain.within_margin_p) == (
            scaled.outcome,
            scaled.worse_p,
            scaled.within_margin_p,
        )


def test_negative_values_and_senseless_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        gate([1.0, -1.0], [1.0], higher_is_better=False)
    for wrong in ({"margin": 0.0}, {"margin": 1.0}, {"alpha": 0.0}, {"beta": 0.5}):
        with pytest.raises(ValueError):
            GateRules(**wrong)
