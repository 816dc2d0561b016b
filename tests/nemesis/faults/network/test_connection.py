"""What shows that connections are reset, or that a storm of them is there; judged on looks at the target's tables."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.selector import NoTarget
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.faults.network.connection import ResetConnections, StormOfConnections
from tests.facts import assert_names
from tests.nemesis.conftest import FakeWorld

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


def context(world: FakeWorld) -> FaultContext:
    ports = dict.fromkeys(world.brokers, 9092) | dict.fromkeys(world.controllers, 9093)
    return FaultContext(*("f1", world.hosts, world, world.time.now_ns, world.time.sleep, random.Random(1)), ports=ports)


def aimed(world: FakeWorld, kind: type[Any], **options: Any) -> Any:
    fault = kind(ENTRY.validate_python({"at": 1, **options}), context(world))
    asyncio.run(fault.aim())
    return fault


@pytest.fixture
def reset(world: FakeWorld) -> ResetConnections:
    fault: ResetConnections = aimed(world, ResetConnections, fault="reset", target="b1")
    return fault


@pytest.fixture
def storm(world: FakeWorld) -> StormOfConnections:
    wanted = {"fault": "connection-storm", "target": "b1", "from": "b2, b3", "connections": 100}
    fault: StormOfConnections = aimed(world, StormOfConnections, **wanted)
    return fault


def tables(monkeypatch: pytest.MonkeyPatch, world: FakeWorld, *looks: list[tuple[str, int]]) -> None:
    """b1's connections, by the host at the other end and the inode, at one look after the other."""
    told = iter(looks)

    async def answer(verb: str, **_: Any) -> dict[str, Any]:
        if verb == "probe.errand":
            return {"open": True, "cut_short": False, "effect": {}}
        return {"connections": [{"peer": world.hosts[name].address, "inode": inode} for name, inode in next(told)]}

    for name in ("b1", "b2", "b3"):
        monkeypatch.setattr(world.hosts[name], "call", answer)


def test_connections_waiting_for_accept_are_alike_and_so_do_not_last(
    world: FakeWorld, reset: ResetConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(monkeypatch, world, [("b2", 7), ("b2", 0), ("b3", 0)], [("b2", 7), ("b3", 0), ("b3", 8)])
    seen = asyncio.run(world.time.drive(reset.observe()))
    assert seen["lasting"] == {"b1": ["7"]} and seen["connections"] == {"b1": ["7", "8"]}


def test_connections_that_wait_to_be_accepted_count_in_a_storm(
    world: FakeWorld, storm: StormOfConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(monkeypatch, world, [("b2", 7)] + [("b2", 0)] * 49 + [("b3", 0)] * 50)
    seen = asyncio.run(world.time.drive(storm.observe()))
    assert seen["from"] == {"b2": 50, "b3": 50}


def look(there: list[str], lasting: list[str], cut_short: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"connections": {"b1": there}, "lasting": {"b1": lasting}, "cut_short": list(cut_short), "said": ""}


def test_a_reset_is_proven_by_all_lasting_connections_being_gone(reset: ResetConnections) -> None:
    before = look(["1", "2", "3"], ["1", "2"])
    assert reset.check_effect(before, look(["4", "5"], [])) is None
    assert reset.check_effect(before, look(["2", "4"], [])) == "b1: 1 of 2 connections are still the same"
    assert_names(reset.check_effect(look(["1"], []), look(["4"], [])), "b1", "connection", "before the fault")


def test_a_reset_is_over_when_connections_last_again(reset: ResetConnections) -> None:
    before = look(["1", "2"], ["1", "2"])
    assert reset.shows_end(before, look(["7", "8"], ["7"])) is None
    assert reset.shows_end(before, look(["7", "8"], [])) == "b1: no connection lasts yet"
    assert "ended early" in str(reset.shows_end(before, look(["7"], ["7"], ("b1",))))


def counted(b2: int, b3: int, cut_short: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"from": {"b2": b2, "b3": b3}, "cut_short": list(cut_short), "said": ""}


def test_a_storm_is_proven_by_connections_from_every_source(storm: StormOfConnections) -> None:
    assert storm.check_effect(counted(2, 2), counted(52, 50)) is None
    assert storm.check_effect(counted(2, 2), counted(52, 2)) == "b1 has 0 more connections from b3, not 50"
    assert storm.check_effect(counted(52, 52), counted(52, 52)) is not None


def test_a_storm_is_over_when_its_connections_are_gone(storm: StormOfConnections) -> None:
    assert storm.shows_end(counted(2, 2), counted(3, 2)) is None
    assert storm.shows_end(counted(2, 2), counted(52, 2)) == "b1 still has 52 connections from b2"
    assert "ended early" in str(storm.shows_end(counted(2, 2), counted(2, 2, ("b3",))))


def test_a_storm_comes_from_another_node_by_lot(world: FakeWorld) -> None:
    storm = aimed(world, StormOfConnections, fault="connection-storm", target="b1")
    assert len(storm._sources) == 1 and storm._sources[0] != "b1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "all brokers"}, "a storm goes to one node"),
        ({"target": "b1", "from": "b1"}, "only b1"),
    ],
)
def test_a_storm_that_has_no_way_has_no_target(world: FakeWorld, options: dict[str, Any], said: str) -> None:
    with pytest.raises(NoTarget, match=said):
        aimed(world, StormOfConnections, fault="connection-storm", **options)
