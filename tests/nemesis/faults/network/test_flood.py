"""What shows that a flood arrives: the rate at which the target's interface receives."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.selector import NoTarget
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.faults.network.flood import FloodHost
from tests.nemesis.conftest import FakeWorld

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


def aimed(world: FakeWorld, **options: Any) -> FloodHost:
    wanted = ENTRY.validate_python({"fault": "flood", "target": "b1", "rate": "10MiB/s", "at": 1, **options})
    context = FaultContext("f1", world.hosts, world, world.time.now_ns, world.time.sleep, random.Random(1))
    fault = FloodHost(wanted, context)  # type: ignore[arg-type]
    asyncio.run(fault.aim())
    return fault


def facts(rate: float, cut_short: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"rate": rate, "cut_short": list(cut_short), "said": ""}


def test_it_is_proven_by_what_comes_in_on_top_of_what_came_before(world: FakeWorld) -> None:
    flood = aimed(world)
    assert flood.check_effect(facts(1e6), facts(9e6)) is None
    assert flood.check_effect(facts(1e6), facts(2e6)) == "+1.0 MB/s arrive at b1, not +5.2 MB/s or more"
    assert flood.check_effect(facts(9e6), facts(9e6)) is not None


def test_it_is_over_when_nothing_more_comes_in(world: FakeWorld) -> None:
    flood = aimed(world)
    assert flood.shows_end(facts(1e6), facts(1e6)) is None
    assert flood.shows_end(facts(1e6), facts(9e6)) == "+8.0 MB/s still arrive at b1"
    assert "ended early" in str(flood.shows_end(facts(1e6), facts(1e6, ("b2",))))


@pytest.mark.parametrize(
    ("options", "said"), [({"target": "all brokers"}, "a flood goes to one host"), ({"from": "b1"}, "only b1")]
)
def test_a_flood_needs_one_target_and_another_source(world: FakeWorld, options: dict[str, Any], said: str) -> None:
    with pytest.raises(NoTarget, match=said):
        aimed(world, **options)
