"""One kind of connections cut: which ways are meant, and what shows that these and no others are closed."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.selector import NoTarget
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.faults.network.port_cut import CutConnections
from tests.nemesis.conftest import FakeWorld

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


async def knock(address: str, port: int) -> str:
    return "open"


def fault(world: FakeWorld, *, clients: bool = True, **options: Any) -> CutConnections:
    parsed = ENTRY.validate_python({"fault": "cut-port", "at": 1, **options})
    ports = dict.fromkeys(world.brokers, 9092) | dict.fromkeys(world.controllers, 9093)
    context = FaultContext(
        *("f1", world.hosts, world, world.time.now_ns, world.time.sleep, random.Random(1)),
        ports=ports,
        knock=knock if clients else None,
    )
    return CutConnections(parsed, context)  # type: ignore[arg-type]


def aimed(world: FakeWorld, **options: Any) -> CutConnections:
    cut = fault(world, **options)
    asyncio.run(cut.aim())
    return cut


def facts(cut: str = "open", others: str = "open") -> dict[str, Any]:
    return {"cut": {"b2 to b1:9092": cut}, "others": {"datagrams b1 to b2": others}}


def test_it_is_proven_by_connections_that_get_no_answer(world: FakeWorld) -> None:
    cut = aimed(world, target="b1", connections="replication")
    assert cut.check_effect(facts(), facts(cut="silent")) is None
    assert cut.check_effect(facts(), facts()) == "b2 to b1:9092 is still open"
    assert cut.check_effect(facts(cut="refused"), facts(cut="silent")) is not None
    assert cut.shows_end(facts(), facts()) is None
    assert cut.shows_end(facts(), facts(cut="silent")) == "b2 to b1:9092 is silent"


def test_a_dead_node_is_not_taken_for_a_cut(world: FakeWorld) -> None:
    cut = aimed(world, target="b1", connections="replication")
    assert cut.check_effect(facts(), facts(cut="refused")) == "b2 to b1:9092 is still refused"


def test_a_cut_of_more_than_was_asked_for_is_not_proven(world: FakeWorld) -> None:
    cut = aimed(world, target="b1", connections="replication")
    assert "more was cut" in str(cut.check_effect(facts(), facts(cut="silent", others="silent")))


def peers_told(world: FakeWorld, host: str, **options: Any) -> dict[str, Any]:
    """What the host is asked to drop."""
    cut = aimed(world, target=host, **options)
    told: dict[str, Any] = {}

    async def call(verb: str, **arguments: Any) -> dict[str, Any]:
        told.update(arguments, verb=verb)
        return {}

    world.hosts[host].call = call  # type: ignore[method-assign]
    asyncio.run(cut.inject(ttl=5))
    return told


def addresses(world: FakeWorld, *names: str) -> list[str]:
    return sorted(world.hosts[name].address for name in names)


def test_replication_is_with_other_brokers(world: FakeWorld) -> None:
    told = peers_told(world, "b1", connections="replication", direction="deaf")
    assert (told["verb"], told["port"], told["direction"]) == ("net.drop_port", 9092, "in")
    assert told["peers"] == addresses(world, "b2", "b3", "b4", "b5")


def test_a_broker_talks_with_controllers_at_their_port(world: FakeWorld) -> None:
    told = peers_told(world, "b1", connections="controllers")
    assert told["port"] == 9093 and told["peers"] == addresses(world, "c1", "c2", "c3")


def test_clients_are_all_that_are_no_nodes(world: FakeWorld) -> None:
    told = peers_told(world, "b1", connections="clients", direction="mute")
    assert (told["port"], told["peers"], told["direction"]) == (9092, ["*"], "out")
    assert told["but"] == addresses(world, *world.hosts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "c1", "connections": "replication"}, "c1 has no connections with replication"),
        ({"target": "b1", "connections": "clients", "clients": False}, "the clients cannot be observed"),
    ],
)
def test_what_cannot_be_cut_or_seen_has_no_target(world: FakeWorld, options: dict[str, Any], said: str) -> None:
    with pytest.raises(NoTarget, match=said):
        aimed(world, **options)
