"""`squall import`: where a run lies, what is said of it, and what becomes of bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.results.history.manifest import Manifest
from squall.results.verdict.verdict import Verdict

HISTORY = """\
{:process 0, :type :invoke, :f :write, :value 3}
{:process 0, :type :ok, :f :write, :value 3}
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value 3}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "history.edn").write_text(HISTORY)
    return tmp_path


def test_an_import_lies_among_the_runs_and_is_judged_like_them(place: Path) -> None:
    assert status_of(["import", "jepsen", "history.edn"]) == 0
    run = place / "runs" / "imported-jepsen" / "history"
    assert Manifest.load(run).command == "squall import jepsen history.edn"
    assert status_of(["check", str(run), "--in-process"]) == 0
    assert Verdict.load(run).verdict == "valid"
    assert (run / "report.html").exists()


def test_a_second_import_of_one_name_has_its_own_directory(place: Path) -> None:
    assert status_of(["import", "jepsen", "history.edn"]) == status_of(["import", "jepsen", "history.edn"]) == 0
    assert sorted(path.name for path in (place / "runs" / "imported-jepsen").iterdir()) == ["history", "history-2"]


def test_a_name_with_dots_stays_below_the_runs(place: Path) -> None:
    (place / "...edn").write_text(HISTORY)
    assert status_of(["import", "jepsen", "...edn"]) == 0
    assert [path.parent for path in place.rglob("run.json")] == [place / "runs" / "imported-jepsen" / "history"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["knossos", "history.edn"], "knossos: unknown tool"),
        (["jepsen", "none.edn"], "none.edn: cannot be read: No such file"),
        (["elle", "history.edn"], "operations such as :f 'write' are not mapped"),
        (["elle", "history.edn", "--model", "serialisable"], "--model serialisable: unknown consistency model"),
        (["jepsen", "history.edn", "--initial", "["], "--initial [: is not a value"),
        (["jepsen", "history.edn", "full"], "full: already exists and is not empty"),
    ],
)
def test_bad_input_is_named_and_leaves_nothing(
    place: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "full").mkdir()
    (place / "full" / "mine").touch()
    assert status_of(["import", *words]) == 254
    printed = capsys.readouterr()
    assert said in " ".join((printed.out + printed.err).split())
    assert not list(place.rglob("run.json")) and not list(place.glob("runs/*/*"))
