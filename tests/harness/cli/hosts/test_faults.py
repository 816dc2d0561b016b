"""`squall faults` as a user types it: lists, one kind in full, and what is bad usage."""

from __future__ import annotations

import json

import pytest

from squall.harness.cli.hosts.faults import OWN_LAB, STANDARD_OUTPUT, with_values
from squall.harness.cli.main import status_of


def test_help_has_examples_and_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["faults", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "squall faults --verify --lab" in said and "Exit status" in said


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["--verify", "--lab"], ["--verify", "--lab", OWN_LAB]),
        (["--lab", "--verify"], ["--lab", OWN_LAB, "--verify"]),
        (["--lab", "mine", "--verify"], ["--lab", "mine", "--verify"]),
        (["--json"], ["--json", STANDARD_OUTPUT]),
        (["--json", "-"], ["--json", "-"]),
        (["kill", "--json", "it.json"], ["kill", "--json", "it.json"]),
    ],
)
def test_lab_and_json_may_stand_alone(typed: list[str], meant: list[str]) -> None:
    assert with_values(typed) == meant


def test_a_kind_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["faults", "disk-error"]) == 0
    said = capsys.readouterr().out
    for label in ("does", "on hosts", "evidence", "limits", "verbs", "simulation", "rows", "option", "example"):
        assert f"\n{label}" in said
    assert "[write, fsync]" in said, "brackets are text here, not markup"
    assert "\x1b[" not in said, "no colours where there is no terminal"


def test_a_kind_is_told_as_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["faults", "kill", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "kill" and told["verbs"] == ["proc.kill"] and told["simulation"] is True
    assert {"name": "target", "values": "selector", "default": ""} in told["options"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["faults", "kil"], "unknown fault 'kil'; did you mean `kill`?"),
        (["faults", "--only", "kill"], "--only chooses what to verify"),
        (["faults", "kill", "--verify"], "squall faults --verify --only kill"),
        (["faults", "--verify", "--json"], "--json FILE"),
        (["faults", "--verify", "--only", "no such row"], "no row and no trial is called that"),
        (["faults", "--verify", "--lab", "x", "--inventory", "y"], "two different places"),
    ],
)
def test_bad_usage_says_what_would_be_right(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(words) == 254
    assert told in capsys.readouterr().err
