"""One exit status for a whole suite: a surprise is never green, and a missed bug is as bad as a found one."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.run.campaign import Outcome, exit_status, not_run
from squall.harness.scenario.suite import read_suite
from squall.harness.yaml_source import parse_yaml
from squall.results.history.manifest import Expected
from squall.results.verdict.verdict import AnomalyCount, Coverage, Name, Verdict


def outcome(
    verdict: Name, expected: Name = "valid", found: tuple[str, ...] = (), named: tuple[str, ...] = ()
) -> Outcome:
    judged = Verdict(
        verdict=verdict,
        scenario="a",
        run_id="",
        seed=1,
        reasons=(),
        anomalies=tuple(AnomalyCount(name, "", 1, {}) for name in found),
        statements=(),
        coverage=Coverage(),
        witnesses=(),
        longest_outage=None,
        realtime_lag_p99=0,
        realtime_lag_max=0,
        expected=Expected(verdict=expected, anomalies=named),
        mutants=(),
        command="",
    )
    return Outcome("a", 1, str(expected), judged)


@pytest.mark.parametrize(("verdict", "status"), [("valid", 0), ("invalid", 1), ("unknown", 2)])
def test_a_scenario_that_expects_valid_exits_by_its_verdict(verdict: Name, status: int) -> None:
    assert exit_status([outcome(verdict)]) == status


@pytest.mark.parametrize("verdict", ["valid", "invalid", "unknown"])
@pytest.mark.parametrize("expected", ["valid", "invalid", "unknown"])
def test_a_scenario_alone_exits_as_it_would_in_a_suite(verdict: Name, expected: Name) -> None:
    one = outcome(verdict, expected)
    assert exit_status([one]) == exit_status([outcome("valid"), one])
    assert (exit_status([one]) == 0) == (verdict == expected)


def test_a_suite_is_green_when_everything_turned_out_as_expected() -> None:
    caught = outcome("invalid", "invalid", ("lost_write", "phantom"), ("lost_write",))
    assert exit_status([outcome("valid"), caught, outcome("unknown", "unknown")]) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        outcome("invalid"),
        outcome("valid", "invalid"),
        outcome("valid", "unknown"),
        outcome("invalid", "invalid", ("phantom",), ("lost_write",)),
    ],
    ids=["unexpected violation", "missed violation", "valid without proof", "another anomaly than the one expected"],
)
def test_a_violation_that_was_unexpected_or_missed_is_red(wrong: Outcome) -> None:
    assert exit_status([outcome("valid"), wrong]) == 1


def test_an_unexpected_unknown_is_never_green() -> None:
    assert exit_status([outcome("valid"), outcome("unknown")]) == 2


def test_a_violation_outweighs_an_unknown() -> None:
    assert exit_status([outcome("unknown"), outcome("invalid")]) == 1


REFUSED = Outcome("b", 1, "valid", problem="suite.yaml: no node is called b9\n    aim at others")


def test_a_refused_scenario_is_never_green() -> None:
    assert exit_status([outcome("valid"), REFUSED]) == 254
    assert exit_status([outcome("unknown"), REFUSED]) == 254


def test_a_violation_outweighs_a_refusal() -> None:
    assert exit_status([REFUSED, outcome("invalid")]) == 1


def test_the_summary_says_why_a_scenario_was_refused() -> None:
    assert REFUSED.line().split("seed 1")[1].strip() == "refused: suite.yaml: no node is called b9"


def test_scenarios_that_only_leaves_out_are_named() -> None:
    """`--only` narrows what runs; the rest of the suite stays unknown."""
    text = "scenarios: [{scenario: a, fault_free: true}, {scenario: b, fault_free: true}]\n"
    suite = read_suite(parse_yaml(text, "two.yaml"), Path("two.yaml"))
    assert not_run(suite) == []
    (line,) = not_run(suite.only("b"))
    assert line.startswith("not run") and line.endswith("a: the verdict on the suite is unknown (--only)")
