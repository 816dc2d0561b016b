"""A fault of the user's own is proven by the user's check alone: failing, succeeding, failing again."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.core.fault import Fault, FaultContext
from squall.nemesis.entries import AnyFault
from squall.nemesis.registry import build_fault
from tests.facts import naming
from tests.nemesis.faults.cluster.test_operations import Clock, Cluster

OPTIONS: TypeAdapter[Any] = TypeAdapter(AnyFault)
WRITTEN = {"fault": "command", "target": "b1", "inject": "do", "heal": "undo", "check": "look"}


class Host:
    """A host whose check ends with these, one after the other."""

    name, address = "b1", "10.0.0.1"

    def __init__(self, *statuses: int | None, still_open: bool = False) -> None:
        self.statuses = list(statuses)
        self.still_open = still_open
        self.asked: list[tuple[str, dict[str, object]]] = []

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        self.asked.append((verb, arguments))
        if verb != "probe.command":
            return {}
        status = self.statuses.pop(0)
        return {"open": self.still_open, "status": status, "said": "" if status == 0 else "nothing there"}


def fault(host: Host) -> Fault:
    clock = Clock()
    context = FaultContext(
        id="it", hosts={"b1": host}, cluster=Cluster(), now_ns=clock.now_ns, sleep=clock.sleep, rng=random.Random(7)
    )
    return build_fault(OPTIONS.validate_python(WRITTEN), context)


def course(host: Host) -> tuple[str | None, str | None]:
    """Why it does not show that it held, and that it ended."""

    async def happen() -> tuple[str | None, str | None]:
        one = fault(host)
        await one.aim()
        before = await one.observe()
        await one.inject(9.0)
        held = one.check_effect(before, await one.observe())
        await one.heal()
        return held, one.shows_end(before, await one.observe())

    return asyncio.run(happen())


@pytest.mark.parametrize(
    ("statuses", "held", "ended"),
    [
        ((1, 0, 1), None, None),
        ((0, 0, 1), "b1: the check succeeded before as well", None),
        ((1, 1, 1), "b1: the check ended with 1: nothing there", None),
        ((1, None, 1), "b1: the check took too long: nothing there", None),
        ((None, 0, 1), "b1: the check took too long: nothing there before the fault, so it proves nothing", None),
        ((1, 0, 0), None, "b1: the check still succeeds"),
        ((1, 0, None), None, "b1: the check took too long: nothing there"),
    ],
)
def test_the_check_decides(statuses: tuple[int | None, ...], held: str | None, ended: str | None) -> None:
    assert course(Host(*statuses)) == (held, ended)


def test_a_fault_that_is_still_open_has_not_ended_whatever_the_check_says() -> None:
    assert course(Host(1, 0, 1, still_open=True)) == (None, "b1: the fault is still open")


def test_the_host_is_given_the_way_back_together_with_the_way_in() -> None:
    host = Host(1, 0, 1)
    course(host)
    ((_, asked),) = [one for one in host.asked if one[0] == "host.command"]
    assert asked == {"id": "it", "ttl": 9.0, "inject": "do", "heal": "undo", "timeout": 10.0}


@pytest.mark.parametrize("missing", ["inject", "heal", "check"])
def test_a_command_without_a_way_back_or_a_proof_is_an_error(missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        OPTIONS.validate_python({key: value for key, value in WRITTEN.items() if key != missing})


def test_a_command_may_not_take_for_ever() -> None:
    with pytest.raises(ValidationError, match=naming("60")):
        OPTIONS.validate_python({**WRITTEN, "timeout": "2m"})
