"""Rows about campaigns: what they count, that they fit the lake, and that trouble with it changes nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from squall.benchmarks.parts.measurement import Measurement, Peer
from squall.harness.errors import UsageError
from squall.harness.lake.adding import RowsAdder
from squall.harness.lake.options import lake_for_rows
from squall.harness.lake.rows import MOST_SEEDS, Rows, of_benchmark, of_cases, of_generated, of_matrix, of_seeds
from squall.harness.simulation.mutation.generation.mutation import Mutation
from squall.harness.simulation.mutation.judgement import Judgement
from squall.harness.simulation.mutation.ledger import Entry
from squall.harness.simulation.run.matrix import TRIALS, TrialResult
from squall.harness.simulation.run.on_spark import lost
from squall.harness.simulation.run.run import SimResult
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_verify import CaseResult

FACTS: tuple[Mapping[str, str], Mapping[str, str]] = (
    {"commit": "abc", "dirty": "yes", "squall": "0.1.0"},
    {"system": "Linux", "processors": "2", "memory": "4 GiB"},
)


def added(lake: Path, rows: Rows, kind: str = "simulate") -> list[str]:
    console = Console(record=True, width=200)
    RowsAdder(lake, console, kind, lambda: FACTS).add(lambda: rows)
    return console.export_text().splitlines()


def result(seed: int, verdict: str = "valid", *broken: str) -> SimResult:
    return SimResult(
        seed, verdict, "", broken, f"{' '.join(broken)} broke\nat length", simulated_s=2.0, processor_s=0.5
    )


def test_a_campaign_counts_verdicts_and_what_broke() -> None:
    row = of_seeds(
        [result(4, "invalid", "ACK"), result(3), lost(2, "its interpreter ended"), result(5, "invalid", "ACK")]
    )
    assert (row["seeds"], row["valid"], row["invalid"], row["unknown"]) == (4, 1, 2, 1)
    assert (row["failed_seeds"], row["broken"]) == ([2, 4, 5], ["ACK", "LOST"])
    assert (row["simulated_s"], row["processor_s"], row["result"]) == (6.0, 1.5, "seed 4: ACK broke")
    many = of_seeds([result(seed, "invalid", "ACK") for seed in range(MOST_SEEDS + 10)])
    assert len(many["failed_seeds"]) == MOST_SEEDS and many["invalid"] == MOST_SEEDS + 10


def test_a_row_says_what_ran_where_and_when(tmp_path: Path) -> None:
    assert added(tmp_path, {"campaigns": [of_seeds([result(1)], scenario="swarm", first_seed=1, ended=True)]}) == []
    (row,) = Lake(tmp_path).table("campaigns").to_pylist()
    assert (row["kind"], row["scenario"], row["commit"], row["dirty"], row["version"]) == (
        "simulate", "swarm", "abc", True, "0.1.0",
    )  # fmt: skip
    (machine,) = Lake(tmp_path).table("machines").to_pylist()
    assert row["machine"] == machine["machine"] and machine["processors"] == 2
    assert row["command"].split()[0] == "squall" and row["seconds"] >= 0 and row["date"] == row["started"][:10]


def test_each_campaign_is_an_entry_of_its_own(tmp_path: Path) -> None:
    for _ in range(2):
        added(tmp_path, {"campaigns": [of_seeds([result(1)])]})
    assert Lake(tmp_path).table("campaigns").num_rows == 2


def test_a_kill_matrix_has_a_row_for_each_mutant(tmp_path: Path) -> None:
    good = TrialResult(TRIALS[0], 3, 3, Counter({"LM": 3, "ACK": 1}), 3, processor_s=4.0)
    bad = TrialResult(
        TRIALS[1], 3, 1, Counter({"ISR": 1}), 2, misses=(result(2),), twin_failures=(result(3, "invalid"),)
    )
    added(tmp_path, of_matrix([good, bad], [result(1)], scenario="", ended=True), "mutants")
    rows = Lake(tmp_path).table("mutants").to_pylist()
    told = [(one["mutant"], one["caught"], one["by"], one["twin_valid"], one["passed"]) for one in rows]
    assert told == [(TRIALS[0].name, 3, ["LM", "ACK"], 3, True), (TRIALS[1].name, 1, ["ISR"], 2, False)]
    assert {one["kind"] for one in rows} == {"documented"}
    (campaign,) = Lake(tmp_path).table("campaigns").to_pylist()
    assert (campaign["seeds"], campaign["valid"], campaign["invalid"]) == (6, 4, 2)
    assert (campaign["failed_seeds"], campaign["broken"]) == ([2, 3], [TRIALS[1].name])


def test_generated_mutants_have_a_row_for_each_way_of_judging(tmp_path: Path) -> None:
    mutation = Mutation(
        "storage.log:Log.flush:boundary:1", "squall.nodes.storage.log", 9, "boundary", "Log.flush", 10, 11, "<", "<="
    )
    entries = [
        Entry(mutation, Judgement("simulation", "killed", ("ACK",), "swarm", 7, seconds=3.0, tried=2)),
        Entry(mutation, Judgement("history", "survived", tried=9)),
    ]
    added(tmp_path, of_generated(entries, scenario="swarm", ended=True), "generated")
    rows = Lake(tmp_path).table("mutants").to_pylist()
    assert [(one["mode"], one["outcome"], one["caught"], one["seeds"]) for one in rows] == [
        ("simulation", "killed", 1, 2),
        ("history", "survived", 0, 9),
    ]
    assert {one["kind"] for one in rows} == {"generated"} and {one["mutant"] for one in rows} == {mutation.id}


def test_cases_of_the_checks_count_where_the_check_was_right(tmp_path: Path) -> None:
    cases = [
        CaseResult("log", "lost", "lost_write", 5, 4, Counter({"nothing": 1}), 3),
        CaseResult("log", "clean", None, 9, 9),
    ]
    added(tmp_path, of_cases(cases, ended=True), "forge")
    rows = Lake(tmp_path).table("campaigns").to_pylist()
    assert [(one["scenario"], one["valid"], one["invalid"], one["failed_seeds"]) for one in rows] == [
        ("log: lost", 4, 1, [3]),
        ("log: clean", 9, 0, []),
    ]


def test_figures_of_a_benchmark_keep_their_samples(tmp_path: Path) -> None:
    figures = [
        Measurement("operations", 40.0, "1/s", must=50.0, samples=(39.0, 40.0, 44.0)),
        Measurement("    memory", 7.0, "MiB", higher_is_better=False, peer=Peer("Other, published", 9.0)),
    ]
    added(tmp_path, of_benchmark("interpreter", figures, ended=True), "bench")
    first, second = Lake(tmp_path).table("benchmarks").to_pylist()
    assert (first["figure"], first["value"], first["samples"], first["passed"]) == (
        "operations", 40.0, [39.0, 40.0, 44.0], False,
    )  # fmt: skip
    assert (second["better"], second["samples"], second["must"], second["passed"]) == ("lower", [7.0], None, True)
    assert first["commit"] == "abc" and first["machine"]
    assert second["figure"] == "operations: memory", "an indented figure belongs to the one above it"
    assert (first["peer"], second["peer"], second["peer_value"]) == (None, "Other, published", 9.0)


def test_a_lake_that_cannot_be_written_is_reported_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "v1").write_text("a file is in the way")
    (line,) = added(tmp_path, {"campaigns": [of_seeds([result(1)])]})
    assert "no rows were added" in line and "v1" in line


def test_no_lake_and_no_rows_measure_no_machine(tmp_path: Path) -> None:
    def never() -> tuple[Mapping[str, str], Mapping[str, str]]:
        raise AssertionError("the machine is measured for rows only")

    RowsAdder(None, Console(), "simulate", never).add(lambda: {"campaigns": [of_seeds([result(1)])]})
    RowsAdder(tmp_path, Console(), "simulate", never).add(dict)
    assert not Lake(tmp_path).exists


def test_rows_go_to_the_lake_that_is_named_or_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert lake_for_rows(None, False) is None
    assert lake_for_rows(Path("new"), False) == Path("new")
    assert lake_for_rows(Path("new"), True) == Path("new"), "what is named prevails over the environment"
    (tmp_path / "runs/lake/v1").mkdir(parents=True)
    assert lake_for_rows(None, False) == Path("runs/lake")
    assert lake_for_rows(None, True) is None
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--lake file: is not a directory"):
        lake_for_rows(Path("file"), False)
