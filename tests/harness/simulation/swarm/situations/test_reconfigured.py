"""Brokers that restart with other settings, and back again: what is drawn, and that it takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from random import Random

from pydantic import TypeAdapter

from squall.harness.simulation.swarm.drawn.kinds import RECONFIGURE_BROKER, UNITS
from squall.harness.simulation.swarm.situations.reconfigured import draw_reconfigurations
from squall.harness.simulation.swarm.swarm import Swarm
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nemesis.entries import NemesisEntry

BROKERS = ("b1", "b2", "b3")
LOAD = 24.0
SECOND = 1_000_000
SETTING = "replica.fetch.backoff.ms"


def settings(rng: Random) -> Mapping[str, object]:
    return {SETTING: rng.randint(20, 400)}


DRAWN = {seed: draw_reconfigurations(seed, BROKERS, LOAD, settings) for seed in range(200)}


def test_a_seed_draws_the_same_again_and_most_draw_nothing() -> None:
    assert {seed: draw_reconfigurations(seed, BROKERS, LOAD, settings) for seed in DRAWN} == DRAWN
    assert 120 < sum(not drawn for drawn in DRAWN.values()) < 190


def test_one_broker_after_the_other_is_back_to_its_settings_before_the_load_ends() -> None:
    for drawn in filter(None, DRAWN.values()):
        assert all(one.latest_end < other.at for one, other in pairwise(drawn))
        assert drawn[-1].latest_end < LOAD
        assert {fault.kind for fault in drawn} <= set(UNITS)
    faults = [fault for drawn in DRAWN.values() for fault in drawn]
    assert {fault.hosts[0] for fault in faults} == set(BROKERS)
    assert len({str(fault.words["set"]) for fault in faults}) > len(faults) // 2


def test_a_change_is_an_entry_of_a_suite() -> None:
    entry: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
    for fault in (fault for drawn in DRAWN.values() for fault in drawn):
        entry.validate_python({**fault.written(), "at": fault.at, "for": fault.duration})


def test_the_broker_runs_by_the_other_settings_and_then_by_its_own() -> None:
    world = SimWorld(ClusterShape(), seed=3, topics={})
    world.start()
    world.kernel.run_for(5 * SECOND)
    fault = next(one for drawn in DRAWN.values() for one in drawn if one.hosts == ("b2",) and one.duration > 5)
    seen: list[int] = []

    def look() -> None:
        node = world.processes["b2"].node
        assert node is not None
        seen.append(node.config.replica_fetch_backoff_ms)

    look()
    world.kernel.at(world.kernel.now + round((fault.at + fault.duration * 0.9) * SECOND), look)
    swarm = Swarm(world, [fault], operator=world.operator())
    asyncio.set_event_loop(world.kernel)
    try:
        world.kernel.run_until_complete(swarm.run())
    finally:
        asyncio.set_event_loop(None)
    look()
    given = fault.words["set"]
    assert isinstance(given, dict)
    assert seen == [seen[0], given[SETTING], seen[0]] and seen[0] != given[SETTING]
    assert swarm.effects == {RECONFIGURE_BROKER: 1}
    world.switch_off()
