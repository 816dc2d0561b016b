"""`squall lake`, `squall runs`: what is listed, repaired and pruned, and how wrong words are refused."""

from __future__ import annotations

import json
import re
import shutil
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from squall.harness.cli.figures.lake import parse_day
from squall.harness.cli.main import status_of
from squall.harness.errors import UsageError
from squall.harness.lake.adding import add_entry
from squall.harness.lake.runs import add_to_lake
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.lake.entry import Entry
from squall.results.lake.store import Lake
from squall.results.synthetic.forge import forge_run, healthy
from squall.results.synthetic.forge_lake import forge_runs


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forged") / "lake"
    Lake(root).rebuild(forge_runs(240))
    return root


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert status_of(list(words)) == 0
    return capsys.readouterr().out.splitlines()


def test_runs_are_listed_the_newest_first(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "runs", "--lake", str(forged), "--limit", "5")
    times = re.findall(r"2026-\d\d-\d\dT\d\d:\d\d", "\n".join(lines))
    assert len(times) == 5 and times == sorted(times, reverse=True)
    assert lines[-1].startswith("… 235 more")


def test_runs_are_filtered_by_scenario_verdict_and_day(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--scenario", "isolate-quorum", "--verdict", "invalid", "--since", "2026-11-22", "--json")
    rows = [json.loads(line) for line in said(capsys, "runs", "--lake", str(forged), *words)]
    assert rows
    for one in rows:
        assert (one["scenario"], one["verdict"], one["anomalies"]) == ("isolate-quorum", "invalid", ["duplicate"])
        assert one["date"] >= "2026-11-22"


def test_of_no_run_that_fits_that_is_said(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "runs", "--lake", str(forged), "--scenario", "no-such") == ["no run fits"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("runs", "--verdict", "green"), "--verdict green: is no verdict"),
        (("runs", "--since", "yesterday"), "--since yesterday: is neither a day nor an age"),
        (("lake", "columns", "cats"), "cats: is not a table"),
        (("lake", "rebuild", "no-such-directory"), "no-such-directory: is not a directory"),
    ],
)
def test_wrong_words_are_refused(
    words: tuple[str, ...], problem: str, forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = () if "columns" in words else ("--lake", str(forged))
    assert status_of([*words, *lake]) == 254
    assert problem in capsys.readouterr().err.replace("\n", " ")


def test_a_lake_that_is_not_there_is_named_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["runs", "--lake", str(tmp_path / "none")]) == 254
    assert "there is no lake" in (err := capsys.readouterr().err.replace("\n", " ")) and "squall lake rebuild" in err
    assert not (tmp_path / "none").exists()


def test_a_lake_is_made_again_from_run_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_run(forge_run(tmp_path / "runs/smoke/1", healthy(1)), InProcess())
    shutil.copytree(tmp_path / "runs/smoke/1", tmp_path / "runs/smoke/half")
    (tmp_path / "runs/smoke/half/run.json").write_text("{")
    (tmp_path / "runs/latest").symlink_to("smoke/1")
    assert status_of(["lake", "rebuild", "runs"]) == 2
    out = capsys.readouterr().out
    assert "1 of 2 runs are in runs/lake" in out and "smoke/half: left out" in out.replace("\n", "")
    assert [one["verdict"] for one in Lake(tmp_path / "runs/lake").table("runs").to_pylist()] == ["valid"]


@pytest.mark.parametrize(
    "words", [("runs",), ("lake", "show"), ("lake", "compact"), ("lake", "prune", "--before", "7d")]
)
def test_a_lake_that_cannot_be_read_is_named_with_the_remedy(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1/manifest.json").write_text('{"schema": 2}')
    assert status_of([*words, "--lake", str(tmp_path)]) == 254
    assert "manifest.json: has schema 2, this Squall reads 1" in capsys.readouterr().err.replace("\n", " ")


def test_a_url_is_refused_where_a_directory_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["runs", "--lake", "s3a://bucket/lake"]) == 254
    assert "squall sql --lake URL" in capsys.readouterr().err.replace("\n", " ")
    assert status_of(["lake", "publish", "bucket/lake"]) == 254
    assert "bucket/lake: is not a URL" in capsys.readouterr().err.replace("\n", " ")


def test_a_checked_run_stays_part_of_its_night(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, lake = forge_run(tmp_path / "run", healthy(1)), tmp_path / "lake"
    add_to_lake(run, lake, Console(quiet=True), night="2026-11-24")
    assert status_of(["check", "--in-process", str(run), "--lake", str(lake)]) == 0
    (row,) = Lake(lake).table("runs").to_pylist()
    assert (row["verdict"], row["night"]) == ("valid", "2026-11-24")


def test_pruning_says_how_much_it_removed(forged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(forged, tmp_path / "lake")
    lines = said(capsys, "lake", "prune", "--before", "2026-11-23", "--keep-invalid", "--lake", str(copy))
    kept = Lake(copy).table("runs").to_pylist()
    assert lines[-1] == f"the rows of {240 - len(kept)} runs, campaigns and benchmarks are removed"
    assert {one["date"] for one in kept if one["verdict"] == "valid"} == {"2026-11-23", "2026-11-24"}
    assert any(one["date"] < "2026-11-23" for one in kept), "an invalid one stays"


def test_rows_of_campaigns_are_made_again_until_they_are_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forge_run(tmp_path / "runs/smoke/one", healthy(1))
    row = {"kind": "simulate", "scenario": "swarm", "seeds": 7}
    entry = Entry.of("simulate-1", "2026-11-20", "2026-11-20T01:00:00+00:00", {"campaigns": [row]})
    lake = Lake(tmp_path / "runs/lake")
    add_entry(entry, lake.root, print)
    lake.compact()
    shutil.rmtree(lake.root / "v1")
    (last,) = said(capsys, "lake", "rebuild", "runs")[-1:]
    assert last == "1 of 1 runs are in runs/lake; 1 entry of campaigns, benchmarks and nights as well"
    assert [one["seeds"] for one in lake.table("campaigns").to_pylist()] == [7]
    said(capsys, "lake", "prune", "--before", "2026-11-21")
    said(capsys, "lake", "rebuild", "runs")
    assert lake.table("campaigns").num_rows == 0


def test_a_kept_entry_that_cannot_be_read_is_named_and_the_rest_is_rebuilt(tmp_path: Path) -> None:
    lines: list[str] = []
    lake = Lake(tmp_path, say=lines.append)
    lake.add(Entry.of("a", "2026-11-20", "", {"campaigns": [{"kind": "simulate"}]}), keep=True)
    (tmp_path / "kept" / "b.entry.json").write_text("{")
    assert [one.key for one in lake.kept()] == ["a"]
    assert len(lines) == 1 and "b.entry.json" in lines[0] and "its rows are not made again" in lines[0]


def test_a_lake_that_cannot_be_written_changes_no_verdict(tmp_path: Path) -> None:
    run = forge_run(tmp_path / "run", healthy(1))
    (tmp_path / "lake").write_text("a file is in the way")
    console = Console(record=True, width=200)
    add_to_lake(run, tmp_path / "lake", console)
    told = console.export_text()
    assert "no rows of this run were added" in told and "squall lake rebuild" in told


@pytest.mark.parametrize(("text", "day"), [("2026-05-01", "2026-05-01"), ("30d", "2026-10-25"), ("2w", "2026-11-10")])
def test_a_day_is_a_date_or_an_age(text: str, day: str) -> None:
    assert parse_day(text, "--since", date(2026, 11, 24)) == date.fromisoformat(day)


@pytest.mark.parametrize("text", ["", "d", "-3d", "3y", "2026-13-01", "٣d٣"])
def test_other_texts_are_no_days(text: str) -> None:
    with pytest.raises(UsageError, match="is neither a day nor an age"):
        parse_day(text, "--since")
