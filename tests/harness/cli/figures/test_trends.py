"""`squall trends` and `squall flakes`: what they list, what they record, what they refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from squall.harness.cli.main import status_of
from squall.results.dashboard.lake_facts import read_lake
from squall.results.dashboard.overview import overview_of
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_lake import Planted, forge_runs
from squall.results.synthetic.forge_nights import forge_nights

PLANTED = Planted(slower="kill-broker", slower_since=30, slower_by=1.3, flaky="kill-leader")
SINCE = ("--since", "2026-01-01")
STEP = "2026-11-15"
"""The thirtieth night after the first of forty nights that end on 2026-11-24, counted from zero."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forged") / "lake"
    Lake(root).rebuild(forge_runs(320, per_night=8, scenarios=4, planted=PLANTED))
    return root


@pytest.fixture
def forged(made: Path, tmp_path: Path) -> Path:
    """A copy, since triage writes into it."""
    return shutil.copytree(made, tmp_path / "lake")


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert status_of(list(words)) == status
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], lake: Path, *words: str) -> Any:
    return json.loads(said(capsys, *words, "--json", "--since", "2026-01-01", "--lake", str(lake)))


def test_a_planted_step_is_found_on_its_night(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, made, "trends", "--scenario", "kill-broker", "--metric", "p99")
    (point,) = found["change_points"]
    assert (point["night"], point["worse"], point["state"], point["cause"]) == (STEP, True, "open", "metric")
    assert 0.2 < point["shift"] < 0.4
    (alarm,) = found["alarms"]
    assert (alarm["night"], alarm["raised"]) == (STEP, "2026-11-17")


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of a hundred nights with benchmarks and no runs; a failover takes 12 % longer since the 91st."""
    root = tmp_path_factory.mktemp("benched") / "lake"
    Lake(root).rebuild(replace(one, tables={"benchmarks": one.tables["benchmarks"]}) for one in forge_nights(100))
    return root


def test_a_figure_of_a_benchmark_has_change_points_too(benched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, benched, "trends")
    assert found["series"] == 3
    (point,) = found["change_points"]
    assert (point["scenario"], point["night"], point["worse"]) == ("bench controller", "2026-11-15", True)
    assert point["unit"] == "s" and 0.1 < point["shift"] < 0.14
    chosen = document(capsys, benched, "trends", "--scenario", "bench broker", "--metric", "requests of one record")
    assert (chosen["series"], chosen["change_points"]) == (1, [])


def test_a_point_of_a_benchmark_is_the_one_on_the_page(benched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (point,) = document(capsys, benched, "trends")["change_points"]
    changed = [one for one in overview_of(read_lake(Lake(benched))).benchmarks if one.changes]
    assert [one.point_id(one.changes[0]) for one in changed] == [point["id"]]


def test_points_of_runs_are_those_on_the_pages(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    levels = [one for some in overview_of(read_lake(Lake(made))).levels.values() for one in some if one.metric.trend]
    on_pages = {
        (change.id, level.scenario, level.metric.trend, change.day, change.point.cause)
        for level in levels
        for change in level.changes
    }
    names = {one.metric.trend for one in levels}
    listed = {
        tuple(one[name] for name in ("id", "scenario", "metric", "night", "cause"))
        for one in document(capsys, made, "trends")["change_points"]
        if one["metric"] in names
    }
    assert on_pages == listed and len(listed) >= 3


def test_false_alarms_to_expect_are_said(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "trends", "--since", "2026-01-01", "--lake", str(made))
    assert "28 series" in out and "by chance at most 0.028 a night" in out


def test_a_decision_about_a_point_is_shown_and_a_hidden_one_is_not(
    forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("trends", "--scenario", "kill-broker", "--metric", "p99", "--since", "2026-01-01", "--lake", str(forged))
    (point,) = document(capsys, forged, "trends", "--scenario", "kill-broker", "--metric", "p99")["change_points"]
    triage = ("trends", "--lake", str(forged), "triage", point["id"], "--since", "2026-01-01")
    said(capsys, *triage, "--state", "acknowledged", "--note", "a [red]new flush order")
    assert "acknowledged by " in (out := said(capsys, *words)) and ": a [red]new flush order" in out
    said(capsys, *triage, "--state", "hidden")
    assert point["id"] not in (out := said(capsys, *words)) and "1 hidden; --all lists them" in out
    assert point["id"] in said(capsys, *words, "--all")
    assert len((forged / "triage.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("trends", "--metric", "p98"), "--metric p98: is no figure of a run or a benchmark; did you mean"),
        (("trends", "--scenario", "cat", *SINCE), "--scenario cat: no scenario and no benchmark has a name"),
        (("trends", "--since", "soon"), "--since soon: is neither a day nor an age"),
        (("trends", "--since", "2030-01-01"), "has no runs since 2030-01-01"),
        (("flakes", "--since", "2030-01-01"), "has no runs since 2030-01-01"),
        (("flakes", "--scenario", "cat", *SINCE), "--scenario cat: no run's scenario has a name"),
        (("flakes", "--quarantine", "no-such.yaml"), "no-such.yaml: no such file"),
        (("trends", "triage", "abcd1234", "--state", "green"), "--state green: is no state of a point"),
        (("trends", "triage", "abcd1234", "--state", "fixed", *SINCE), "abcd1234: there is no such point"),
    ],
)
def test_wrong_words_are_refused(
    made: Path, words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of([*words, "--lake", str(made)]) == 254
    captured = capsys.readouterr()
    assert problem in " ".join(captured.err.split()) and captured.out == ""


@pytest.mark.parametrize("command", ["trends", "flakes"])
def test_without_a_lake_the_remedy_is_said(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([command, "--lake", str(tmp_path / "none")]) == 254
    assert "there is no lake" in capsys.readouterr().err


def test_flakes_have_intervals_and_reasons(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, made, "flakes")
    first = found["flakes"][0]
    assert first["scenario"] == "kill-leader" and first["flakes"] > 0
    assert 0 < first["low"] < first["rate"] < first["high"] < 1
    assert "left no evidence" in first["reason"]


def test_an_expired_quarantine_fails_and_a_current_one_is_shown(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "quarantine.yaml").write_text(
        "quarantine:\n"
        "  - {scenario: kill-leader, owner: ann, reason: clock of b3, until: 2999-12-24}\n"
        "  - {scenario: kill-broker, owner: bo, reason: slow, until: 2020-01-02}\n"
    )
    words = ("flakes", "--since", "2026-01-01", "--lake", str(made), "--quarantine", str(file))
    out = said(capsys, *words, status=1)
    assert "in quarantine until 2999-12-24, owner ann: clock of b3" in out
    assert "quarantine of kill-broker expired on 2020-01-02" in out
