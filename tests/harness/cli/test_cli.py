"""Every way a command can end, and what it then says and returns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.benchmarks.parts.measurement import Measurement
from squall.harness.cli.figures import bench
from squall.harness.cli.main import status_of
from tests.facts import assert_names

SUITES = Path(__file__).resolve().parent.parent.parent.parent / "suites"


def test_without_arguments_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("run", "check", "show", "plan", "simulate", "lab", "inventory", "bench"))


@pytest.mark.parametrize("command", ["run", "check", "show", "plan", "bench", "simulate", "heal"])
def test_help_of_a_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([command, "--help"]) == 0
    assert f"squall {command}" in capsys.readouterr().out.replace("\n", " ")


def test_a_misspelt_command_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["rnu"]) == 254
    assert "rnu" in capsys.readouterr().err


def test_a_missing_argument_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["run"]) == 254
    assert "SUITE" in capsys.readouterr().err


def test_a_suite_that_is_not_there_is_bad_usage_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["plan", "none.yaml"]) == 254
    printed = capsys.readouterr().err
    assert_names(printed, "none.yaml")
    assert printed.count("\n") == 1


def test_a_mistake_in_a_suite_names_file_line_field_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("scenario: a\nnemesis:\n  - {fault: kill, target: one broker, at: 5s}\nexpct: valid\n")
    assert status_of(["run", str(path)]) == 254
    printed = capsys.readouterr().err
    assert printed.startswith(f"{path}:4: expct: ")
    assert_names(printed, "`expect`")
    assert printed.count("\n") == 1


def test_an_unknown_scenario_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["run", str(SUITES / "quickstart.yaml"), "--only", "quickstrat"]) == 254
    assert "did you mean `quickstart`" in capsys.readouterr().err


def test_a_crash_of_ours_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def crash() -> list[tuple[str, str]]:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(bench, "described", crash)
    assert status_of(["bench"]) == 255
    said = capsys.readouterr().err
    assert "this is a bug of Squall's" in said and "of all things" in said


def test_an_interruption_is_neither_success_nor_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> list[tuple[str, str]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "described", interrupt)
    assert status_of(["bench"]) == 130


def test_a_plan_is_the_same_for_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", str(SUITES / "quickstart.yaml"), "--seed", "4711"]
    assert status_of(arguments) == 0
    first = capsys.readouterr().out
    assert status_of(arguments) == 0
    assert capsys.readouterr().out == first
    assert "active controller" in first and "4711" in first


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["suite", "schema"]) == 0
    assert "anyOf" in json.loads(capsys.readouterr().out)


def test_mutants_are_listed_with_what_they_break(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["mutants"]) == 0
    assert "ack-before-replication" in capsys.readouterr().out


def test_benchmarks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["bench"]) == 0
    assert "interpreter" in capsys.readouterr().out


@pytest.mark.parametrize(("measured", "status"), [(12_000.0, 0), (8_000.0, 1)])
def test_a_benchmark_fails_where_a_must_is_missed(
    measured: float, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = [Measurement("rate", measured, "op/s", must=10_000, stretch=30_000, samples=(measured,))]
    monkeypatch.setattr(bench, "measure", lambda name, **sizes: figures)
    kept = tmp_path / "kept.json"
    assert status_of(["bench", "interpreter", "--json", str(kept)]) == status
    said = capsys.readouterr().out
    assert "≥ 10 000" in said and "≥ 30 000" in said
    assert json.loads(kept.read_text())["measurements"][0]["samples"] == [measured]


def test_an_unknown_benchmark_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["bench", "interpeter"]) == 254
    assert "did you mean `interpreter`" in capsys.readouterr().err
