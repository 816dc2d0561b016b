"""A budget of time: what was found until it was up stands, and what was not looked at is unknown, never valid."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from squall.harness.cli.main import status_of
from squall.results.check import OUT_OF_TIME, check_run
from squall.results.checkers.engine.engines import (
    AnyTask,
    InProcess,
    Outcome,
    Unchecked,
    decode_outcome,
    encode_outcome,
    outcome_of,
)
from squall.results.checkers.engine.spark import SparkEngine
from squall.results.checkers.engine.well_formed_task import ONE_AT_A_TIME, RECORDED_ONCE, WellFormedTask
from squall.results.checkers.further import check_further
from squall.results.checkers.log.partition import Task
from squall.results.checkers.registers.operations import register_table
from squall.results.history.history import HISTORY_FILE, SCHEMA, History, close_history, write_history
from squall.results.history.manifest import Required
from squall.results.history.operation_tables import GROUPS, REGISTERS
from squall.results.report.report import REPORT_FILE
from squall.results.synthetic.forge import INJECTIONS, forge_run, healthy
from squall.results.synthetic.forge_catalogue import FAMILIES
from squall.results.synthetic.forge_registers import healthy_registers
from squall.results.verdict.verdict import Verdict
from tests.facts import assert_names
from tests.results.test_further import STALE, recorded


class Slow:
    """An engine that has time for whether the history is well-formed and for the first log only."""

    name = "slow"
    at_once = 1

    def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        logs = [one for one in tasks if isinstance(one, Task)]
        for number, one in enumerate(tasks):
            yield number, Unchecked(one.run, one.name) if one in logs[1:] and isinstance(one, Task) else outcome_of(one)


@dataclass(frozen=True)
class Hasty:
    """An engine that has time for every log, but not for one rule of well-formed histories."""

    rule: str
    name: str = "hasty"
    at_once: int = 1

    def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        for number, one in enumerate(tasks):
            late = isinstance(one, WellFormedTask) and one.rule == self.rule
            yield number, Unchecked(one.run, self.rule) if late else outcome_of(one)


def two_logs(run: Path, *, spoilt: int | None = None, **manifest: object) -> Path:
    logs = [healthy(1, 100, number) for number in range(2)]
    if spoilt is not None:
        logs[spoilt] = INJECTIONS["lost"][1](logs[spoilt], random.Random(1))
    return forge_run(run, logs[0] + logs[1], **manifest)  # type: ignore[arg-type]


def test_what_there_was_no_time_for_is_unknown_and_named(tmp_path: Path) -> None:
    verdict = check_run(two_logs(tmp_path), Slow())
    assert verdict.verdict == "unknown"
    assert verdict.reasons == (
        "the time limit expired before events-1 had been checked: anomalies there are unknown",
    ), "and nothing is said of its final read"
    assert [one.holds for one in verdict.statements] == [None, None, None]
    assert verdict.coverage.topic_partitions == 1
    assert (tmp_path / REPORT_FILE).exists()


def test_a_violation_that_was_found_in_time_stands(tmp_path: Path) -> None:
    assert check_run(two_logs(tmp_path / "first", spoilt=0), Slow()).verdict == "invalid"
    assert check_run(two_logs(tmp_path / "second", spoilt=1), Slow()).verdict == "unknown"


@pytest.mark.parametrize("rule", [RECORDED_ONCE, ONE_AT_A_TIME])
def test_nothing_counts_that_was_found_in_a_history_which_may_be_ill_formed(tmp_path: Path, rule: str) -> None:
    """A violation least of all: what is wrong might be the history."""
    for spoilt in (None, 0):
        verdict = check_run(two_logs(tmp_path / str(spoilt), spoilt=spoilt), Hasty(rule))
        assert (verdict.verdict, verdict.reasons, verdict.anomalies) == ("unknown", (OUT_OF_TIME,), ())
        assert verdict.coverage.topic_partitions == 0
    run = two_logs(tmp_path / "whole", spoilt=0)
    assert check_run(run, Hasty("none")).verdict == "invalid"


def test_what_is_known_to_be_ill_formed_is_told_even_if_time_was_short(tmp_path: Path) -> None:
    run = two_logs(tmp_path)
    close_history(run)
    rows = History.load(run)
    ids = pa.chunked_array([[7] * rows.table.num_rows])
    write_history(replace(rows, table=rows.table.set_column(0, SCHEMA.field("op_id"), ids)), run / HISTORY_FILE)
    assert "operation 7 is recorded twice" in check_run(run, Hasty(ONE_AT_A_TIME)).reasons[0]


def test_what_a_scenario_requires_is_not_judged_by_a_part(tmp_path: Path) -> None:
    """Half of the logs acknowledge at half of the rate; nobody broke a promise."""
    run = two_logs(tmp_path, require=Required(silence=(0.0, 1.0)))
    assert check_run(run, Slow()).verdict == "unknown"
    assert check_run(run, InProcess()).verdict == "invalid"


@pytest.mark.parametrize("engine", ["in process", pytest.param("spark", marks=pytest.mark.xdist_group("spark"))])
def test_without_any_time_nothing_is_checked(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    chosen: InProcess | SparkEngine = InProcess() if engine == "in process" else request.getfixturevalue("spark")
    run = two_logs(tmp_path)
    verdict = check_run(run, chosen, budget=0.0)
    assert (verdict.verdict, verdict.coverage.topic_partitions) == ("unknown", 0)
    assert verdict.reasons == (OUT_OF_TIME,)
    assert check_run(run, chosen, budget=600.0).verdict == "valid"


def test_further_checks_keep_to_the_budget_too(tmp_path: Path) -> None:
    run = tmp_path / "run"
    FAMILIES[GROUPS].write(run, 3, 200, None)
    verdict = check_run(run, InProcess(), budget=0.0)
    assert_names(verdict.reasons[0], "groups", "time limit")
    assert check_run(run, InProcess(), budget=600.0).verdict == "valid"


def test_registers_not_known_to_be_well_formed_prove_nothing(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", STALE)
    assert check_run(run, InProcess(), budget=0.0).reasons == (OUT_OF_TIME,)
    assert check_run(run, Hasty(RECORDED_ONCE)).reasons == (OUT_OF_TIME,)
    assert check_run(run, Hasty("none")).verdict == "invalid"


def test_a_check_whose_turn_comes_too_late_says_nothing_holds() -> None:
    table = register_table(healthy_registers(3, 200))
    late = check_further(REGISTERS, table, {}, deadline=1.0)
    assert (late.holds, late.checked, late.anomalies) == (None, 0, {})
    assert check_further(REGISTERS, table, {}).holds is True


def test_an_unchecked_task_travels_as_any_outcome() -> None:
    one = Unchecked(3, "events-1")
    assert decode_outcome(encode_outcome(one)) == one


def test_the_command_line_takes_a_budget(tmp_path: Path) -> None:
    run = two_logs(tmp_path)
    assert status_of(["check", "--in-process", "--budget", "0", str(run)]) == 2
    assert Verdict.load(run).reasons[0].startswith("the time limit expired before")
    assert status_of(["check", "--in-process", "--budget", "600", str(run)]) == 0
