"""Suites that include others, and what is told of an entry that does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.plan import plan_suite
from squall.harness.scenario.suite import Suite, load_suite
from squall.harness.simulation.run.scenarios import find_scenario

TWO = """\
scenarios:
  - {scenario: first, fault_free: true}
  - {scenario: second, nemesis: [{fault: kill, target: one broker, at: 5s}]}
"""


@pytest.fixture(autouse=True)
def two(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    (tmp_path / "third.yaml").write_text("scenario: third\nfault_free: true\n")


def written(tmp_path: Path, text: str) -> Suite:
    (tmp_path / "all.yaml").write_text(text)
    return load_suite(tmp_path / "all.yaml")


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        written(tmp_path, text)
    return str(caught.value)


def names(suite: Suite) -> list[str]:
    return [one.scenario for one in suite.scenarios]


def test_all_scenarios_of_the_files_come_in_the_order_they_are_named(tmp_path: Path) -> None:
    suite = written(tmp_path, "suite: all\ninclude: [{suite: third.yaml}, {suite: two.yaml}]\n")
    assert names(suite) == ["third", "first", "second"]
    assert suite.own == () and not suite.single


def test_only_takes_some_of_a_file(tmp_path: Path) -> None:
    assert names(written(tmp_path, "include: [{suite: two.yaml, only: [second]}]\n")) == ["second"]


def test_own_scenarios_come_after_those_of_other_files(tmp_path: Path) -> None:
    suite = written(tmp_path, "include: [{suite: third.yaml}]\nscenarios: [{scenario: mine, fault_free: true}]\n")
    assert names(suite) == ["third", "mine"]
    assert [one.scenario for one in suite.own] == ["mine"]


def test_a_scenario_is_planned_the_same_whoever_includes_it(tmp_path: Path) -> None:
    """So that one that failed at night can be run again by itself, from either file."""
    (apart,) = plan_suite(load_suite(tmp_path / "two.yaml").only("second"), 7, tmp_path)
    (together,) = plan_suite(written(tmp_path, "include: [{suite: two.yaml}]\n").only("second"), 7, tmp_path)
    assert together.schedule.content_hash() == apart.schedule.content_hash()


def test_a_scenario_is_found_by_name_in_the_file_that_holds_it(tmp_path: Path) -> None:
    written(tmp_path, "include: [{suite: two.yaml}]\n")
    assert find_scenario("second", tmp_path)[0] == load_suite(tmp_path / "two.yaml").scenarios[1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("include: [{suite: none.yaml}]\n", 'all.yaml:1: include[0].suite: "none.yaml": no such file'),
        ("include: [{suite: two.yaml, only: [frist]}]\n", "include[0].only[0]: two.yaml has no scenario"),
        ("include: [{suite: two.yaml, only: [frist]}]\n", "did you mean `first`"),
        ("include: [{suite: all.yaml}]\n", "includes others itself; name those instead"),
        ("include: [{suite: third.yaml}, {suite: third.yaml}]\n", "'third' is given twice"),
        (
            "include: [{suite: third.yaml}]\nscenarios: [{scenario: third, fault_free: true}]\n",
            "'third' is given twice",
        ),
        ("include: []\n", "has no scenario"),
        ("scenarios: []\n", "has no scenario"),
        ("include: [{suit: two.yaml}]\n", "did you mean `suite`"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    assert told in complaint(tmp_path, text)


def test_what_is_wrong_in_an_included_file_is_told_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "third.yaml").write_text("scenario: third\nfault_fre: true\n")
    assert "third.yaml:2: fault_fre: unknown key" in complaint(tmp_path, "include: [{suite: third.yaml}]\n")
