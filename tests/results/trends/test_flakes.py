"""What a flake is and is not, rates with intervals, and the comparison of a branch with upstream."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.trends.flakes import (
    BranchFlakes,
    FlakeRate,
    Outcome,
    Verdict,
    compare_with_upstream,
    flake_rates,
)


def outcomes(*verdicts: Verdict, plan: str = "p1", version: str = "v1", scenario: str = "kills") -> list[Outcome]:
    return [Outcome(scenario, plan, version, one) for one in verdicts]


def counted(runs: list[Outcome]) -> tuple[int, int]:
    (rate,) = flake_rates(runs)
    return rate.flakes, rate.runs


def test_an_inconclusive_run_beside_a_conclusive_one_is_a_flake() -> None:
    assert counted(outcomes("valid", "valid", "unknown", "error")) == (2, 4)


def test_an_invalid_run_is_never_a_flake() -> None:
    """It does not make the valid ones beside it flakes either."""
    assert counted(outcomes("valid", "invalid", "valid")) == (0, 3)
    assert counted(outcomes("invalid", "unknown")) == (1, 2)


def test_a_scenario_that_always_ends_in_error_is_broken_and_not_flaky() -> None:
    assert counted(outcomes("error", "error", "error")) == (0, 3)


def test_runs_of_other_plans_or_versions_are_no_evidence() -> None:
    assert counted(outcomes("valid") + outcomes("unknown", plan="p2") + outcomes("error", version="v2")) == (0, 0)
    assert counted(outcomes("valid", "valid") + outcomes("unknown", plan="p2")) == (0, 2)


def test_scenarios_are_counted_each_for_itself() -> None:
    runs = outcomes("valid", "unknown") + outcomes("valid", "valid", scenario="cuts")
    assert [(one.scenario, one.flakes) for one in flake_rates(runs)] == [("cuts", 0), ("kills", 1)]


def test_a_rate_is_shown_from_ten_comparable_runs_on() -> None:
    assert not FlakeRate("kills", 1, 9).shown
    shown = FlakeRate("kills", 1, 10)
    assert shown.shown and shown.rate == 0.1
    assert shown.wilson.low < shown.rate < shown.wilson.high
    assert shown.beta.low < shown.rate < shown.beta.high


RUN = st.tuples(st.sampled_from("ab"), st.sampled_from("pq"), st.sampled_from(["valid", "invalid", "unknown", "error"]))


@given(st.lists(RUN, max_size=30), st.randoms(use_true_random=False))
def test_flakes_are_inconclusive_and_the_order_of_runs_does_not_matter(
    runs: list[tuple[str, str, Verdict]], random: object
) -> None:
    listed = [Outcome(scenario, plan, "v1", verdict) for scenario, plan, verdict in runs]
    rates = flake_rates(listed)
    random.shuffle(listed)  # type: ignore[attr-defined]
    assert flake_rates(listed) == rates
    for one in rates:
        inconclusive = sum(run.scenario == one.scenario and run.verdict in ("unknown", "error") for run in listed)
        assert 0 <= one.flakes <= min(one.runs, inconclusive)


def compared(branch: tuple[int, int], upstream: tuple[int, int]) -> BranchFlakes:
    return compare_with_upstream(FlakeRate("kills", *branch), FlakeRate("kills", *upstream))


def test_a_branch_that_is_much_flakier_is_found_with_numbers_in_the_reason() -> None:
    found = compared((8, 20), (5, 200))
    assert found.flakier and found.p is not None and found.p < 0.001
    for fact in ("8 of 20", "5 of 200", "0.01"):
        assert fact in found.reason


def test_a_branch_as_flaky_as_upstream_is_not_called_flakier() -> None:
    assert compared((1, 20), (5, 200)).flakier is False
    assert compared((0, 20), (0, 200)).flakier is False


def test_too_few_runs_allow_no_comparison() -> None:
    assert compared((1, 5), (1, 9)).flakier is None
    assert compared((0, 0), (5, 200)).flakier is None


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
def test_a_branch_like_upstream_is_called_flakier_in_less_than_a_hundredth(rate: float) -> None:
    """Exactly, for 60 runs upstream and 20 of the branch."""
    wrong = 0.0
    for upstream in range(61):
        flakier = [one for one in range(21) if compared((one, 20), (upstream, 60)).flakier]
        tail = sum(comb(20, one) * rate**one * (1 - rate) ** (20 - one) for one in flakier)
        wrong += tail * comb(60, upstream) * rate**upstream * (1 - rate) ** (60 - upstream)
    assert wrong < 0.01
