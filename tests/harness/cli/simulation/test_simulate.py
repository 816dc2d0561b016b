"""What `squall simulate` tells while it runs where no bar can be drawn, and what it tells of a seed that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import squall.harness.cli.simulation.simulate as command
from squall.harness.cli.simulation.shrink import (
    first_of_each_kind,
    refuse_what_cannot_be_listed,
    shrink_first_failures,
)
from squall.harness.cli.simulation.simulate import simulate, summary, tenths, told
from squall.harness.distributed.calls import Ended
from squall.harness.errors import UsageError
from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.run.run import SimOptions, SimResult
from squall.harness.simulation.shrink.whole import ShrinkOutcome
from squall.harness.simulation.why.account import findability_words
from squall.results.checkers.engine.cluster import SparkTrouble
from squall.results.lake.store import Lake
from squall.results.trends.findability import Findability

SUITES = Path(__file__).resolve().parents[4] / "suites"


def test_a_long_simulation_reports_each_tenth_of_seeds_a_short_one_nothing() -> None:
    assert tenths(2000) == {200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800}
    assert tenths(20) == set()


@pytest.mark.parametrize("listable", [True, False])
def test_a_failing_seed_shows_a_shrink_only_if_a_schedule_can_list_it(listable: bool) -> None:
    failed = SimResult(seed=4, verdict="invalid", digest="", broken=("ACK",), problem="offset 3 is gone")
    said = told(failed, "some", SimOptions(), listable)
    assert ("squall shrink 4 --suite some" in said) == listable
    assert "squall simulate some --seed 4" in said


def test_a_failing_seed_is_told_with_its_circumstances_and_no_fault_twice() -> None:
    fault = "  5.005 s  kill b2 started for 7 s"
    told_first = ("leader  b1", fault)
    failed = SimResult(4, "invalid", "", broken=("ACK",), problem="it is gone", witness=told_first, faults=(fault,))
    lines = told(failed, "some", SimOptions()).splitlines()
    assert lines[1:4] == ["  it is gone", "    leader  b1", f"    {fault}"] and lines.count(f"    {fault}") == 1


def test_a_summary_says_how_many_clean_seeds_a_fix_of_each_failure_needs() -> None:
    failed = [SimResult(seed, "invalid", "", broken=("ACK",)) for seed in range(2)]
    valid = [SimResult(seed, "valid", "") for seed in range(2, 60)]
    (line,) = [line for line in summary([*failed, *valid]).splitlines() if line.startswith("findable")]
    assert line == f"findable   {findability_words('ACK', 2, 60)}"
    assert f"after {Findability(2, 60).clean_runs_needed()} clean seeds" in line
    assert "findable" not in summary(valid) and "findable" not in summary(failed[:1])


def test_a_mutant_that_is_not_registered_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean `truncate-to-hw`"):
        simulate("swarm", seeds=1, first_seed=1, console=Console(), mutants=("truncate-to-hv",))


@pytest.mark.parametrize("name", ["idempotence", "metadata", "produce-bench"])
def test_what_a_schedule_cannot_list_is_not_shrunk(name: str) -> None:
    scenario = load_suite(SUITES / f"{name}.yaml").scenarios[0]
    with pytest.raises(UsageError, match=f"of the workload log only, and this is {name}"):
        refuse_what_cannot_be_listed(scenario)


def test_what_it_can_list_is() -> None:
    refuse_what_cannot_be_listed(load_suite(SUITES / "smoke.yaml").scenarios[0])


def test_a_seed_is_never_kept_where_another_history_is(tmp_path: Path) -> None:
    smoke = str(SUITES / "idle-nemesis.yaml")
    (tmp_path / "seed-2").mkdir()
    (tmp_path / "seed-2" / "history.parquet").write_text("of another run")
    with pytest.raises(UsageError, match=r"--keep: .*seed-2 already exists"):
        simulate(smoke, seeds=1, first_seed=2, console=Console(quiet=True), keep=tmp_path)
    assert [path.name for path in (tmp_path / "seed-2").iterdir()] == ["history.parquet"]


class FakeCalls:
    """A cluster on which each odd seed ends its interpreter, and that gives up after some seeds."""

    def __init__(self, gives_up_after: int | None = None) -> None:
        self._left = gives_up_after

    def run(self, function: object, common: object, seeds: Sequence[int]) -> Iterator[tuple[int, Ended]]:
        for number, seed in enumerate(seeds):
            if self._left is not None and number >= self._left:
                raise SparkTrouble("the cluster has had no executor for 60 s")
            good = Ended(SimResult(seed, "valid", "hash"))
            yield number, Ended(problem="its interpreter on w1 was killed by SIGKILL") if seed % 2 else good


def simulated_on(
    fake: FakeCalls, monkeypatch: pytest.MonkeyPatch, lake: Path | None = None, seeds: int = 4
) -> tuple[int, str]:
    monkeypatch.setattr(command, "calls_on", lambda master, say: contextlib.nullcontext(fake))
    console = Console(record=True, width=200)
    status = simulate(
        str(SUITES / "smoke.yaml"), seeds=seeds, first_seed=1, console=console, spark_master="spark://m:7077", lake=lake
    )
    return status, console.export_text()


def test_a_seed_that_ends_its_interpreter_is_unknown_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, said = simulated_on(FakeCalls(), monkeypatch, tmp_path / "lake")
    assert status == 2
    assert "UNKNOWN  seed 3: LOST" in said and "its interpreter on w1 was killed by SIGKILL" in said
    assert "seeds      4: 2 unknown, 2 valid" in said
    (row,) = Lake(tmp_path / "lake").table("campaigns").to_pylist()
    assert (row["valid"], row["unknown"], row["failed_seeds"], row["ended"]) == (2, 2, [1, 3], True)


def test_seeds_that_a_cluster_did_not_run_are_not_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = simulated_on(FakeCalls(gives_up_after=2), monkeypatch, tmp_path / "lake")
    assert status == 2
    assert "no executor for 60 s" in said and "interrupted: 2 of 4 seeds ended; the first that did not is 3" in said
    (row,) = Lake(tmp_path / "lake").table("campaigns").to_pylist()
    assert (row["seeds"], row["ended"]) == (2, False)


@pytest.mark.parametrize(
    "option", [{"keep": Path("kept")}, {"picture": Path("one.svg")}, {"processes": 2}], ids=lambda one: next(iter(one))
)
def test_what_a_cluster_cannot_do_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"--{next(iter(option))} is about seeds that run on this host"):
        simulate("swarm", seeds=1, first_seed=1, console=Console(), spark_master="spark://m:7077", **option)


def test_the_first_failing_seed_of_each_kind_is_shrunk() -> None:
    results = [
        SimResult(9, "invalid", "", broken=("ACK", "ISR")),
        SimResult(5, "invalid", "", broken=("ISR", "ACK")),
        SimResult(7, "invalid", "", broken=("ELECT",)),
        SimResult(3, "unknown", "", broken=("LOST",)),
        SimResult(4, "valid", ""),
    ]
    assert [one.seed for one in first_of_each_kind(results)] == [5, 7]


def test_what_cannot_be_shrunk_is_reported_and_changes_nothing_else(tmp_path: Path) -> None:
    def shrinking(scenario: Scenario, options: SimOptions, seeds: Sequence[int]) -> Iterator[ShrinkOutcome]:
        yield ShrinkOutcome(seeds[0], problem="seed 5 fails, but written down as a schedule it does not")
        raise SparkTrouble("the cluster has had no executor for 60 s")

    results = [SimResult(5, "invalid", "", broken=("ACK",)), SimResult(6, "invalid", "", broken=("ISR",))]
    said = [Console(record=True, width=200) for _ in range(2)]
    log, metadata = (load_suite(SUITES / f"{name}.yaml").scenarios[0] for name in ("smoke", "metadata"))
    shrink_first_failures(results, log, SimOptions(), shrinking, said[0], tmp_path)
    lines = said[0].export_text()
    assert "2 kinds of failures: seeds 5, 6" in lines and "written down as a schedule it does not" in lines
    assert "no executor for 60 s" in lines
    (row,) = Lake(tmp_path).table("campaigns").to_pylist()
    assert (row["kind"], row["first_seed"], row["ended"]) == ("shrink", 5, False)
    shrink_first_failures(results, metadata, SimOptions(), shrinking, said[1], tmp_path)
    assert "of the workload log only" in said[1].export_text()
