"""`--json` of run, check, show and compare: one document on standard output, nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from squall.harness.cli.main import status_of
from squall.harness.cli.run.campaign import Campaign, Outcome
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.synthetic.forge import forge_run, healthy
from squall.results.verdict.verdict import VERDICT_FILE, Verdict

QUICKSTART = str(Path(__file__).resolve().parents[3] / "suites" / "quickstart.yaml")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = forge_run(tmp_path_factory.mktemp("runs") / "run", healthy(1, 200), seed=1, scenario="smoke")
    check_run(directory, InProcess())
    return directory


def document(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> tuple[Any, str]:
    """The one document on standard output, and the lines beside it."""
    assert status_of([*words, "--json"]) == status
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def test_check_prints_every_verdict_and_the_status(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, lines = document(capsys, "check", "--in-process", str(run), str(run))
    assert [one["verdict"]["verdict"] for one in found["runs"]] == ["valid", "valid"]
    assert found["runs"][-1]["verdict"] == json.loads((run / VERDICT_FILE).read_text())
    assert found["exit_status"] == 0 and "VALID" in lines


def test_check_of_a_run_that_cannot_be_judged_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half = forge_run(tmp_path / "half", healthy(1, 200))
    (half / "run.json").write_text("{")
    found, _ = document(capsys, "check", "--in-process", str(half), status=2)
    assert found["runs"][0]["verdict"]["verdict"] == "unknown" and found["exit_status"] == 2


def test_show_prints_manifest_and_verdict(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, lines = document(capsys, "show", str(run))
    assert (found["manifest"]["scenario"], found["verdict"]["verdict"], lines) == ("smoke", "valid", "")


def test_show_prints_rows(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = document(capsys, "show", str(run), "events-0@3")
    assert {one["f"] for one in found["rows"]} >= {"send", "poll"}
    (send,) = (one for one in found["rows"] if one["f"] == "send")
    assert send["offset"] == 3 and send["type"] == "ok" and 0 <= send["invoked"] <= send["completed"] < 60


def test_show_of_a_run_without_a_verdict_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = document(capsys, "show", str(forge_run(tmp_path / "run", healthy(1, 200))))
    assert found["verdict"] is None
    (tmp_path / "run" / VERDICT_FILE).write_text("{")
    found, _ = document(capsys, "show", str(tmp_path / "run"), status=2)
    assert found["verdict"] is None and "is not JSON" in found["problem"]


@pytest.mark.parametrize("interrupted", [False, True])
def test_run_prints_what_ended(
    run: Path, interrupted: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def carried_out(campaign: Campaign) -> int:
        campaign.outcomes.append(Outcome("smoke", 1, "valid", Verdict.load(run), directory=str(run)))
        campaign.console.print("a line for people")
        if interrupted:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(Campaign, "run", carried_out)
    status = 130 if interrupted else 0
    found, lines = document(capsys, "run", QUICKSTART, "--seed", "1", status=status)
    assert (found["seed"], found["exit_status"], lines) == (1, status, "a line for people\n")
    (one,) = found["runs"]
    assert (one["scenario"], one["as_expected"], one["directory"]) == ("smoke", True, str(run))
    assert one["verdict"]["verdict"] == "valid"


def test_a_refusal_prints_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["run", QUICKSTART, "--dry-run"], ["show", "no/such/run"], ["check", "no/such/run"]):
        assert status_of([*words, "--json"]) == 254
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err
