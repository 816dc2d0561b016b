"""`squall forge`: histories of any size without a cluster, and the table that the checks are held against."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import squall.harness.cli.histories.forge as command
from squall.harness.cli.histories.forge import MOST_IN_ONE_PIECE
from squall.harness.cli.main import status_of
from squall.harness.distributed.calls import Ended
from squall.results.checkers.anomalies import ANOMALIES
from squall.results.history.history import History
from squall.results.history.segments import SEGMENTS_FOLDER
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG_PART, parts
from squall.results.synthetic.forge_verify import CaseResult, Question, answered, joined


def verdict_of(run: Path) -> dict[str, object]:
    data: dict[str, object] = json.loads((run / "verdict.json").read_text())
    return data


def test_an_anomaly_is_forged_and_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert status_of(["forge", "--operations", "500", "--seed", "7", "--anomaly", "lost_write", str(run)]) == 0
    assert "invalid with lost_write" in capsys.readouterr().out
    assert status_of(["check", "--in-process", str(run)]) == 1
    assert [one["name"] for one in verdict_of(run)["anomalies"]] == ["lost_write"]  # type: ignore[attr-defined, union-attr]


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_healthy_history_of_each_kind_is_forged_and_valid(tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    assert status_of(["forge", "--operations", "400", "--kind", kind, str(run)]) == 0
    assert status_of(["check", "--in-process", str(run)]) == 0


@pytest.mark.parametrize("name", ["lost tail", "a duplicate of a producer without idempotence", "write skew", "G1a"])
def test_a_case_goes_by_its_own_name_or_its_anomalys(tmp_path: Path, name: str) -> None:
    assert status_of(["forge", "--anomaly", name, str(tmp_path / "run")]) == 0
    expected = 0 if name.startswith("a ") else 1
    assert status_of(["check", "--in-process", str(tmp_path / "run")]) == expected


def test_of_two_that_forge_into_one_directory_one_has_it(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    argv = [sys.executable, "-m", "squall.harness.cli.main", "forge", "--operations", "2000", "--seed"]
    both = [
        subprocess.Popen([*argv, str(seed), str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for seed in (1, 2)
    ]
    said = [one.communicate() for one in both]
    assert sorted(one.returncode for one in both) == [0, 254], said
    assert status_of(["check", "--in-process", str(out)]) == 0
    assert list(tmp_path.iterdir()) == [out]


def test_a_seed_forges_the_same_again_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("first", 7), ("again", 7), ("other", 8)):
        assert status_of(["forge", "--operations", "300", "--seed", str(seed), str(tmp_path / name)]) == 0
    first, again, other = (History.load(tmp_path / name).table for name in ("first", "again", "other"))
    assert first.equals(again)
    assert not first.equals(other)


def test_a_large_log_is_forged_in_parts_of_bounded_size(tmp_path: Path) -> None:
    """Memory is that of one part: each is a topic-partition, in a segment of its own."""
    operations = 2 * LOG_PART + 100
    assert status_of(["forge", "--operations", str(operations), str(tmp_path / "run")]) == 0
    segments = list((tmp_path / "run" / SEGMENTS_FOLDER).iterdir())
    assert len(segments) == 3
    history = History.load(tmp_path / "run")
    assert [partition for _, partition in history.topic_partitions] == [0, 1, 2]
    assert 0.9 * operations < history.table.num_rows < 1.2 * operations


def test_parts_add_up() -> None:
    assert parts(10, 4) == [4, 3, 3]
    assert parts(8, 4) == [4, 4]
    assert parts(1, 4) == [1]


def test_the_list_names_every_anomaly(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["forge", "--list"]) == 0
    out = capsys.readouterr().out
    assert set(re.findall(r"(\S+)$", out, re.MULTILINE)) == {*ANOMALIES, "valid"}


def test_the_table_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["forge", "--verify", "--seeds", "1", "--clean", "2", "--kind", "groups", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert "6 classes of anomalies, 11 injections: 11 of 11 found" in out
    assert "11 near-misses: 0 flagged" in out
    assert "2 clean histories: 0 flagged" in out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "squall forge needs a directory to write to"),
        (["--anomaly", "lost_wriet", "OUT"], "did you mean `lost_write`?"),
        (["--anomaly", "nonsense beyond repair", "OUT"], "nothing of that name can be forged"),
        (["--kind", "register", "OUT"], "did you mean `registers`?"),
        (["--kind", "groups", "--operations", str(MOST_IN_ONE_PIECE + 1), "OUT"], "forged in one piece, up to 200 000"),
        (["FULL"], "already exists and is not empty"),
        (["UNDER_A_FILE"], "cannot be made: Not a directory"),
    ],
)
def test_bad_usage_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    places = {"OUT": str(tmp_path / "out"), "FULL": str(tmp_path / "full")}
    places["UNDER_A_FILE"] = str(tmp_path / "full" / "file" / "out")
    assert status_of(["forge", *(places.get(one, one) for one in arguments)]) == 254
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


class FakeCalls:
    """A cluster that carries calls out here, in another order, and loses some."""

    def __init__(self, lost: tuple[int, ...] = ()) -> None:
        self._lost = lost

    def run(self, function: Any, common: Any, items: Sequence[Any]) -> Iterator[tuple[int, Ended]]:
        for number in reversed(range(len(items))):
            yield number, Ended(problem="it died") if number in self._lost else Ended(function(items[number]))


def verified_on(fake: FakeCalls, monkeypatch: pytest.MonkeyPatch, lake: Path | None = None) -> tuple[int, list[str]]:
    monkeypatch.setattr(command, "calls_on", lambda master, say: nullcontext(fake))
    monkeypatch.setattr(command, "SEEDS_IN_A_CALL", 2)
    return verified_with("spark://m:7077", lake)


def verified_with(spark_master: str | None, lake: Path | None = None) -> tuple[int, list[str]]:
    console = Console(record=True, width=200)
    status = command.verify(
        seeds=3, clean=5, kind="registers", processes=1, console=console, spark_master=spark_master, lake=lake
    )
    return status, console.export_text().splitlines()


def test_a_cluster_verifies_cases_in_parts_and_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, there = verified_on(FakeCalls(), monkeypatch, tmp_path)
    same, here = verified_with(None)
    assert status == same == 0
    assert sorted(there[:-1]) == sorted(here[:-1])
    rows = Lake(tmp_path).table("campaigns").to_pylist()
    assert {one["kind"] for one in rows} == {"forge"} and all(one["valid"] == one["seeds"] for one in rows)


def test_a_case_of_which_a_part_is_lost_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = verified_on(FakeCalls(lost=(0,)), monkeypatch)
    assert status == 2
    assert any("read of a value nobody wrote, seeds from 0 on: it died" in line for line in said)
    assert not any(line.startswith("✔") and "read of a value nobody wrote" in line for line in said)


def test_a_question_is_the_sum_of_its_parts() -> None:
    whole = Question("registers", FAMILIES["registers"].cases[0].name, 5)
    parts_of_it = whole.parts(2)
    assert [(one.first, one.seeds) for one in parts_of_it] == [(0, 2), (2, 2), (4, 1)]
    assert joined([answered(one) for one in parts_of_it]) == answered(whole)
    wrong = [
        CaseResult("k", "c", "a", 2, 1, Counter({"x": 1}), 7),
        CaseResult("k", "c", "a", 2, 1, Counter({"x": 1}), 3),
    ]
    assert joined(wrong) == CaseResult("k", "c", "a", 4, 2, Counter({"x": 2}), 3)
