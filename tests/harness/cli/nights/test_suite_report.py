"""`squall run` leaves suite.json and JUnit XML in every case: refused, interrupted, ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import xmlschema

from squall.harness.cli.main import status_of
from squall.harness.cli.run import campaign
from tests.harness.cli.run.test_campaign import outcome

SCHEMA = xmlschema.XMLSchema(Path(__file__).parents[2] / "nightly" / "junit.xsd")
TWO = "scenarios: [{scenario: a, fault_free: true}, {scenario: b, fault_free: true}, {scenario: c, swarm: true}]\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.yaml").write_text(TWO)
    return tmp_path


def run(place: Path, monkeypatch: pytest.MonkeyPatch, ends: list[Any], *words: str) -> tuple[int, dict[str, Any]]:
    """Run the suite with these outcomes instead of runs; an exception is raised instead."""

    def ended(self: campaign.Campaign, one: Any, *_: Any) -> campaign.Outcome:
        if isinstance(one, campaign.Refused):
            return campaign.Outcome(one.scenario, one.seed, "", problem=one.problem)
        end = ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        return campaign.Outcome.of(one, outcome(end).verdict)

    monkeypatch.setattr(campaign.Campaign, "_outcome", ended)
    status = status_of(["run", "two.yaml", "--in-process", "--seed", "3", "--junit", "out/junit.xml", *words])
    SCHEMA.validate("out/junit.xml")
    return status, json.loads((place / "runs" / "suite.json").read_text())


def test_a_suite_that_ended_says_how_each_scenario_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, suite = run(place, monkeypatch, ["valid", "unknown"])
    assert status == suite["exit_status"] == 254 and suite["finished"]
    assert [(one["scenario"], one["verdict"]) for one in suite["items"]] == [
        ("a", "valid"), ("b", "unknown"), ("c", "refused"),
    ]  # fmt: skip
    assert suite["items"][0]["repeat"] == "squall run two.yaml --seed 3 --only a"


def test_an_interrupted_suite_says_what_did_not_end(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, suite = run(place, monkeypatch, ["valid", KeyboardInterrupt()])
    assert status == 130 and not suite["finished"] and suite["exit_status"] is None
    assert [one["verdict"] for one in suite["items"]] == ["valid", None, "refused"]


def test_a_scenario_that_is_refused_alone_is_reported_and_an_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, suite = run(place, monkeypatch, [], "--only", "c")
    assert status == suite["exit_status"] == 254
    assert suite["items"][0]["verdict"] == "refused" and suite["left_out"] == ["a", "b"]
    assert 'errors="1"' in Path("out/junit.xml").read_text()
