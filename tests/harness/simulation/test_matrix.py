"""The matrix of seeded bugs (HX-08): the table itself, what counts as caught, and a short form of the whole.

CI tries each mutant on two seeds; `squall mutants --verify` and `make test-full` on twenty. The healthy twins are in
test_scenarios.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from squall.harness.distributed.calls import Ended
from squall.harness.errors import UsageError
from squall.harness.simulation.run import matrix
from squall.harness.simulation.run.matrix import (
    TRIALS,
    Matrix,
    Trial,
    TrialResult,
    _Task,
    chosen_trials,
    complaints,
    control,
    first_witness,
    needed,
    save_witnesses,
    table_of,
    verify,
)
from squall.harness.simulation.run.matrix import mutant as mutant_trial
from squall.harness.simulation.run.run import REQUIRED, SimOptions, SimResult, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.nodes.mutants import MUTANTS
from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.engine.cluster import SparkTrouble

WITNESSES = Path(__file__).parent / "witnesses"
RENEW = "squall mutants --verify --seeds 1 --witnesses tests/harness/simulation/witnesses --mutant"
SUITES = Path(__file__).resolve().parents[3] / "suites"
INVARIANTS = {
    "ACK",
    "UNIQ",
    "RT",
    "PREFIX",
    "PHANTOM",
    "LM",
    "HWM",
    "ELECT",
    "ISR",
    "EPOCH",
    "IMAGE",
    "DURABLE",
    "RECOVER",
    "ANSWER",
}
REQUIREMENTS = {
    "DP-04",
    "DP-05",
    "DP-07",
    "DP-13",
    "DP-16",
    "DP-17",
    "EP-04",
    "EL-05",
    "MD-03",
    "MD-05",
    "QC-08",
    "QC-18",
    "CS-02",
    "CS-04",
    "FD-05",
    "RA-05",
    "SN-03",
    "MD-09",
    "CL-16",
    "ZK-06",
    "ZK-08",
    "ZK-14",
    REQUIRED,
}
BY_NAME = [pytest.param(trial, id=trial.name) for trial in TRIALS]


def result(seed: int, verdict: str, *broken: str) -> SimResult:
    return SimResult(seed=seed, verdict=verdict, digest="", broken=broken, problem="what happened")


TRIAL = mutant_trial("some-bug", "DP-01", "some-scenario", "ACK", "lost_write")


# -- the table ------------------------------------------------------------------------------------------------------


def test_every_mutant_has_one_trial() -> None:
    tried = [name for trial in TRIALS for name in trial.mutants]
    assert sorted(tried) == sorted(MUTANTS)


def test_trials_expect_invariants_and_anomalies_that_exist_and_never_a_crash() -> None:
    """LIVENESS counts for replicas that never get what they lack: that can show in no other way outside."""
    known = INVARIANTS | REQUIREMENTS | set(ANOMALIES)
    stuck = {"epoch-cache-not-truncated", "session-additions-ignored", "watch-not-set-again"}
    for trial in TRIALS:
        strange = set(trial.expected) - known - ({"LIVENESS"} if trial.name in stuck else set())
        assert trial.expected and not strange, f"{trial.name}: {strange}"


@pytest.mark.parametrize("trial", BY_NAME)
def test_the_twin_is_a_scenario_without_mutants_that_is_expected_to_be_valid(trial: Trial) -> None:
    twin, _ = find_scenario(trial.twin, SUITES)
    assert not twin.cluster.mutants
    assert twin.expect.verdict == "valid"
    broken, _ = find_scenario(trial.scenario, SUITES)
    assert not broken.cluster.mutants, "the trial names the mutants"


@pytest.mark.parametrize("trial", [one for one in BY_NAME if one.values[0].mutants])
def test_the_suite_of_a_trial_has_the_mutant_as_a_scenario_that_is_never_valid(trial: Trial) -> None:
    """So that it can be run on hosts as well, where a mutant that shows as LIVENESS alone proves nothing."""
    stuck = set(trial.expected) <= {"DP-04", "LIVENESS"}
    scenario, _ = find_scenario(f"{trial.scenario}-{trial.name}", SUITES)
    assert scenario.cluster.mutants == trial.mutants
    assert scenario.expect.verdict == ("unknown" if stuck else "invalid")


# -- what counts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeds", "least"), [(20, 19), (1, 1), (3, 3), (4, 4), (40, 38)], ids=lambda number: str(number)
)
def test_nineteen_of_twenty_must_be_caught_or_as_good_for_another_number(seeds: int, least: int) -> None:
    assert needed(seeds) == least


def test_caught_is_an_invalid_verdict_with_an_expected_name() -> None:
    assert TRIAL.catches(result(1, "invalid", "ACK")) == ("ACK",)
    assert TRIAL.catches(result(1, "invalid", "duplicate", "lost_write")) == ("lost_write",)


@pytest.mark.parametrize("broken", ["CRASH", "LIVENESS", "duplicate"])
def test_a_crash_a_standstill_or_another_anomaly_is_no_catch(broken: str) -> None:
    assert TRIAL.catches(result(1, "invalid", broken)) == ()


def test_an_unknown_verdict_is_no_catch() -> None:
    assert TRIAL.catches(result(1, "unknown", "ACK")) == ()


# -- the matrix -----------------------------------------------------------------------------------------------------


def matrix_of(broken: dict[int, SimResult], twins: dict[int, SimResult]) -> Matrix:
    matrix = Matrix([TRIAL], sorted(broken))
    for seed in broken:
        matrix.results[_Task("some-scenario", ("some-bug",), seed)] = broken[seed]
        matrix.results[_Task("some-scenario", (), seed)] = twins[seed]
    return matrix


def row_of(matrix: Matrix) -> TrialResult:
    (row,) = matrix.rows()
    return row


def test_a_trial_passes_if_the_bug_is_caught_and_the_twin_valid() -> None:
    row = row_of(matrix_of({1: result(1, "invalid", "ACK")}, {1: result(1, "valid")}))
    assert (row.caught, row.twin_valid, dict(row.by), row.passed) == (1, 1, {"ACK": 1}, True)
    assert not list(complaints([row]))


def test_an_interrupted_matrix_counts_the_seeds_that_ended_with_their_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulated(tasks: list[_Task], *_: object) -> Iterator[tuple[_Task, SimResult]]:
        for task in tasks[:3]:
            yield task, result(task.seed, "invalid" if task.mutants else "valid", *(["ELECT"] if task.mutants else []))
        raise KeyboardInterrupt

    monkeypatch.setattr(matrix, "_simulated", simulated)
    said = StringIO()
    with pytest.raises(KeyboardInterrupt):
        verify(
            seeds=3,
            first_seed=1,
            names=["truncate-to-hw"],
            processes=1,
            console=Console(file=said, width=200, soft_wrap=True),
        )
    assert "1/1" in said.getvalue()
    assert "interrupted: 3 of 6 runs ended" in said.getvalue()


def test_a_cluster_that_gives_up_leaves_no_mutant_verified_that_did_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def some(function: object, common: object, tasks: Sequence[Any]) -> Iterator[tuple[int, Ended]]:
        yield 0, Ended(SimResult(1, "invalid", "", broken=chosen_trials(["torn-tail-accepted"])[0].expected))
        yield 1, Ended(problem="its interpreter on w1 was killed by SIGKILL")
        raise SparkTrouble("no executor")

    recorded: list[tuple[list[TrialResult], bool]] = []
    status = verify(
        seeds=2,
        first_seed=1,
        names=("torn-tail-accepted",),
        processes=1,
        console=Console(quiet=True),
        calls=SimpleNamespace(run=some),  # type: ignore[arg-type]
        record=lambda matrix, ended: recorded.append((matrix.rows(), ended)),
    )
    ((row,), ended) = recorded[0]
    assert status != 0 and not ended
    assert (row.seeds, row.caught, row.twin_valid) == (1, 1, 0), "a twin without a result is not valid"


def test_a_trial_fails_if_the_twin_is_invalid_once_and_says_how_to_repeat() -> None:
    broken = {seed: result(seed, "invalid", "ACK") for seed in (1, 2)}
    row = row_of(matrix_of(broken, {1: result(1, "valid"), 2: result(2, "invalid", "LM")}))
    assert not row.passed
    assert list(complaints([row])) == [
        "TWIN    some-scenario, seed 2: invalid (LM) what happened",
        "  Repeat with: squall simulate some-scenario --seed 2",
    ]


def test_a_bug_that_goes_unnoticed_fails_and_says_how_to_repeat_it() -> None:
    row = row_of(matrix_of({3: result(3, "valid")}, {3: result(3, "valid")}))
    assert not row.passed
    assert "  Repeat with: squall simulate some-scenario --seed 3 --mutant some-bug" in complaints([row])


def test_twins_that_trials_share_are_run_once() -> None:
    other = mutant_trial("other-bug", "DP-02", "some-scenario", "LM")
    tasks = Matrix([TRIAL, other], [1, 2]).tasks()
    assert len(tasks) == len(set(tasks)) == 6


def test_the_twin_of_a_control_is_another_scenario() -> None:
    trial = control("N00", "EL-01", "without", "with", "ACK")
    assert [(task.scenario, task.mutants) for task in Matrix([trial], [1]).tasks()] == [("without", ()), ("with", ())]


def test_trials_are_chosen_by_name() -> None:
    assert [trial.name for trial in chosen_trials(["truncate-to-hw"])] == ["truncate-to-hw"]
    assert chosen_trials([]) == TRIALS
    with pytest.raises(UsageError, match=r"truncate-to-hv.*did you mean"):
        chosen_trials(["truncate-to-hv"])


def test_the_table_shows_what_was_caught_by_what() -> None:
    row = row_of(matrix_of({1: result(1, "invalid", "ACK")}, {1: result(1, "valid")}))
    with (console := Console(width=160)).capture() as capture:
        console.print(table_of([row]))
    assert capture.get().splitlines()[1].split() == [
        "some-bug",
        "DP-01",
        "some-scenario",
        "1/1",
        "ACK",
        "1",
        "1/1",
        "✔",
    ]


# -- witnesses ------------------------------------------------------------------------------------------------------


def test_the_first_witness_of_what_was_caught_on_the_first_seed_is_saved(tmp_path: Path) -> None:
    caught = {seed: replace(result(seed, "invalid", "ACK"), witness=("faults  none",)) for seed in (1, 2)}
    save_witnesses(matrix_of(caught, {seed: result(seed, "valid") for seed in (1, 2)}), tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["some-bug.txt"]
    assert (tmp_path / "new" / "some-bug.txt").read_text(encoding="utf-8").splitlines()[1:] == [
        "$ squall simulate some-scenario --seed 1 --mutant some-bug",
        "INVALID  seed 1: ACK",
        "  what happened",
        "    faults  none",
    ]


def test_of_what_was_not_caught_for_what_it_is_no_witness_is_saved(tmp_path: Path) -> None:
    save_witnesses(matrix_of({1: result(1, "invalid", "CRASH")}, {1: result(1, "valid")}), tmp_path)
    assert not list(tmp_path.iterdir())


# -- the short form -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize("trial", BY_NAME)
def test_a_seeded_bug_is_caught_for_what_it_is(trial: Trial, seed: int) -> None:
    """HX-08. Its twin on the same seeds: test_scenarios.py."""
    scenario, _ = find_scenario(trial.scenario, SUITES)
    found = simulate(scenario, seed, SimOptions(mutants=trial.mutants))
    assert trial.catches(found), f"seed {seed}: {trial.name} was {found.verdict} {found.broken} {found.problem}"
    if seed == 1:
        told = (WITNESSES / f"{trial.name}.txt").read_text(encoding="utf-8")
        assert first_witness(trial, found) == told, f"if it tells as much as before: {RENEW} {trial.name}"


@pytest.mark.full
@pytest.mark.timeout(14_400)
def test_mutants_are_caught_on_19_of_20_seeds_and_twins_are_valid_on_all() -> None:
    matrix = Matrix(TRIALS, range(1, 21))
    for _ in matrix.run(processes=2):
        pass
    rows = matrix.rows()
    assert all(row.passed for row in rows), "\n".join(complaints(rows))
