"""What shows that connections are sliced, swallowed, cut or ended late: judged on exchanges over a connection."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.selector import NoTarget
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.faults.network.stream import TreatStream, treatment_of
from tests.nemesis.conftest import FakeWorld

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
WHOLE = {
    "connected": True,
    "answered": 1,
    "sent": 14,
    "received": 400,
    "pieces": 1,
    "seconds": 0.01,
    "ended": "open",
    "close_seconds": 0.001,
}
SLICED = {**WHOLE, "pieces": 7, "seconds": 0.1}
SWALLOWED = {**WHOLE, "answered": 0, "received": 0, "pieces": 0, "seconds": 0.52, "ended": "closed"}
CUT = {**WHOLE, "answered": 2, "received": 960, "ended": "closed"}
LATE = {**WHOLE, "close_seconds": 1.01}


def parsed(**options: Any) -> Any:
    return ENTRY.validate_python({"target": "b1", "at": 1, **options})


def aimed(world: FakeWorld, **options: Any) -> TreatStream:
    context = FaultContext(
        *("f1", world.hosts, world, world.time.now_ns, world.time.sleep, random.Random(1)),
        ports=dict.fromkeys(world.brokers, 9092),
    )
    fault = TreatStream(parsed(**options), context)
    asyncio.run(fault.aim())
    return fault


def facts(seen: dict[str, Any], treated: int = 1, cut_short: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"exchanges": {"b1": seen}, "treated": {"b1": treated}, "cut_short": list(cut_short), "said": ""}


KINDS = pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"fault": "slice", "size": 64}, SLICED),
        ({"fault": "black-hole", "delay": "500ms"}, SWALLOWED),
        ({"fault": "cut-after", "limit": 1000}, CUT),
        ({"fault": "slow-close", "delay": "500ms"}, LATE),
    ],
    ids=lambda value: value.get("fault", "") if isinstance(value, dict) else None,
)


@KINDS
def test_it_is_proven_by_a_connection_that_suffers_it_and_by_nothing_else(
    world: FakeWorld, options: dict[str, Any], shown: dict[str, Any]
) -> None:
    fault = aimed(world, **options)
    before = facts(WHOLE, treated=0)
    assert fault.check_effect(before, facts(shown)) is None
    assert fault.check_effect(before, facts(WHOLE)) is not None
    assert fault.check_effect(facts(shown, treated=0), facts(shown)) is not None
    assert fault.check_effect(before, facts({**shown, "connected": False})) == "b1: no connection was made"
    assert fault.check_effect(before, facts(shown, treated=0)) == "b1: no connection passed the proxy"


@KINDS
def test_it_is_over_when_a_connection_goes_as_before(
    world: FakeWorld, options: dict[str, Any], shown: dict[str, Any]
) -> None:
    fault = aimed(world, **options)
    before = facts(WHOLE, treated=0)
    assert fault.shows_end(before, facts(WHOLE)) is None
    assert fault.shows_end(before, facts(shown)) is not None
    assert "ended early" in str(fault.shows_end(before, facts(WHOLE, cut_short=("b1",))))


def test_a_connection_that_dies_at_once_is_no_black_hole(world: FakeWorld) -> None:
    fault = aimed(world, fault="black-hole", delay="2s")
    assert fault.check_effect(facts(WHOLE), facts(SWALLOWED)) == "b1: it was closed after 0.52 s, not 2 s"


def test_a_connection_that_ends_behind_its_limit_was_not_cut_there(world: FakeWorld) -> None:
    fault = aimed(world, fault="cut-after", limit=500)
    assert fault.check_effect(facts(WHOLE), facts(CUT)) == "b1: 974 bytes passed it"


def test_each_is_a_treatment_of_the_verb() -> None:
    assert treatment_of(parsed(fault="slice")) == {"treatment": "slice", "size": 64, "gap_s": 0.001}
    assert treatment_of(parsed(fault="cut-after")) == {"treatment": "cut", "limit": 10_000}
    assert treatment_of(parsed(fault="black-hole")) == {"treatment": "black-hole", "delay_s": 1.0}
    assert treatment_of(parsed(fault="slow-close")) == {"treatment": "slow-close", "delay_s": 1.0}


@pytest.mark.parametrize(
    ("options", "said"),
    [({"from": "b1"}, "only b1 itself"), ({"target": "c1"}, "the port of c1 is not known")],
)
def test_without_a_way_to_see_it_there_is_no_target(world: FakeWorld, options: dict[str, Any], said: str) -> None:
    with pytest.raises(NoTarget, match=said):
        aimed(world, fault="slice", **options)
