"""What shows that a host's interface is down: nobody reaches it, and what it saw itself, told afterwards."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.selector import NoTarget
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.faults.network.interface import SLACK_SECONDS, TakeInterfaceDown
from tests.facts import assert_names
from tests.nemesis.conftest import FakeWorld

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
DOWN = {"interface": "eth0", "samples": 30, "down": 30, "bytes": 0}


class Asked:
    """A host that keeps what it is asked, and answers what a sound host would."""

    def __init__(self, name: str, address: str, log: list[tuple[str, str, dict[str, Any]]]) -> None:
        self.name = name
        self.address = address
        self._log = log

    async def call(self, verb: str, **arguments: Any) -> dict[str, Any]:
        self._log.append((self.name, verb, arguments))
        if verb == "probe.errand":
            return {"open": False, "cut_short": False, "effect": {}}
        if verb == "probe.port":
            return dict.fromkeys(arguments["targets"], "open")
        return dict.fromkeys(arguments.get("targets", {}), True)


async def no_time(seconds: float) -> None:
    """Nothing happens meanwhile."""


def aimed(
    world: FakeWorld, target: str = "b1", length_s: float = 3.0
) -> tuple[TakeInterfaceDown, list[tuple[str, str, dict[str, Any]]]]:
    log: list[tuple[str, str, dict[str, Any]]] = []
    hosts = {name: Asked(name, host.address, log) for name, host in world.hosts.items()}
    context = FaultContext(
        *("f1", hosts, world, world.time.now_ns, no_time, random.Random(1)),
        ports=dict.fromkeys(world.brokers, 9092),
        length_s=length_s,
    )
    fault = TakeInterfaceDown(
        ENTRY.validate_python({"fault": "interface-down", "target": target, "at": 1}),  # type: ignore[arg-type]
        context,
    )
    asyncio.run(fault.aim())
    return fault, log


def facts(reached: bool, port: str = "", **account: Any) -> dict[str, Any]:
    told = {"open": False, "cut_short": False, "effect": DOWN, **account}
    ports = {"b1": port or ("open" if reached else "silent")}
    return {"reached": {"b1": ["b2"] if reached else []}, "ports": ports, "accounts": {"b1": told}, "said": ""}


def test_it_is_proven_by_nobody_reaching_the_host(world: FakeWorld) -> None:
    fault, _ = aimed(world)
    assert fault.check_effect(facts(True), facts(False)) is None
    assert fault.check_effect(facts(True), facts(True)) == "b1: b2 still reached it"
    assert_names(fault.check_effect(facts(False), facts(False)), "b1", "node", "before the fault")
    assert fault.check_effect(facts(True), facts(False, port="refused")) == "b1: its port is refused"


@pytest.mark.parametrize(
    ("account", "said"),
    [
        ({"effect": {**DOWN, "down": 29}}, "the host saw its interface down 29 of 30 times"),
        ({"effect": {}}, "the host saw its interface down 0 of 0 times"),
        ({"effect": {**DOWN, "bytes": 60}}, "60 bytes passed the interface"),
        ({"cut_short": True}, "ended early"),
        ({"open": True}, "still open"),
    ],
)
def test_its_end_needs_the_hosts_own_account(world: FakeWorld, account: dict[str, Any], said: str) -> None:
    fault, _ = aimed(world)
    assert fault.shows_end(facts(True), facts(True)) is None
    assert said in str(fault.shows_end(facts(True), facts(True, **account)))
    assert fault.shows_end(facts(True), facts(False)) == "b1: no node reaches it yet"


def test_nobody_asks_the_host_while_its_interface_is_down(world: FakeWorld) -> None:
    fault, log = aimed(world)
    asyncio.run(fault.inject(ttl=8))
    log.clear()
    asyncio.run(fault.observe())
    assert log and all(name != "b1" for name, _, _ in log)


def test_the_host_ends_it_by_itself_when_the_fault_is_over(world: FakeWorld) -> None:
    fault, log = aimed(world)
    asyncio.run(fault.inject(ttl=8))
    ((name, verb, arguments),) = log
    assert (name, verb, arguments["ttl"]) == ("b1", "net.interface_down", 3.0 + SLACK_SECONDS)


def test_somebody_must_be_left_to_see_it(world: FakeWorld) -> None:
    with pytest.raises(NoTarget, match="no other node is left"):
        aimed(world, target="all nodes")
