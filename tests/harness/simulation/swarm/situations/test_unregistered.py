"""Brokers that die, are unregistered, and return after all (KIP-631, RA-07): what is drawn, and what it does."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from squall.harness.scenario.admin import ClusterAdmin
from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.swarm.budget import FaultBudget
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import UNITS, UNREGISTER_BROKER
from squall.harness.simulation.swarm.situations.unregistered import WITH_EMPTY_DISK, draw_unregistered
from squall.harness.simulation.swarm.swarm import Swarm
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nemesis.core.ports import OperationRefused

BROKERS = ("b1", "b2", "b3")
LOAD = 24.0
SECOND = 1_000_000
DRAWN = {seed: draw_unregistered(seed, BROKERS, LOAD) for seed in range(200)}


def test_a_seed_draws_the_same_again_and_many_draw_nothing() -> None:
    assert {seed: draw_unregistered(seed, BROKERS, LOAD) for seed in DRAWN} == DRAWN
    assert 30 < sum(not drawn for drawn in DRAWN.values()) < 100


def test_one_broker_after_the_other_is_back_before_the_load_ends() -> None:
    for drawn in filter(None, DRAWN.values()):
        assert all(one.latest_end < other.at for one, other in pairwise(drawn))
        assert drawn[-1].latest_end < LOAD
        assert {fault.kind for fault in drawn} <= set(UNITS)
    faults = [fault for drawn in DRAWN.values() for fault in drawn]
    assert {fault.hosts[0] for fault in faults} == set(BROKERS)
    assert {fault.amount < WITH_EMPTY_DISK for fault in faults} == {False, True}


class Watched:
    """A cluster of three whose swarm unregisters broker b2, and lets it return three seconds after its death."""

    def __init__(self, amount: float, *, combined: bool = False) -> None:
        self.world = SimWorld(ClusterShape(combined=combined), seed=3, topics={})
        self.world.start()
        self.world.kernel.run_for(5 * SECOND)
        self.b2 = next(place.node_id for place in self.world.places if place.name == "b2")
        fault = SwarmFault(0.5, UNREGISTER_BROKER, ("b2",), 3.0, amount)
        budget = FaultBudget(self.world, {"events": TopicOptions(min_insync_replicas=2)})
        self.swarm = Swarm(self.world, [fault], budget, self.world.operator())
        self.at_half_time: list[bool] = []
        self.world.kernel.at(
            self.world.kernel.now + 2 * SECOND, lambda: self.at_half_time.append(self.incarnation() is None)
        )

    def incarnation(self) -> bytes | None:
        """Broker b2's incarnation, as b1 knows it; None if b1 knows of none."""
        node = self.world.processes["b1"].node
        assert node is not None and node.broker is not None
        found = node.broker.image.brokers.get(self.b2)
        return None if found is None else bytes(found.incarnation_id)

    def run(self) -> None:
        asyncio.set_event_loop(self.world.kernel)
        try:
            self.world.kernel.run_until_complete(self.swarm.run())
        finally:
            asyncio.set_event_loop(None)
        self.world.kernel.run_for(5 * SECOND)


@pytest.mark.parametrize("empty", [True, False])
def test_the_cluster_forgets_the_broker_and_takes_it_back(empty: bool) -> None:
    watched = Watched(amount=0.0 if empty else 1.0)
    first = watched.incarnation()
    watched.run()
    assert watched.at_half_time == [True]
    assert watched.incarnation() not in (None, first)
    assert watched.swarm.effects == {UNREGISTER_BROKER: 1}
    assert watched.world.processes["b2"].disk.keeps_promises is not empty
    watched.world.switch_off()


def test_a_broker_that_is_a_controller_as_well_keeps_its_disk() -> None:
    """Seed 996006 of worlds: a voter with an empty disk is another voter, and the listed one is lost."""
    watched = Watched(amount=0.0, combined=True)
    watched.run()
    watched.world.switch_off()
    assert watched.swarm.effects == {UNREGISTER_BROKER: 1}
    assert watched.world.processes["b2"].disk.keeps_promises


def test_it_counts_as_a_loss_of_records_until_its_answer_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(FaultBudget, "ended", lambda self, kind, host: ended.append(host))
    watched = Watched(amount=1.0)
    watched.run()
    watched.world.switch_off()
    assert ended == ["b2"]

    async def unanswered(host: str) -> None:
        raise OperationRefused("no answer in time")

    watched = Watched(amount=1.0)
    monkeypatch.setattr(ClusterAdmin, "unregister", lambda self, host: unanswered(host))
    watched.run()
    watched.world.switch_off()
    assert watched.swarm.effects == {UNREGISTER_BROKER: 0}
    assert ended == ["b2"]
