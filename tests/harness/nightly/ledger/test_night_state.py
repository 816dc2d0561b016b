"""What follows from a ledger: what is due, what is retried, and how the night exits."""

from __future__ import annotations

import pytest

from squall.harness.nightly.ledger.ledger import Event, Finished, LeftOut
from squall.harness.nightly.ledger.night_state import NightState, fold
from tests.harness.nightly.nights import attempts, begun, ended, item, plan, working


def after(*events: Event, retries: int = 1) -> NightState:
    return fold([plan(item("a"), item("b"), retries=retries), working(), *events])


def due(state: NightState) -> list[str]:
    return [one.item.id for one in state.due]


def test_an_item_that_began_and_did_not_end_is_run_again_by_the_next_session() -> None:
    interrupted = after(begun("a"))
    assert due(interrupted) == ["b"]
    assert due(after(begun("a"), working())) == ["a", "b"]
    state = after(begun("a"), working(), begun("a", 2), ended("a", "valid", 2))
    assert due(state) == ["b"] and len(state.items["a"].ended) == 1 and not state.items["a"].flaky


@pytest.mark.parametrize("ending", ["unknown", "error"])
def test_unknown_and_error_are_retried_once_after_all_others(ending: str) -> None:
    assert due(after(*attempts("a", ending))) == ["b", "a"]  # type: ignore[arg-type]
    assert due(after(*attempts("a", ending, ending))) == ["b"]  # type: ignore[arg-type]
    assert due(after(*attempts("a", ending), retries=0)) == ["b"]  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", ["valid", "invalid", "refused"])
def test_a_verdict_or_a_refusal_is_never_retried(ending: str) -> None:
    assert due(after(*attempts("a", ending))) == ["b"]  # type: ignore[arg-type]


def test_a_retry_that_finds_a_violation_fails_the_night() -> None:
    assert after(*attempts("a", "unknown", "invalid"), *attempts("b", "valid")).status() == 1


def test_both_attempts_of_a_retry_stay_and_success_is_called_flaky() -> None:
    state = after(*attempts("a", "error", "valid"), *attempts("b", "valid"))
    assert [one.outcome.ending for one in state.items["a"].ended] == ["error", "valid"]
    assert state.items["a"].flaky and state.status() == 0


@pytest.mark.parametrize(
    ("endings", "status"),
    [
        (("valid", "valid"), 0),
        (("invalid", "refused"), 1),
        (("refused", "unknown"), 254),
        (("valid", "unknown"), 2),
        (("valid", "error"), 2),
    ],
)
def test_the_worst_item_decides_the_exit_status(endings: tuple[str, str], status: int) -> None:
    first, second = endings
    assert after(*attempts("a", first), *attempts("b", second)).status() == status  # type: ignore[arg-type]


def test_what_did_not_run_is_unknown_unless_the_budget_was_over() -> None:
    good = attempts("a", "valid")
    assert after(*good).status() == 2
    assert after(*good, LeftOut(item="b", why="no hosts are left")).status() == 2
    assert after(*good, LeftOut(item="b", why="takes 9 s", budget=True)).status() == 0
    assert after(LeftOut(item="a", why="", budget=True), LeftOut(item="b", why="", budget=True)).status() == 2


def test_quarantine_excuses_doubts_and_its_own_problems_fail_the_night() -> None:
    state = after(*attempts("a", "unknown", "unknown"), *attempts("b", "valid"))
    assert state.status() == 2
    assert state.status(lambda name, ending: name == "a") == 0
    assert state.status(lambda name, ending: name == "a", ["an entry has expired"]) == 2


def test_time_between_sessions_is_not_spent() -> None:
    start = 1.0e9
    state = after(begun("a", at=start + 10), working(start + 5000), ended("b", "valid", at=start + 5020))
    assert state.spent_s == 30 and state.sessions == 2


def test_a_night_is_finished_until_somebody_works_on_it_again() -> None:
    assert after(Finished(status=0)).finished == 0
    assert after(Finished(status=0), working()).finished is None


def test_a_ledger_begins_with_its_plan() -> None:
    with pytest.raises(ValueError, match="plan"):
        fold([working()])
