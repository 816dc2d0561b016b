"""What shows that a link spoils packets, and what does not: judged on counts of datagrams."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.core.fault import FaultContext
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.faults.network.spoil import SpoilLink
from tests.nemesis.conftest import FakeWorld

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
CLEAN = {"thrown": 300, "arrived": 300, "twice": 0, "damaged": 0, "overtaken": 0, "lost": 0, "bursts": 0, "longest": 0}


def fault(world: FakeWorld, **options: Any) -> SpoilLink:
    parsed = ENTRY.validate_python({"fault": "bad-link", "target": "b1", "at": 1, **options})
    context = FaultContext("f1", world.hosts, world, world.time.now_ns, world.time.sleep, random.Random(1))
    return SpoilLink(parsed, context)  # type: ignore[arg-type]


def facts(**counts: int) -> dict[str, Any]:
    return {"trains": {"b1 to b2": {**CLEAN, **counts}, "b2 to b1": CLEAN}}


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"duplicate": 0.2}, {"twice": 80}),
        ({"corrupt": 0.2}, {"damaged": 80}),
        ({"reorder": 0.2}, {"overtaken": 80}),
        ({"burst": {"enter": 0.05, "leave": 0.25}}, {"lost": 80, "bursts": 20, "longest": 9}),
    ],
    ids=["duplicate", "corrupt", "reorder", "burst"],
)
def test_it_is_proven_by_what_datagrams_suffered_and_by_nothing_else(
    world: FakeWorld, options: dict[str, Any], shown: dict[str, int]
) -> None:
    spoilt = fault(world, **options)
    assert spoilt.check_effect(facts(), facts(**shown)) is None
    assert spoilt.check_effect(facts(), facts()) is not None
    assert spoilt.check_effect(facts(**shown), facts(**shown)) is not None
    assert spoilt.check_effect(facts(), {"trains": {}}) == "no datagram arrived"
    assert spoilt.shows_end(facts(), facts()) is None
    assert spoilt.shows_end(facts(), facts(**shown)) is not None


def test_all_that_was_asked_for_must_show(world: FakeWorld) -> None:
    spoilt = fault(world, duplicate=0.2, corrupt=0.2)
    assert spoilt.check_effect(facts(), facts(twice=80)) == "0.0% of datagrams are damaged, not 8.0% or more"


def test_losses_one_by_one_are_no_bursts(world: FakeWorld) -> None:
    spoilt = fault(world, burst={"enter": 0.05, "leave": 0.25})
    assert spoilt.check_effect(facts(), facts(lost=80, bursts=75, longest=2)) == (
        "1.1 datagrams are lost at a time, not 1.6 or more"
    )


def test_a_link_that_stays_as_it_is_is_refused() -> None:
    with pytest.raises(ValidationError, match="changes nothing"):
        ENTRY.validate_python({"fault": "bad-link", "target": "b1", "at": 1})
