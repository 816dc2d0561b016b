"""Restarts without end: what goes on by itself, how it is proven, and that it stops when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.core.evidence import FaultRecord
from squall.nemesis.core.ports import VerbFailed
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.runner import NemesisRunner
from squall.nemesis.schedule import build_schedule
from tests.facts import assert_names
from tests.nemesis.conftest import FakeHost, FakeWorld

Drive = Callable[[Coroutine[Any, Any, Any]], Any]
ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
PORTS = dict.fromkeys(("b1", "b2", "b3", "b4", "b5", "c1", "c2", "c3"), 9092)


def runner_of(world: FakeWorld, **written: Any) -> NemesisRunner:
    entry = ENTRY.validate_python({"at": 1, **{key.rstrip("_"): value for key, value in written.items()}})
    return NemesisRunner(
        build_schedule([entry], 120, seed=7),
        world.hosts,
        world,
        now_ns=world.time.now_ns,
        sleep=world.time.sleep,
        report=lambda event: None,
        ports=PORTS,
    )


def record_of(world: FakeWorld, drive: Drive, **written: Any) -> FaultRecord:
    (record,) = drive(runner_of(world, **written).run())
    return record


def kills_of(host: FakeHost) -> int:
    return sum(verb == "proc.kill" for verb, _ in host.calls)


def test_a_bounce_kills_each_round_until_the_window_is_over(world: FakeWorld, drive: Drive) -> None:
    record = record_of(world, drive, fault="bounce", target="b1, b2", for_="5s", every="1s")
    assert record.proven and record.healed, record.detail
    assert [kills_of(world.hosts[name]) for name in ("b1", "b2", "b3")] == [5, 5, 0]
    assert record.evidence_after["new_processes"] == {"b1": 5, "b2": 5}


def test_a_bounce_that_was_only_one_kill_is_not_proven(world: FakeWorld, drive: Drive) -> None:
    record = record_of(world, drive, fault="bounce", target="b1", for_="900ms", every="1s")
    assert not record.proven
    assert record.detail == "b1: only 1 new processes were seen, 2 prove a bounce"


def test_a_bounce_of_which_nothing_comes_says_what_the_host_said(world: FakeWorld, drive: Drive) -> None:
    world.hosts["b1"].broken["proc.kill"] = VerbFailed("b1", "proc.kill", "failed", "it cannot be killed")
    record = record_of(world, drive, fault="bounce", target="b1", for_="3s")
    assert not record.proven and "it cannot be killed" in record.detail
    assert record.healed


def test_a_bounce_ends_before_hosts_are_healed_when_the_run_is_cut_off(world: FakeWorld, drive: Drive) -> None:
    async def cut_off() -> tuple[int, int]:
        task = asyncio.get_running_loop().create_task(runner_of(world, fault="bounce", target="b1", for_="60s").run())
        await world.time.sleep(4)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        until_then = kills_of(world.hosts["b1"])
        await world.time.sleep(20)
        return until_then, kills_of(world.hosts["b1"])

    until_then, in_the_end = drive(cut_off())
    assert until_then == in_the_end > 1
    assert world.hosts["b1"].open_faults() == []


def test_down_must_be_shorter_than_a_round() -> None:
    with pytest.raises(ValidationError, match=r"`down` \(2 s\) must be shorter than `every` \(1 s\)"):
        ENTRY.validate_python({"fault": "bounce", "target": "b1", "at": 1, "down": "2s"})


class Stopping(FakeHost):
    """A host whose node can be stopped and started, by itself or only by a kill."""

    by_itself = True
    stopped = False

    def _answer(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if verb == "proc.term":
            self.stopped = True
            return {"pid": self.incarnation, "by_itself": self.by_itself}
        if verb == "proc.start":
            self.incarnation += self.stopped
            self.stopped = False
            return {}
        if verb == "proc.status" and self.stopped:
            return {"state": "absent", "pid": None, "started": None}
        return super()._answer(verb, arguments)

    @property
    def restarts(self) -> list[str]:
        return [verb for verb, _ in self.calls if verb in ("proc.term", "proc.start")]


@pytest.fixture
def rolling(world: FakeWorld) -> dict[str, Stopping]:
    hosts = {name: Stopping(world, name, host.address) for name, host in world.hosts.items()}
    world.hosts.update(hosts)
    return hosts


def test_a_rolling_restart_takes_one_after_the_other(
    world: FakeWorld, rolling: dict[str, Stopping], drive: Drive
) -> None:
    record = record_of(world, drive, fault="rolling-restart", target="b1, b2, b3", for_="10s")
    assert record.proven and record.healed, record.detail
    assert [rolling[name].restarts for name in ("b1", "b2", "b3")] == [["proc.term", "proc.start"]] * 3
    assert rolling["b4"].restarts == []
    assert set(record.evidence_during["rolled"]) == {"b1", "b2", "b3"}


def test_a_rolling_restart_that_needs_more_time_is_not_proven(
    world: FakeWorld, rolling: dict[str, Stopping], drive: Drive
) -> None:
    record = record_of(world, drive, fault="rolling-restart", target="b1, b2, b3", for_="1s", between="2s")
    assert not record.proven and record.healed
    assert_names(record.detail, "b2", "restart", "`for`")


def test_a_node_that_had_to_be_killed_was_not_restarted_cleanly(
    world: FakeWorld, rolling: dict[str, Stopping], drive: Drive
) -> None:
    rolling["b2"].by_itself = False
    record = record_of(world, drive, fault="rolling-restart", target="b1, b2", for_="5s", patience="3s")
    assert not record.proven
    assert record.detail.startswith("b2: did not stop cleanly within 3 s and was killed")


def test_a_node_that_was_stopped_and_not_started_is_started_at_the_end(
    world: FakeWorld, rolling: dict[str, Stopping], drive: Drive
) -> None:
    b1 = rolling["b1"]
    b1.broken["proc.start"] = VerbFailed("b1", "proc.start", "failed", "no memory")

    async def later_it_can() -> FaultRecord:
        runner = runner_of(world, fault="rolling-restart", target="b1", for_="3s")
        task = asyncio.get_running_loop().create_task(runner.run())
        await world.time.sleep(3)
        del b1.broken["proc.start"]
        return (await task)[0]

    record = drive(later_it_can())
    assert not record.proven and "no memory" in record.detail
    assert record.healed and not b1.stopped
