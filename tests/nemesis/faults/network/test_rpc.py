"""What proves that messages were held or cut at, what is told of it, and what shows that it ended as it should."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.faults.network.rpc import DisturbRpc
from squall.nemesis.options import RpcCut, RpcHold
from tests.nemesis.conftest import FakeWorld

IDLE = {"open": True, "met": 0, "waiting": 0}
OVER = {"open": False, "met": 2, "waiting": 0}


def context(world: FakeWorld) -> FaultContext:
    hosts: Any = world.hosts
    return FaultContext("1-rpc", hosts, world, world.time.now_ns, world.time.sleep, random.Random(1))


def hold(world: FakeWorld, **options: Any) -> DisturbRpc:
    return DisturbRpc(RpcHold.model_validate({"fault": "rpc-hold", "api": "Fetch", **options}), context(world))


def messages(**hosts: dict[str, object]) -> Facts:
    return {"messages": hosts}


def test_messages_that_were_met_prove_it_wherever_they_were_met(world: FakeWorld) -> None:
    fault = hold(world)
    assert fault.check_effect({}, messages(c1=IDLE, c2={**IDLE, "met": 1})) is None
    assert fault.check_effect({}, messages(c1=IDLE, c2=IDLE)) == "no Fetch request passed the proxy"


def test_it_is_told_how_many_connections_had_to_come_again(world: FakeWorld) -> None:
    met = {**IDLE, "met": 2, "reset": 3}
    assert hold(world).told(messages(c1=met, c2=met)) == (
        "4 Fetch requests held, after 6 connections were reset to come through the proxy"
    )
    simulated = {**IDLE, "met": 1}
    cut = RpcCut.model_validate({"fault": "rpc-cut", "api": "Produce", "direction": "response"})
    assert DisturbRpc(cut, context(world)).told(messages(b1=simulated)) == "1 Produce responses cut at"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (OVER, None),
        ({**OVER, "open": True}, "c1: messages are still held back"),
        ({**OVER, "waiting": 1}, "c1: messages are still held back"),
        ({**OVER, "cut_short": True}, "c1: the proxy died, so the fault ended early"),
    ],
)
def test_it_ended_as_it_should_if_nothing_waits_and_nobody_died(
    world: FakeWorld, after: dict[str, object], said: str | None
) -> None:
    assert hold(world).shows_end({}, messages(c1=after)) == said


def test_the_receivers_are_told_whose_messages_are_meant(
    world: FakeWorld, drive: Callable[[Coroutine[Any, Any, Any]], Any]
) -> None:
    async def answer(verb: str, **arguments: Any) -> dict[str, Any]:
        told.append((verb, arguments))
        return {}

    told: list[tuple[str, dict[str, Any]]] = []
    world.hosts["c2"].call = answer  # type: ignore[method-assign, assignment]

    async def story() -> None:
        fault = hold(world, **{"from": "b1, b3", "to": "active controller", "direction": "response"})
        await fault.aim()
        await fault.inject(9.0)

    drive(story())
    assert told == [
        (
            "rpc.hold",
            {
                "id": "1-rpc",
                "api": "Fetch",
                "api_key": 1,
                "direction": "response",
                "sources": [world.hosts["b1"].address, world.hosts["b3"].address],
                "ttl": 9.0,
            },
        )
    ]


def test_the_receivers_are_told_which_single_message_is_meant(
    world: FakeWorld, drive: Callable[[Coroutine[Any, Any, Any]], Any]
) -> None:
    async def answer(verb: str, **arguments: Any) -> dict[str, Any]:
        told.append(arguments)
        return {}

    told: list[dict[str, Any]] = []
    world.hosts["c2"].call = answer  # type: ignore[method-assign, assignment]

    async def story() -> None:
        options = {"count": 1, "pass_others": True, "outlive": True, "until": {"api": "Produce", "messages": 2}}
        fault = hold(world, **{"from": "b1", "to": "active controller"}, **options)
        await fault.aim()
        await fault.inject(9.0)

    drive(story())
    assert {name: told[0][name] for name in ("count", "pass_others", "outlive", "until")} == {
        "count": 1,
        "pass_others": True,
        "outlive": True,
        "until": {"api_key": 0, "direction": "response", "messages": 2},
    }


def test_what_became_of_a_message_taken_out_is_evidence(world: FakeWorld) -> None:
    during = messages(c1={"met": 1, "reset": 0, "delivered": 1, "late": 1, "answered": 1})
    told = hold(world).told(during)
    assert all(words in told for words in ("1 Fetch requests held", "1 delivered", "1 after their sender had gone"))
