"""Suites by name: the shipped ones in every directory, and those in ./suites, which win."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.harness.errors import UsageError
from squall.harness.scenario.plan import plan_suite
from squall.harness.scenario.suites import SHIPPED, load_named, suite_files
from squall.harness.simulation.run.scenarios import find_scenario

OWN = "scenario: quickstart\ndescription: my own\nfault_free: true\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text: str, name: str = "quickstart.yaml") -> None:
    Path("suites").mkdir(exist_ok=True)
    (Path("suites") / name).write_text(text)


def test_every_shipped_suite_is_found_by_its_name() -> None:
    files = suite_files()
    assert len(files) > 40 and all(path.parent == SHIPPED for path in files)
    assert load_named("quickstart").scenarios[0].scenario == "quickstart"


def test_a_scenario_of_a_shipped_suite_is_found_by_its_name() -> None:
    suite = load_named("leader-kill-lagging-ack-before-replication")
    assert [one.scenario for one in suite.scenarios] == ["leader-kill-lagging-ack-before-replication"]
    assert find_scenario("swarm")[0].swarm


def test_a_file_in_suites_wins() -> None:
    written(OWN)
    assert load_named("quickstart").scenarios[0].description == "my own"
    assert find_scenario("quickstart")[0].description == "my own"
    assert load_named("smoke").path.parent == SHIPPED


def test_a_scenario_in_suites_wins_over_a_shipped_one_in_a_file_of_another_name() -> None:
    written(OWN, "mine.yaml")
    assert find_scenario("quickstart")[0].description == "my own"


@pytest.mark.parametrize("command", ["run", "plan", "simulate"])
def test_an_unknown_name_lists_those_there_are(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    written(OWN, "mine.yaml")
    assert status_of([command, "quickstrat"]) == 254
    said = capsys.readouterr().err
    assert "did you mean `quickstart`?" in said
    assert all(name in said for name in ("mine", "smoke", "swarm", "nightly"))


def test_a_path_is_a_file_and_never_a_name() -> None:
    with pytest.raises(UsageError, match=r"^suites/quickstart.yaml: no such file"):
        load_named("suites/quickstart.yaml")


def test_a_run_of_a_named_suite_is_repeated_by_that_name() -> None:
    """From any directory: the path into an installation is not what anybody typed."""
    (plan,) = plan_suite(load_named("quickstart"), 5, Path("runs"))
    assert plan.command() == "squall run quickstart --seed 5"
    (plan,) = plan_suite(load_named("leader-kill-lagging-ack-before-replication"), 5, Path("runs"))
    words = plan.command().split()
    assert words[:3] == ["squall", "run", "leader-kill-lagging"]
    (again,) = plan_suite(load_named(words[2]).only(words[words.index("--only") + 1], 5), 5, Path("runs"))
    assert again.name == plan.name
