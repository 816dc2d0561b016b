"""Verdicts of two samples: one violation is enough, unknown is never a pass."""

from __future__ import annotations

import pytest

from squall.results.regression.measured_run import MeasuredRun
from squall.results.regression.sample import Sample
from squall.results.regression.verdict_change import VerdictChange, verdict_changes
from tests.results.regression.forged_samples import run, unknown, violated


def changed(before: list[MeasuredRun], after: list[MeasuredRun]) -> VerdictChange:
    (one,) = verdict_changes(Sample.of_runs("a", before), Sample.of_runs("b", after))
    return one


def test_a_violation_is_not_retried_away() -> None:
    one = changed([run()] * 20, [run(), violated("second"), *[run()] * 30])
    assert (one.change, one.outcome, one.witnesses) == ("became violated", "fail", ("second",))
    assert one.reason == "invalid (lost_write), in 1 of 32 runs"


def test_a_violation_of_a_scenario_without_a_baseline_fails() -> None:
    assert changed([], [violated()]).outcome == "fail"


def test_another_anomaly_than_before_fails() -> None:
    one = changed([violated()], [violated(anomalies=("duplicate",))])
    assert (one.change, one.outcome) == ("violated in another way", "fail")


def test_the_same_violation_on_both_sides_neither_fails_nor_passes() -> None:
    assert changed([violated()], [violated()]).outcome == "undecided"


def test_an_expected_violation_passes_and_a_missed_one_fails() -> None:
    caught, missed = run(verdict="invalid", anomalies=("lost_write",)), run(as_expected=False)
    assert changed([caught], [caught]).outcome == "pass"
    assert changed([caught], [missed]).outcome == "fail"


@pytest.mark.parametrize("verdict", ["unknown", "none"])
def test_what_is_only_unknown_never_passes(verdict: str) -> None:
    one = changed([run()], [unknown(verdict=verdict), unknown(verdict=verdict)])
    assert (one.change, one.outcome) == ("became unknown", "undecided")
    assert changed([unknown()], [unknown()]).outcome == "undecided"


def test_an_unknown_beside_a_run_as_expected_is_a_flake() -> None:
    one = changed([run()] * 20, [run(), unknown()])
    assert (one.change, one.outcome) == ("flaky", "pass")


def test_a_candidate_that_is_certainly_flakier_does_not_pass() -> None:
    one = changed([run()] * 40, [run(), *[unknown()] * 9])
    assert (one.change, one.outcome) == ("flakier", "undecided")


def test_a_scenario_that_the_candidate_did_not_run_does_not_pass() -> None:
    assert changed([run()], []).outcome == "undecided"


def test_a_mended_scenario_passes() -> None:
    one = changed([violated()], [run()])
    assert (one.change, one.outcome) == ("no longer violated", "pass")


def test_the_worst_change_comes_first() -> None:
    before = [run(scenario=name) for name in ("a", "b", "c")]
    after = [run(scenario="a"), unknown(scenario="b"), violated(scenario="c")]
    found = verdict_changes(Sample.of_runs("a", before), Sample.of_runs("b", after))
    assert [one.scenario for one in found] == ["c", "b", "a"]
