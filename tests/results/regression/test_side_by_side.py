"""A candidate beside its baseline: labels of figures, and what a gate decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from squall.results.regression.sample import Sample
from squall.results.regression.side_by_side import NothingInCommon, SideBySide, compare_samples, decide
from squall.results.trends.gate import Outcome
from tests.results.regression.forged_samples import run, sample, unknown, violated
from tests.results.trends.forged_nights import REPETITIONS_A_RUN
from tests.results.trends.forged_nights import figures as real_figures

RUNS = 12


def figures(factor: float = 1.0, runs: int = RUNS, *, seed: int = 1) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    draws = np.exp(rng.normal(0, 0.01, (runs, 3)))
    return [{"p50": 5 * a, "p99": 20 * b * factor, "throughput": 1000 * c} for a, b, c in draws]


def both(factor: float, runs: int = RUNS, **changes: object) -> SideBySide:
    return compare_samples(sample("a", figures(runs=runs)), sample("b", figures(factor, runs, seed=2), **changes))


def outcome(compared: SideBySide) -> Outcome:
    return decide(compared).outcome


def test_equal_samples_pass() -> None:
    assert outcome(both(1.0)) == "pass"
    assert {one.label for one in both(1.0).figures} == {"no difference shown"}


def test_a_figure_that_became_worse_is_named_and_fails() -> None:
    compared = both(1.2)
    assert {one.metric.name: one.label for one in compared.figures}["p99"] == "worse"
    result = decide(compared)
    assert result.outcome == "fail" and result.reasons[0].text.startswith("kills: p99: worse: +")


def test_a_better_figure_passes() -> None:
    compared = both(0.8)
    assert {one.metric.name: one.label for one in compared.figures}["p99"] == "better"
    assert outcome(compared) == "pass"


def test_a_violation_fails_whatever_the_figures_say() -> None:
    after = [*sample("b", figures(seed=2)).runs, violated()]
    compared = compare_samples(sample("a", figures()), Sample.of_runs("b", after))
    assert outcome(compared) == "fail"
    assert decide(compared, verdicts_only=True).outcome == "fail"


def test_too_few_runs_are_said_and_decide_nothing() -> None:
    compared = both(2.0, runs=1)
    assert {one.label for one in compared.figures} == {"too few runs"}
    result = decide(compared)
    assert result.outcome == "undecided" and "too few runs" in result.reasons[0].text
    assert decide(compared, verdicts_only=True).outcome == "pass"


def test_only_unknown_runs_are_undecided() -> None:
    compared = compare_samples(sample("a", figures()), Sample.of_runs("b", [unknown()]))
    assert outcome(compared) == "undecided"


def test_a_figure_that_only_one_side_has_is_no_pass() -> None:
    without = [{name: value for name, value in one.items() if name != "p99"} for one in figures(seed=2)]
    result = decide(compare_samples(sample("a", figures()), sample("b", without)))
    assert result.outcome == "undecided" and "p99: has figures on one side only" in result.reasons[0].text


def test_a_figure_that_is_not_required_cannot_hold_a_pass_up() -> None:
    """The time of the check varies: it may fail a gate, and need not be shown to be the same."""
    rng = np.random.default_rng(3)

    def side(name: str, seed: int, factor: float) -> Sample:
        checks = factor * np.exp(rng.normal(0, 0.5, RUNS))
        return sample(name, [one | {"check": check} for one, check in zip(figures(seed=seed), checks, strict=True)])

    assert outcome(compare_samples(side("a", 1, 1.0), side("b", 2, 1.0))) == "pass"
    assert outcome(compare_samples(side("a", 1, 1.0), side("b", 2, 9.0))) == "fail"
    assert decide(compare_samples(side("a", 1, 1.0), side("b", 2, 1.0)), ["check"]).outcome == "undecided"


def with_canary(one: Sample, factor: float) -> Sample:
    loops = 10 * factor * np.exp(np.random.default_rng(len(one.name)).normal(0, 0.01, len(one.runs)))
    runs = [replace(run, canaries={"loop_ms": loop}) for run, loop in zip(one.runs, loops, strict=True)]
    return Sample.of_runs(one.name, runs)


@pytest.mark.parametrize(
    ("machine", "label", "decided"),
    [(1.15, "environment", "undecided"), (1.0, "worse", "fail"), (0.8, "worse", "fail"), (1.04, "worse", "fail")],
)
def test_a_machine_that_got_slower_as_well_leaves_it_undecided(machine: float, label: str, decided: str) -> None:
    """One that got faster, or far less slower than the figure, explains nothing."""
    compared = compare_samples(
        with_canary(sample("a", figures()), 1.0), with_canary(sample("b", figures(1.2)), machine)
    )
    assert {one.metric.name: one.label for one in compared.figures}["p99"] == label
    assert outcome(compared) == decided


def test_another_machine_explains_any_difference_of_figures() -> None:
    compared = both(1.2, machine="m2")
    assert outcome(compared) == "undecided"
    assert "the machines are not the same" in decide(compared).reasons[0].text


def test_a_scenario_whose_file_changed_decides_nothing_by_figures() -> None:
    compared = both(1.2, scenario_hash="s2")
    assert {one.label for one in compared.figures} == {"scenario changed"}
    assert outcome(compared) == "undecided"
    assert any("changed between the sides" in note for note in compared.notes)


def test_samples_without_a_common_scenario_are_refused() -> None:
    with pytest.raises(NothingInCommon, match="a has kills; b has pauses"):
        compare_samples(Sample.of_runs("a", [run()]), Sample.of_runs("b", [run(scenario="pauses")]))


def test_scenarios_of_one_side_are_noted() -> None:
    compared = compare_samples(Sample.of_runs("a", [run(), run(scenario="pauses")]), Sample.of_runs("b", [run()]))
    assert "only in a: pauses" in compared.notes


def test_p_values_are_adjusted_for_the_number_of_figures() -> None:
    one = {figure.metric.name: figure.comparison for figure in both(1.2).figures}["p99"]
    assert one.adjusted_p == pytest.approx(3 * one.p)


def outcomes(seed: int, factor: float, pairs: int) -> Counter[str]:
    """Of pairs of ten runs with real noise in three figures, the candidate's p99 multiplied by a factor."""
    rng = np.random.default_rng(seed)
    names = ("p50", "p99", "throughput")
    found: Counter[str] = Counter()
    for _ in range(pairs):
        before, after = (real_figures(rng, len(names), 10, REPETITIONS_A_RUN) for _ in range(2))
        after[1] *= factor
        sides = [
            sample(name, [dict(zip(names, one, strict=True)) for one in side.T.tolist()])
            for name, side in (("a", before), ("b", after))
        ]
        found[outcome(compare_samples(*sides))] += 1
    return found


@pytest.mark.parametrize("pairs", [150, pytest.param(1_000, marks=pytest.mark.full)])
def test_the_error_rates_hold_for_all_figures_together(pairs: int) -> None:
    """At most 1 % of equal pairs fail by any figure, at most 5 % with one figure worse by the margin pass."""
    equal, worse, tenth = (outcomes(seed, factor, pairs) for seed, factor in ((1, 1.0), (2, 1.05), (3, 1.1)))
    assert equal["fail"] <= pairs * 0.01 + 2 * (pairs * 0.01 * 0.99) ** 0.5, equal
    assert worse["pass"] <= pairs * 0.05, worse
    assert tenth["fail"] >= 0.9 * pairs and tenth["pass"] == 0, tenth
