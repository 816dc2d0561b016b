"""Names of files that a command chooses itself, and paths as it prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.terminal.paths import free_name, shown_path


def test_a_file_is_never_written_over_one_that_is_there(tmp_path: Path) -> None:
    wanted = tmp_path / "swarm-seed-7.yaml"
    wanted.write_text("mine")
    names = [free_name(wanted).name for _ in range(3)]
    assert names == ["swarm-seed-7-1.yaml", "swarm-seed-7-2.yaml", "swarm-seed-7-3.yaml"]
    assert wanted.read_text() == "mine"


def test_a_path_is_shown_as_it_would_be_typed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert shown_path(here / "runs" / "smoke") == "runs/smoke"
    assert shown_path(tmp_path / "elsewhere") == str(tmp_path / "elsewhere")
