"""`squall dashboard`: builds, and refuses what cannot be built or served with a clear line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_lake import forge_runs


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    Lake(tmp_path / "lake").rebuild(forge_runs(8, per_night=4, scenarios=4))
    return tmp_path / "lake"


def test_a_lake_becomes_pages_and_a_second_build_does_nothing(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["dashboard", "build", str(tmp_path / "out"), "--lake", str(lake)]
    assert status_of(command) == 0
    said = capsys.readouterr().out
    assert "16 files, 16 written" in said and "index.html" in said
    assert status_of(command) == 0
    assert "16 files, as they are" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["build", "OUT", "--lake", "NONE"], "there is no lake"),
        (["build", "TAKEN", "--lake", "LAKE"], "has other files"),
        (["build", "TAKEN/mine.txt", "--lake", "LAKE"], "is not a directory"),
        (["serve", "OUT", "--lake", "LAKE", "--host", "0.0.0.0"], "is not a loopback address"),
        (["serve", "OUT", "--lake", "LAKE", "--token", "short"], "has 5 characters"),
        (["serve", "OUT", "--lake", "LAKE", "--port", "PORT"], "cannot listen there"),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str], expected: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {
            "OUT": str(tmp_path / "out"),
            "NONE": str(tmp_path / "none"),
            "LAKE": str(lake),
            "TAKEN": str(tmp_path / "taken"),
            "TAKEN/mine.txt": str(tmp_path / "taken" / "mine.txt"),
            "PORT": str(taken.getsockname()[1]),
        }
        assert status_of(["dashboard", *(names.get(one, one) for one in arguments)]) == 254
    assert expected in capsys.readouterr().err
