"""The seed decides everything that can be decided before a cluster exists."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.plan import choose_seed, described, plan_suite, schedule_of
from squall.harness.scenario.suite import Suite, load_suite, read_suite
from squall.harness.yaml_source import parse_yaml

NOON = datetime(2026, 1, 2, 12, 0, 0)


def suite(text: str) -> Suite:
    return read_suite(parse_yaml(text, "suite.yaml"), Path("suite.yaml"))


def test_the_same_seed_gives_the_same_schedule() -> None:
    path = Path(__file__).resolve().parent.parent.parent.parent / "suites/quickstart.yaml"
    scenario = load_suite(path).scenarios[0]
    assert schedule_of(path, scenario, 7) == schedule_of(path, scenario, 7)
    assert schedule_of(path, scenario, 7).content_hash() != schedule_of(path, scenario, 8).content_hash()


def test_a_fault_that_does_not_fit_the_load_is_a_usage_error() -> None:
    found = suite("scenario: a\nnemesis: [{fault: kill, target: one broker, at: 55s, for: 10s}]\ntime: {load: 60s}\n")
    with pytest.raises(UsageError, match="ends after the load"):
        list(plan_suite(found, 1, Path("runs")))


def test_every_seed_of_a_scenario_is_a_run_in_a_directory_of_its_own() -> None:
    found = suite("scenario: a\nfault_free: true\nrepeat: 2\n")
    plans = list(plan_suite(found, 5, Path("runs"), now=NOON))
    assert [plan.seed for plan in plans] == [5, 6]
    assert [str(plan.directory) for plan in plans] == [
        "runs/a/2026-01-02T12-00-00-seed-5",
        "runs/a/2026-01-02T12-00-00-seed-6",
    ]
    assert len({plan.run_id for plan in plans}) == 2


def test_a_plan_names_the_command_that_repeats_it() -> None:
    plan = next(plan_suite(suite("scenario: a\nfault_free: true\n"), 5, Path("runs"), idle_nemesis=True))
    assert plan.command() == "squall run suite.yaml --seed 5 --idle-nemesis"


SEVERAL = """scenarios:
  - {scenario: a, fault_free: true, repeat: 3}
  - {scenario: b, fault_free: true, seeds: [8, 9]}
  - {scenario: c, fault_free: true}
"""


@pytest.mark.parametrize("only", [None, "a", "b", "c"])
def test_the_command_that_repeats_a_run_plans_exactly_that_run(only: str | None) -> None:
    """Also where `--only` has left one scenario, and where a scenario has seeds of its own or repeats itself."""
    for plan in plan_suite(suite(SEVERAL).only(only), 5, Path("runs")):
        words = plan.command().split()
        assert words[:5] == ["squall", "run", "suite.yaml", "--seed", str(plan.seed)]
        assert words[5:] == ["--only", plan.name]
        (again,) = plan_suite(suite(SEVERAL).only(words[6], int(words[4])), int(words[4]), Path("runs"))
        assert (again.name, again.seed, again.schedule) == (plan.name, plan.seed, plan.schedule)
        assert again.command() == plan.command()


def test_a_seed_is_taken_as_given_or_short_enough_to_type() -> None:
    assert choose_seed(42) == 42
    assert 1 <= choose_seed(None) <= 9999


def test_a_plan_says_what_would_be_done_to_whom_and_when() -> None:
    found = suite("scenario: a\nnemesis: [{fault: kill, target: active controller, at: 5s, for: 3s}]\n")
    scenario = found.scenarios[0]
    lines = [f"{label} {text}" for label, text in described(scenario, schedule_of(found.path, scenario, 1))]
    assert any("5.0 s" in line and "kill" in line and "active controller" in line and "3s" in line for line in lines)
