"""A client that asks brokers for topics that do not exist, in some drawn worlds (`auto.create.topics.enable`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from squall.harness.conformance.client import NotConforming
from squall.harness.simulation.run.closing_check import PATIENCE
from squall.harness.simulation.run.drawn_world import AUTO_CREATE, draw_world
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.strangers.asked_topics import AT_MOST, AskedTopics
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.broker.requests.forwarding import Forwarding
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.schema import Message

SUITES = Path(__file__).resolve().parents[4] / "suites"
CREATES = {AUTO_CREATE: "true", "default.replication.factor": "3", "request.timeout.ms": "2000"}
SECOND = 1_000_000


def asked(seed: int = 1, *, load: int = 20, down: Sequence[str] = ()) -> list[str]:
    """Ask during a load, in whose first half these nodes are down, and check what came of it. Returns the names."""
    world = SimWorld(ClusterShape(config=CREATES), seed, topics={}, trace=NullTrace())
    world.start()
    world.kernel.run_for(3 * SECOND)
    client = AskedTopics(world, PATIENCE)
    for name in down:
        world.processes[name].crash()
    asking = world.kernel.create_task(client.run())
    world.kernel.run_for(load * SECOND // 2)
    for name in down:
        world.processes[name].start()
    world.kernel.run_for(load * SECOND // 2)
    asking.cancel()
    try:
        world.kernel.run_until_complete(client.check())
    finally:
        world.switch_off()
    return [name for _, name in client.asked]


def test_topics_come_into_being() -> None:
    names = asked()
    assert len(set(names)) == len(names) and 3 < len(names) <= AT_MOST


def test_a_wish_that_was_lost_is_made_again() -> None:
    assert asked(down=["c1", "c2", "c3"])


def test_a_broker_that_waits_for_ever_for_a_lost_wish_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Forwarding.create_missing

    def forgets(self: Forwarding, names: list[str]) -> None:
        before = len(self.requests)
        create(self, names)
        for index in range(before, len(self.requests)):
            request = self.requests[index]
            self.requests[index] = replace(request, complete=unless_lost(request.complete))

    monkeypatch.setattr(Forwarding, "create_missing", forgets)
    with pytest.raises(NotConforming, match=r"the error of squall-asked-[0-9], a topic that it was asked for"):
        asked(down=["c1", "c2", "c3"])


def unless_lost(complete: Callable[[int, Message | None], None]) -> Callable[[int, Message | None], None]:
    def completes(now: int, response: Message | None) -> None:
        if response is not None:
            complete(now, response)

    return completes


def test_a_share_of_the_worlds_creates_topics() -> None:
    scenario, _ = find_scenario("worlds", SUITES)
    creating = [seed for seed in range(200) if draw_world(scenario, seed).cluster.config.get(AUTO_CREATE)]
    assert 10 < len(creating) < 50
