"""`squall compare`: what may be named, what is refused, what the exit status says, and the gate's error rates."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from squall.benchmarks.parts.measurement import Measurement
from squall.harness.cli.figures.bench import save
from squall.harness.cli.figures.compare import compare
from squall.harness.cli.main import status_of
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.lake.of_run import entry_of_run
from squall.results.lake.store import Lake
from squall.results.synthetic.forge import forge_run, healthy
from squall.results.synthetic.forge_lake import Planted, forge_runs
from tests.results.trends.forged_nights import REPETITIONS_A_RUN, figures

PLANTED = Planted(broken="kill-leader", broken_since=20, slower="kill-broker", slower_since=15, slower_by=1.3)


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty nights of four scenarios, twice each."""
    root = tmp_path_factory.mktemp("forged") / "lake"
    Lake(root).rebuild(forge_runs(240, per_night=8, scenarios=4, planted=PLANTED))
    return root


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three judged runs of one scenario in one directory."""
    root = tmp_path_factory.mktemp("runs")
    for seed in (1, 2, 3):
        check_run(forge_run(root / f"smoke/{seed}", healthy(seed, 200), seed=seed, scenario="smoke"), InProcess())
    return root


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert status_of(["compare", *words]) == status
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert status_of(["compare", *words]) == 254
    captured = capsys.readouterr()
    assert captured.out == ""
    return " ".join(captured.err.split())


# -- runs, nights and commits ----------------------------------------------------------------------------------------


def test_nights_are_compared_and_a_new_violation_fails(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("2026-10-26..2026-11-10", "2026-11-15..2026-11-24", "--lake", str(forged), "--gate")
    out = said(capsys, *words, status=1)
    assert "✘ kill-leader" in out and "became violated" in out and "gate       FAIL" in out
    worse = [line.split()[:2] for line in out.splitlines() if line.endswith("worse")]
    assert worse == [["kill-broker", figure] for figure in ("p50", "p99", "p99.9")]


def test_equal_nights_of_one_figure_pass(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = ("2026-10-26..2026-11-09", "2026-10-26..2026-11-09")
    out = said(capsys, *sides, "--metric", "p99", "--gate", "--lake", str(forged))
    assert "gate       PASS" in out


def test_without_a_gate_the_status_is_0(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "became violated" in said(capsys, "2026-11-10", "2026-11-20", "--lake", str(forged))


def test_the_worst_of_several_candidates_decides(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("2026-11-01", "2026-11-20", "--baseline", "2026-11-02", "--lake", str(forged), "--json")
    document = json.loads(said(capsys, *words, "--gate", "--verdicts-only", status=1))
    assert document["exit_status"] == 1
    assert [one["gate"]["outcome"] for one in document["comparisons"]] == ["pass", "fail"]
    assert {one["baseline"]["name"] for one in document["comparisons"]} == {"2026-11-02"}


def test_a_commit_and_the_beginning_of_an_id_select(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = (one for one in Lake(forged).table("runs").to_pylist() if one["key"] == "forged-000008")
    words = (f"commit:{row['commit'][:10]}", "forged-000008", "--lake", str(forged), "--json")
    (one,) = json.loads(said(capsys, *words))["comparisons"]
    assert len(one["baseline"]["runs"]) == 16 and one["candidate"]["runs"] == ["forged-000008"]


def test_run_directories_are_compared(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = json.loads(said(capsys, str(runs / "smoke/1"), str(runs / "smoke/2"), "--json"))["comparisons"]
    assert {figure["figure"] for figure in one["figures"]} >= {"p50", "p99", "p99.9", "throughput", "check"}
    assert {figure["label"] for figure in one["figures"]} == {"too few runs"}


def test_a_directory_of_runs_is_a_sample(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, str(runs / "smoke"), str(runs / "smoke/2"), "--gate", "--verdicts-only")
    assert f"{runs}/smoke   3 runs of 1 scenario" in out


def test_a_run_is_named_by_its_scenario_or_as_the_latest(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs, tmp_path / "runs")
    (tmp_path / "runs/latest").symlink_to("smoke/3")
    (one,) = json.loads(said(capsys, "smoke", "latest", "--json"))["comparisons"]
    assert one["baseline"]["runs"] == one["candidate"]["runs"] == [str(tmp_path / "runs/smoke/3")]
    assert "cats: no run with a run.json is there" in refused(capsys, "latest", "cats")
    shutil.rmtree(tmp_path / "runs/smoke/3")
    assert "runs/latest: points to a deleted run" in refused(capsys, "runs/latest", "smoke")


def test_the_rows_of_a_deleted_run_are_compared(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = shutil.copytree(runs / "smoke/1", tmp_path / "gone")
    Lake(tmp_path / "lake").add(entry_of_run(gone))
    shutil.rmtree(gone)
    assert "became" not in said(capsys, str(gone), str(runs / "smoke/2"), "--lake", str(tmp_path / "lake"))


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("2026-02-30", "2026-02-30: is no day of the calendar"),
        ("2026-11-24..2026-11-01", "ends before it begins"),
        ("2030-01-01", "none of the 240 runs of the lake"),
        ("commit:ab", "'ab' is too short"),
        ("commit:abcd,cat:tom", "'cat:tom' selects nothing; write commit:…"),
        ("forged-0000", "is the beginning of 100 run ids, such as forged-000000"),
        ("no/such/run", "no such directory, and the lake has no rows of a run that lay there"),
        ("none.json", "none.json: no such file or directory"),
    ],
)
def test_words_that_name_nothing_are_refused(
    forged: Path, word: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problem in refused(capsys, word, "2026-11-24", "--lake", str(forged))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("2026-11-24",), "is one side only"),
        (("2026-11-23", "2026-11-24", "--metric", "p98"), "--metric p98: 2026-11-23 has no such figure; did you mean"),
        (("2026-11-23", "2026-11-24", "--margin", "0"), "--margin 0: must lie between 0 and 100"),
        (("2026-11-23", "2026-11-24", "--verdicts-only"), "add --gate"),
        (("2026-11-23", "2026-11-24", "--scenario", "cat"), "is of a scenario whose name contains 'cat'"),
        (("scenario:kill-leader", "scenario:kill-broker"), "share no scenario and no benchmark: scenario:kill-leader"),
    ],
)
def test_wrong_words_are_refused(
    forged: Path, words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problem in refused(capsys, *words, "--lake", str(forged))


def test_an_empty_lake_says_what_fills_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no lake" in refused(capsys, "2026-11-23", "2026-11-24", "--lake", str(tmp_path / "none"))
    (tmp_path / "lake/v1").mkdir(parents=True)
    assert "has no runs yet" in refused(capsys, "2026-11-23", "2026-11-24", "--lake", str(tmp_path / "lake"))


def test_a_lake_of_another_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1/manifest.json").write_text('{"schema": 2}')
    assert "has schema 2, this Squall reads 1" in refused(capsys, "2026-11-23", "2026-11-24", "--lake", str(tmp_path))


def test_a_run_that_is_half_written_is_refused(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half = shutil.copytree(runs / "smoke/1", tmp_path / "half")
    manifest = (half / "run.json").read_text()
    (half / "run.json").write_text(manifest[: len(manifest) // 2])
    assert "run.json: is not JSON" in refused(capsys, str(half), str(runs / "smoke/2"))
    (half / "run.json").write_text('{"run": "of another version"}')
    assert "is not a manifest: " in refused(capsys, str(half), str(runs / "smoke/2"))
    (half / "run.json").unlink()
    assert "is a run without its manifest (run.json): it was cut off" in refused(capsys, str(half), str(half))


def test_a_verdict_that_cannot_be_read_is_unknown_and_no_pass(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = shutil.copytree(runs / "smoke/1", tmp_path / "half")
    (half / "verdict.json").write_text('{"verdict": "val')
    out = said(capsys, str(runs / "smoke/1"), str(half), "--gate", "--verdicts-only", status=2)
    assert "became unknown" in out and "1 of 1 runs were never judged" in out


# -- benchmark files -------------------------------------------------------------------------------------------------


def benchmark(path: Path, samples: Any, *, name: str = "interpreter") -> Path:
    values = tuple(float(one) for one in samples)
    measured = float(np.median(values))
    save(path, name, [Measurement("p99", measured, "ms", higher_is_better=False, samples=values)])
    return path


def test_benchmark_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = benchmark(tmp_path / "before.json", np.linspace(99, 101, 20))
    after = benchmark(tmp_path / "after.json", np.linspace(109, 111, 20))
    out = said(capsys, str(before), str(after), "--gate", status=1)
    assert "worse: +10.0%" in out and "share one process" in out
    assert "PASS" in said(capsys, str(before), str(before), "--gate")


def test_files_of_a_directory_are_one_figure_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, level in (("a", 100), ("b", 120)):
        for number in range(6):
            benchmark(tmp_path / side / f"{number}.json", [level + number] * 50)
    (one,) = json.loads(said(capsys, str(tmp_path / "a"), str(tmp_path / "b"), "--json"))["comparisons"]
    assert [(figure["baseline_runs"], figure["label"]) for figure in one["figures"]] == [(6, "worse")]


def test_what_is_no_benchmark_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = benchmark(tmp_path / "good.json", [1, 2, 3])
    (bad := tmp_path / "bad.json").write_text('{"cats": 3}')
    assert "is not the result of a benchmark" in refused(capsys, str(good), str(bad))
    bad.write_text("{")
    assert "is not JSON" in refused(capsys, str(good), str(bad))
    other = benchmark(tmp_path / "other.json", [1, 2, 3], name="verdict")
    assert "share no scenario and no benchmark" in refused(capsys, str(good), str(other))


def written(path: Path, samples: Sequence[float]) -> str:
    """A benchmark file, not made durable as `squall bench` does: two thousand are written."""
    figure = {"name": "p99", "unit": "ms", "higher_is_better": False, "samples": samples}
    path.write_text(json.dumps({"benchmark": "append", "measurements": [{**figure, "measured": samples[0]}]}))
    return str(path)


def outcomes(place: Path, capsys: pytest.CaptureFixture[str], factor: float, pairs: int, seed: int) -> Counter[str]:
    """Exit statuses of the command over pairs of files of ten runs with real noise, the candidate multiplied.

    The function of the command is called: to take a command line apart costs more than to compare.
    """
    rng = np.random.default_rng(seed)
    before, after = figures(rng, pairs, 10, REPETITIONS_A_RUN), figures(rng, pairs, 10, REPETITIONS_A_RUN) * factor
    found: Counter[str] = Counter()
    for one, other in zip(before, after, strict=True):
        sides = [written(place / "a.json", one.tolist()), written(place / "b.json", other.tolist())]
        found[("pass", "fail", "undecided")[compare(sides, gate=True)]] += 1
    capsys.readouterr()
    return found


SIZES = [60, pytest.param(1_000, marks=[pytest.mark.full, pytest.mark.timeout(900)])]


@pytest.mark.parametrize("pairs", SIZES)
def test_the_gate_keeps_its_error_rates(tmp_path: Path, pairs: int, capsys: pytest.CaptureFixture[str]) -> None:
    """At most 1 % of equal pairs fail, at most 5 % of those worse by the margin pass; the bounds add two deviations."""
    equal = outcomes(tmp_path, capsys, 1.0, pairs, seed=1)
    assert equal["fail"] <= pairs * 0.01 + 2 * (pairs * 0.01 * 0.99) ** 0.5, equal
    worse = outcomes(tmp_path, capsys, 1.05, pairs, seed=2)
    assert worse["pass"] <= pairs * 0.05 + 2 * (pairs * 0.05 * 0.95) ** 0.5, worse
    tenth = outcomes(tmp_path, capsys, 1.1, pairs, seed=3)
    assert tenth["fail"] >= 0.95 * pairs, tenth
