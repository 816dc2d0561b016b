"""Commands on stored runs: what is no run is refused and never written into, what is damaged is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.synthetic.forge import forge_run, healthy


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def judged(directory: Path) -> Path:
    run = forge_run(directory, healthy(1))
    check_run(run, InProcess())
    return run


ANY_DIRECTORIES = {
    "of documents": {"letter.txt": "Dear"},
    "with a run.json of another program": {"run.json": '{"scripts": {"start": "node ."}}'},
    "with a broken run.json and nothing else": {"run.json": "{"},
    "with a history folder of another program": {"history/bash.txt": "ls"},
    "with deeper directories": {"a/b/letter.txt": "Dear"},
}


@pytest.mark.parametrize("files", ANY_DIRECTORIES.values(), ids=ANY_DIRECTORIES)
@pytest.mark.parametrize("command", ["check", "show", "timeline"])
def test_a_directory_that_is_no_run_is_refused_and_stays_as_it_is(
    command: str, files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "documents"
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    before = content(tmp_path)
    words = [command, str(directory), *(["--in-process"] if command == "check" else [])]
    assert status_of(words) == 254
    assert re.search("is not a run|not the manifest of a run|no run", capsys.readouterr().err)
    assert content(tmp_path) == before


def test_the_library_writes_into_no_directory_that_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    assert check_run(tmp_path, InProcess()).verdict == "unknown"
    assert list(content(tmp_path)) == ["letter.txt"]


def test_a_run_without_its_manifest_is_still_judged_unknown(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")
    (run / "run.json").unlink()
    assert status_of(["check", str(run), "--in-process"]) == 2


DAMAGE = {
    "cut off": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "a list": lambda data: b"[1, 2]\n",
    "null": lambda data: b"null\n",
    "not text": lambda data: b"\xff\xfe" + data,
    "nested deeply": lambda data: b"[" * 100_000,
}
COMMANDS = ("show RUN", "show RUN events-0@0", "timeline RUN", "check RUN --in-process")


@pytest.mark.parametrize("damage", [DAMAGE["a list"], DAMAGE["nested deeply"]], ids=["a list", "nested deeply"])
def test_a_damaged_file_of_a_run_is_never_a_crash(
    damage: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = judged(tmp_path / "run")
    whole = content(run)
    assert callable(damage)
    for name, data in whole.items():
        for other, kept in whole.items():
            (run / other).parent.mkdir(exist_ok=True)
            (run / other).write_bytes(damage(data) if other == name else kept)
        for command in COMMANDS:
            status = status_of([str(run) if word == "RUN" else word for word in command.split()])
            said = capsys.readouterr()
            assert status in (0, 1, 2, 254) and "Traceback" not in said.err, f"{name}: {command}\n{said.err}"


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_verdict_is_named_with_what_makes_it_anew(
    damage: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = judged(tmp_path / "runs/forged/1")
    assert callable(damage)
    (run / "verdict.json").write_bytes(damage((run / "verdict.json").read_bytes()))
    assert status_of(["show", "runs/forged/1"]) == 2
    said = capsys.readouterr().out
    assert "verdict.json: is not" in said and "squall check runs/forged/1" in said
    assert status_of(["check", "runs/forged/1", "--in-process"]) == 0
    assert status_of(["show", "runs/forged/1"]) == 0


class TestSeveralRuns:
    def test_they_are_summed_up_with_the_seconds_of_each(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        runs = [judged(tmp_path / f"runs/forged/{number}") for number in range(3)]
        (runs[1] / "run.json").unlink()
        assert status_of(["check", *(f"runs/forged/{number}" for number in range(3)), "--in-process"]) == 2
        said = capsys.readouterr().out
        summary = said.rpartition("runs ─")[2].splitlines()[1:]
        assert [line.split()[:2] for line in summary[:3]] == [
            ["✔", "runs/forged/0"],
            ["?", "runs/forged/1"],
            ["✔", "runs/forged/2"],
        ]
        assert re.match(r"3 runs: 1 unknown, 2 valid +\d+\.\d s$", summary[3])

    def test_the_seconds_of_a_run_are_not_those_of_the_runs_before_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from squall.results import check as checking

        now = iter(range(1, 1000))
        monkeypatch.setattr(checking.time, "perf_counter", lambda: float(next(now)))
        laps = checking.Laps(last=0.0)
        assert [laps.count(number) for number in (0, 1, 2)] == [1, 1, 1]
        assert [laps.count(number) for number in (0, 1, 2)] == [2, 2, 2]

    def test_one_run_has_no_summary(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert status_of(["check", str(judged(tmp_path / "run")), "--in-process"]) == 0
        assert "runs ─" not in capsys.readouterr().out
