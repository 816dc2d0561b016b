"""`squall explore` runs seeds for a time, says what they showed and what is left, and adds a row to the lake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import squall.harness.cli.simulation.explore as command
from squall.harness.cli.simulation.explore import ExploreOptions, explore, violation
from squall.harness.errors import UsageError
from squall.harness.simulation.exploration import explorer as explorer_module
from squall.harness.simulation.exploration.explorer import Explored
from squall.harness.simulation.run.run import SimResult
from squall.results.lake.store import Lake


def explored(asked: ExploreOptions) -> tuple[int, str]:
    console = Console(record=True, width=200, quiet=False)
    return explore(asked, console), console.export_text()


@pytest.fixture
def two_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as fits into `--for`, which is two runs here."""

    def for_two_runs(seconds: float) -> object:
        return lambda progress: progress.runs < 2

    monkeypatch.setattr(command, "for_seconds", for_two_runs)


def test_what_was_seen_is_counted_and_kept_and_is_not_new_the_next_time(tmp_path: Path, two_runs: None) -> None:
    asked = ExploreOptions(("barren-epoch",), seed=3, corpus=tmp_path / "corpus", processes=1, lake=tmp_path / "lake")
    status, said = explored(asked)
    assert status == 0 and "2 runs" in said and "Chao1" in said and "0 invalid, 0 unknown" in said
    assert len(list((tmp_path / "corpus").glob("*.seed.json"))) == 2
    _, again = explored(asked)
    assert "corpus     2 seeds," in again
    explored(replace(asked, seed=None))
    first, second, third = Lake(tmp_path / "lake").table("campaigns").to_pylist()
    assert (first["kind"], first["seeds"], first["valid"], first["first_seed"]) == ("explore", 2, 2, 3)
    assert first["new_behaviours"] == first["behaviours"] > 100
    assert second["new_behaviours"] == 0 and second["behaviours"] == first["behaviours"]
    assert third["first_seed"] == 5, "a corpus is continued after its highest seed"


def test_a_violation_is_told_with_the_command_that_repeats_it() -> None:
    failed = SimResult(4, "invalid", "", broken=("ACK",), problem="offset 3 is gone")
    said = violation(Explored("worlds", failed, 1))
    assert said.startswith("INVALID  worlds 4: ACK\n") and said.endswith("squall simulate worlds --seed 4")


def test_an_unknown_run_is_not_counted_as_valid(
    tmp_path: Path, two_runs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(scenario: str, seed: int) -> tuple[SimResult, set[str]]:
        return SimResult(seed, "unknown" if seed == 3 else "valid", "", problem="too little happened"), set()

    monkeypatch.setattr(explorer_module, "run_seed", shown)
    status, said = explored(ExploreOptions(("barren-epoch",), seed=3, processes=1, lake=tmp_path / "lake"))
    assert status == 2 and "0 invalid, 1 unknown" in said and "UNKNOWN  barren-epoch 3" in said
    (row,) = Lake(tmp_path / "lake").table("campaigns").to_pylist()
    assert (row["seeds"], row["valid"], row["invalid"], row["unknown"]) == (2, 1, 0, 1)


@pytest.mark.parametrize(("option", "named"), [({"scenarios": ("wurlds",)}, "wurlds"), ({"duration": "soon"}, "soon")])
def test_a_wrong_scenario_or_time_is_refused_before_the_first_run(option: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        explore(ExploreOptions(**option), Console(quiet=True))  # type: ignore[arg-type]


def test_nothing_is_added_to_a_lake_if_nothing_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_at_all(seconds: float) -> object:
        return lambda progress: False

    monkeypatch.setattr(command, "for_seconds", not_at_all)
    status, said = explored(ExploreOptions(("barren-epoch",), processes=1, lake=tmp_path / "lake"))
    assert status == 0 and "0 runs" in said
    assert not Lake(tmp_path / "lake").exists
