"""How a night is carried out: order, budget, retries, lost hosts, failures, interruption. Attempts are faked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from squall.harness.nightly.conduct import Cluster, Conductor, Stopwatch, as_lost
from squall.harness.nightly.ledger.items import Item, Outcome
from squall.harness.nightly.ledger.ledger import Ledger
from squall.harness.nightly.ledger.night_state import NightState
from tests.harness.nightly.nights import item, plan, working

GOOD = Outcome(ending="valid")


@dataclass
class FakeAttempt:
    """Ends as its runner says; one that never ends waits to be cancelled."""

    runner: FakeRunner
    item: Item
    result: Outcome | None
    pid: int = 2**22 + 9
    pid_started: int = 1

    async def outcome(self, limit_s: float) -> Outcome:
        self.runner.limits.append(limit_s)
        if self.result is None:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        assert self.result is not None
        return self.result


@dataclass
class FakeRunner:
    """Begins attempts whose outcomes are listed by item, one after the other; by default valid."""

    outcomes: dict[str, list[Outcome | None]] = field(default_factory=dict)
    begun: list[tuple[str, int, str]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    async def begin(self, item: Item, attempt: int, cluster: Cluster) -> FakeAttempt:
        self.begun.append((item.id, attempt, cluster.name))
        left = self.outcomes.get(item.id, [])
        return FakeAttempt(self, item, left.pop(0) if left else GOOD)


@dataclass
class FakeWatch:
    """Misses these hosts once."""

    hosts: list[tuple[str, ...]] = field(default_factory=list)
    rest: Cluster | None = None

    async def missing(self, cluster: Cluster) -> tuple[str, ...]:
        return self.hosts.pop(0) if self.hosts else ()

    def without(self, cluster: Cluster, hosts: Sequence[str]) -> Cluster | None:
        return self.rest


class Stage:
    """A ledger, a runner and a watch; `run` conducts and returns the state."""

    def __init__(self, directory: Path) -> None:
        self.ledger = Ledger(directory, "c")
        self.runner = FakeRunner()
        self.watch = FakeWatch()
        self.said: list[str] = []

    def run(self, *items: Item, clusters: int = 1, left: Sequence[float] = (), **more: Any) -> NightState:
        remaining = iter(left)
        conductor = Conductor(
            self.ledger,
            [Cluster(f"c{number}") for number in range(1, clusters + 1)],
            self.runner,
            self.watch,
            lambda: next(remaining, left[-1]) if left else None,
            self.said.append,
            **more,
        )
        if not self.ledger.events:
            self.ledger.write(plan(*items))
        self.ledger.write(working())
        asyncio.run(conductor.run())
        return conductor.state


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    with made.ledger:
        yield made


def names(stage: Stage) -> list[str]:
    return [name for name, _, _ in stage.runner.begun]


def test_one_cluster_takes_the_most_valuable_several_the_longest_first(tmp_path: Path) -> None:
    items = [item("a", usual_s=10.0), item("b", usual_s=30.0), item("c", usual_s=20.0)]
    for clusters, order in ((1, ["a", "b", "c"]), (2, ["b", "c", "a"])):
        made = Stage(tmp_path / str(clusters))
        with made.ledger:
            assert made.run(*items, clusters=clusters).status() == 0
            assert names(made) == order
            assert len({cluster for _, _, cluster in made.runner.begun}) == clusters


def test_an_item_that_no_longer_fits_is_left_out_and_a_cheaper_one_still_runs(stage: Stage) -> None:
    state = stage.run(item("a", usual_s=50.0), item("b", usual_s=90.0), item("c", usual_s=10.0), left=[100.0, 60.0])
    assert names(stage) == ["a", "c"] and state.status() == 0
    assert state.items["b"].left_out == "takes about 90 s, 60 s of the budget were left"


def test_a_doubt_is_retried_after_the_others_by_whatever_cluster_is_free(stage: Stage) -> None:
    stage.runner.outcomes["a"] = [Outcome(ending="unknown", problem="no final read")]
    state = stage.run(item("a", usual_s=90.0), item("b"), item("c"), clusters=2)
    assert stage.runner.begun[-1][:2] == ("a", 2) and state.items["a"].flaky
    assert [one.outcome.ending for one in state.items["a"].ended] == ["unknown", "valid"]


def test_a_violation_is_not_retried(stage: Stage) -> None:
    stage.runner.outcomes["a"] = [Outcome(ending="invalid", anomalies=("lost_write",))]
    assert stage.run(item("a"), item("b")).status() == 1
    assert names(stage) == ["a", "b"]


def test_an_expected_violation_is_as_expected_only_with_its_anomaly(stage: Stage) -> None:
    found = Outcome(ending="invalid", anomalies=("phantom", "lost_write"))
    stage.runner.outcomes = {"a": [found], "b": [found]}
    bug = {"expected": "invalid"}
    state = stage.run(item("a", **bug, anomalies=("lost_write",)), item("b", **bug, anomalies=("stale_read",)))
    assert state.items["a"].as_expected and not state.items["b"].as_expected and state.status() == 1


def test_fail_fast_begins_nothing_after_a_failure_that_is_final(stage: Stage) -> None:
    stage.runner.outcomes["a"] = [Outcome(ending="error"), Outcome(ending="error")]
    state = stage.run(item("a"), item("b"), item("c"), fail_fast=True)
    assert names(stage) == ["a", "b", "c", "a"], "a retry may yet succeed"
    assert state.status() == 2
    stage.ledger.events.clear()
    stage.runner.begun.clear()
    stage.runner.outcomes["a"] = [Outcome(ending="invalid")]
    state = stage.run(item("a"), item("b"), fail_fast=True)
    assert names(stage) == ["a"] and "--fail-fast" in state.items["b"].left_out


def test_a_lost_host_makes_the_attempt_unknown_and_the_night_goes_on_without_it(stage: Stage) -> None:
    stage.runner.outcomes["a"] = [Outcome(ending="error", cause="crash", problem="ssh failed")]
    stage.watch = FakeWatch([("b2",)], Cluster("the rest"))
    state = stage.run(item("a"), item("b"))
    first = state.items["a"].ended[0].outcome
    assert (first.ending, first.cause, first.problem) == ("unknown", "machine", "lost host b2: ssh failed")
    assert stage.runner.begun == [("a", 1, "c1"), ("b", 1, "the rest"), ("a", 2, "the rest")]
    assert state.lost[0].hosts == ("b2",) and state.status() == 0


def test_without_hosts_the_rest_is_left_out_and_unknown(stage: Stage) -> None:
    stage.runner.outcomes["a"] = [Outcome(ending="unknown")]
    stage.watch = FakeWatch([("b1", "b2")], None)
    state = stage.run(item("a"), item("b"))
    assert names(stage) == ["a"] and state.status() == 2
    assert state.items["b"].left_out == "no hosts are left to run it on"


def test_a_violation_on_hosts_that_were_lost_stays_a_violation(stage: Stage) -> None:
    stage.runner.outcomes["a"] = [Outcome(ending="invalid")]
    stage.watch = FakeWatch([("b2",)])
    assert stage.run(item("a")).items["a"].ended[0].outcome.ending == "invalid"


def test_an_interrupted_attempt_has_no_outcome_and_is_run_again(stage: Stage) -> None:
    stage.runner.outcomes["b"] = [None]

    async def interrupted() -> NightState:
        made = Conductor(stage.ledger, [Cluster("c1")], stage.runner, stage.watch, lambda: None, stage.said.append)
        task = asyncio.create_task(made.run())
        while ("b", 1, "c1") not in stage.runner.begun:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return made.state

    stage.ledger.write(plan(item("a"), item("b")))
    stage.ledger.write(working())
    state = asyncio.run(interrupted())
    assert state.items["b"].open is not None and not state.items["b"].ended
    assert stage.run().status() == 0
    assert stage.runner.begun == [("a", 1, "c1"), ("b", 1, "c1"), ("b", 2, "c1")]


def test_an_attempt_may_take_four_times_as_long_as_expected(stage: Stage) -> None:
    stage.run(item("a", usual_s=1000.0), item("b", usual_s=1.0))
    assert stage.runner.limits == [4000.0, 900.0]


def test_what_is_left_of_a_budget_shrinks_by_earlier_sessions_and_the_reserve() -> None:
    left = Stopwatch.begun(100.0, 30.0).without(20.0).left_s()
    assert left is not None and 49 < left <= 50
    assert Stopwatch.begun(None, 30.0).without(20.0).left_s() is None


def test_an_outcome_of_lost_hosts_names_them() -> None:
    assert as_lost(Outcome(ending="error"), ["b1", "b2"]).problem == "lost hosts b1, b2"
