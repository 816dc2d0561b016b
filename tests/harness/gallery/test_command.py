"""`squall gallery`: lists, describes, refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.harness.cli.main import status_of


def test_the_list_names_every_entry_with_what_is_live(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["gallery"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("D1", "J1", "L1", "T2", "live", "duplicate", "phantom", "lost_write"))


def test_an_entry_is_described_with_its_twin(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["gallery", "J1"]) == 0
    said = capsys.readouterr().out
    assert all(words in said for words in ("CVE-2026-35554", "Java producer 4.1.1", "Java producer 4.1.2"))
    assert "L1" not in said


def test_a_program_gets_entries_as_they_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["gallery", "D1", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert (entry["name"], entry["anomaly"], entry["schedule"][0]["do"]) == ("D1", "duplicate", "send")


@pytest.mark.parametrize("words", [["gallery", "D9"], ["gallery", "--runs", "2"], ["gallery", "--verify", "D9"]])
def test_what_cannot_be_done_is_bad_usage(words: list[str]) -> None:
    assert status_of(words) == 254


@pytest.mark.parametrize("name", ["N1", "E1"])
def test_without_go_what_is_missing_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert status_of(["gallery", "--verify", name, "--runs-dir", str(tmp_path)]) == 254
    assert "missing: there is no go on PATH" in " ".join(capsys.readouterr().out.split())
