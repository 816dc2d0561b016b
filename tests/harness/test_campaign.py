"""One exit status for a whole suite: a surprise is never green, and a missed bug is as bad as a found one."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.campaign import Outcome, exit_status, not_run
from squall.harness.plan import plan_suite
from squall.harness.suite import read_suite
from squall.harness.yaml_source import parse_yaml
from squall.results.manifest import Expected
from squall.results.verdict import AnomalyCount, Coverage, Name, Verdict


def outcome(
    verdict: Name, expected: Name = "valid", found: tuple[str, ...] = (), named: tuple[str, ...] = ()
) -> Outcome:
    suite = read_suite(parse_yaml("scenario: a\nfault_free: true\n", "a.yaml"), Path("a.yaml"))
    plan = next(plan_suite(suite, 1, Path("runs")))
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
    return Outcome(plan, judged)


@pytest.mark.parametrize(("verdict", "status"), [("valid", 0), ("invalid", 1), ("unknown", 2)])
def test_a_single_scenario_exits_by_its_verdict_whatever_it_expects(verdict: Name, status: int) -> None:
    assert exit_status([outcome(verdict, expected="unknown")], single=True) == status


def test_a_suite_is_green_when_everything_turned_out_as_expected() -> None:
    caught = outcome("invalid", "invalid", ("lost_write", "phantom"), ("lost_write",))
    assert exit_status([outcome("valid"), caught, outcome("unknown", "unknown")], single=False) == 0


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
    assert exit_status([outcome("valid"), wrong], single=False) == 1


def test_an_unexpected_unknown_is_never_green() -> None:
    assert exit_status([outcome("valid"), outcome("unknown")], single=False) == 2


def test_a_violation_outweighs_an_unknown() -> None:
    assert exit_status([outcome("unknown"), outcome("invalid")], single=False) == 1


def test_scenarios_that_only_leaves_out_are_named() -> None:
    """Issue 17, point 5: `--only` narrows what runs; the rest of the suite stays unknown."""
    text = "scenarios: [{scenario: a, fault_free: true}, {scenario: b, fault_free: true}]\n"
    suite = read_suite(parse_yaml(text, "two.yaml"), Path("two.yaml"))
    assert not_run(suite) == []
    (line,) = not_run(suite.only("b"))
    assert line.startswith("not run") and line.endswith("a: the verdict on the suite is unknown (--only)")
