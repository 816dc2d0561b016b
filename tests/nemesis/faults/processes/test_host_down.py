"""A host that is down: silent and without its process; either alone is no proof."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from squall.nemesis.core.evidence import FaultRecord
from squall.nemesis.core.ports import EVERYONE
from tests.nemesis.conftest import FakeWorld
from tests.nemesis.faults.processes.test_rounds import record_of

Drive = Callable[[Coroutine[Any, Any, Any]], Any]


def down(world: FakeWorld, drive: Drive) -> FaultRecord:
    return record_of(world, drive, fault="host-down", target="b1", for_="3s")


def test_it_is_silent_first_and_dies_then_so_that_nobody_is_told_of_the_death(world: FakeWorld, drive: Drive) -> None:
    record = down(world, drive)
    assert record.proven and record.healed, record.detail
    assert record.detail == "process gone, and silent to 7 of 7"
    verbs = [(verb, arguments) for verb, arguments in world.hosts["b1"].calls if verb in ("net.drop", "proc.kill")]
    assert [verb for verb, _ in verbs] == ["net.drop", "proc.kill"]
    assert verbs[0][1]["sources"] == [EVERYONE]
    assert verbs[0][1]["id"] != verbs[1][1]["id"], "a host has one open fault of each id"


def test_it_comes_back_connected_and_alive(world: FakeWorld, drive: Drive) -> None:
    down(world, drive)
    assert world.hosts["b1"].open_faults() == []
    assert world.hosts["b1"].incarnation == 2


def test_a_host_that_is_still_heard_is_not_down(world: FakeWorld, drive: Drive) -> None:
    world.hosts["b1"].deaf_to = lambda other: False  # type: ignore[method-assign]
    record = down(world, drive)
    assert not record.proven
    assert "still received from" in record.detail


def test_a_host_whose_process_lives_is_not_down(world: FakeWorld, drive: Drive) -> None:
    b1 = world.hosts["b1"]
    answer = b1._answer

    def without_kill(verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"pid": 1} if verb == "proc.kill" else answer(verb, arguments)

    b1._answer = without_kill  # type: ignore[method-assign]
    record = down(world, drive)
    assert not record.proven
    assert "b1: the process is running" in record.detail
