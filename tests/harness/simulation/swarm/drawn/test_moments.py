"""A fault aimed at a moment strikes in the turn that traced it, before that turn's messages leave."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.moments import Moment, Moments
from squall.harness.simulation.swarm.swarm import Swarm
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.ports import NullTrace


class Seen:
    """A trace that keeps the names of events."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def event(self, name: str, **fields: object) -> None:
        self.names.append(name)


def test_the_occurrence_on_one_of_the_hosts_counts_and_only_once() -> None:
    moments, reached = Moments(), []
    first, second, other = (moments.beside(host, NullTrace()) for host in ("b1", "b2", "b3"))
    moments.watch(Moment("epoch", 3, 1.0), ("b1", "b2"), reached.append)
    for trace in (first, other, first, other):
        trace.event("epoch", log="events-0")
    second.event("truncate", end=4)
    assert reached == []
    for _ in range(4):
        second.event("epoch", log="events-0")
    assert reached == ["b2"]


def test_every_event_is_passed_on_also_the_one_that_strikes() -> None:
    moments, seen = Moments(), Seen()
    trace = moments.beside("b1", seen)
    moments.watch(Moment("epoch", 1, 1.0), ("b1",), lambda host: seen.names.append("struck"))
    trace.event("epoch", log="events-0")
    trace.event("append", first=1)
    assert seen.names == ["epoch", "struck", "append"]


def test_a_forgotten_watch_is_never_reached() -> None:
    moments, reached = Moments(), []
    watch = moments.watch(Moment("vote", 1, 1.0), ("c1",), reached.append)
    moments.forget(watch)
    moments.beside("c1", NullTrace()).event("vote", node=1)
    assert reached == []


def struck_world(
    kind: str, event: str, amount: float, within: float = 5.0, words: Mapping[str, object] = MappingProxyType({})
) -> tuple[SimWorld, Swarm, list[str]]:
    """Three voters that start; a fault waits for the first `event` of any of them. Returns what they traced as well."""
    moments, seen = Moments(), Seen()
    world = SimWorld(ClusterShape(controllers=3, brokers=1), 1, topics={}, trace=seen, traced=moments.beside)
    fault = SwarmFault(0.0, kind, ("c1", "c2", "c3"), 1.0, amount, words, Moment(event, 1, within))
    swarm = Swarm(world, [fault], moments=moments)

    async def course() -> Any:
        world.start()
        await swarm.run()

    world.kernel.run_until_complete(course())
    return world, swarm, seen.names


def test_a_crash_at_a_vote_leaves_the_vote_unanswered_and_the_voter_down_for_its_time() -> None:
    world, swarm, seen = struck_world("crash-at-moment", "vote", amount=0.99)
    assert swarm.effects == {"crash-at-moment": 1}
    assert sum(process.crashes for process in world.processes.values()) == 1
    assert all(process.running for process in world.processes.values()), "it is started again"
    assert "vote" in seen


def test_a_crash_may_fall_between_the_disk_calls_of_the_turn() -> None:
    world, _, _ = struck_world("crash-at-moment", "append", amount=0.0)
    assert sum(process.crashes_in_calls for process in world.processes.values()) == 1


def test_a_power_loss_at_a_moment_takes_what_is_not_durable() -> None:
    world, swarm, _ = struck_world("power-loss-at-moment", "vote", amount=0.99)
    assert swarm.effects == {"power-loss-at-moment": 1}
    assert sum(process.crashes for process in world.processes.values()) == 1


def test_what_waited_for_a_moment_that_did_not_come_has_no_effect() -> None:
    world, swarm, _ = struck_world("crash-at-moment", "recovery_cut", amount=0.5, within=0.5)
    assert swarm.effects == {"crash-at-moment": 0}
    assert not any(process.crashes for process in world.processes.values())


def test_a_pause_at_a_moment_stops_the_host_that_traced_it() -> None:
    world, swarm, _ = struck_world("pause-at-moment", "vote", amount=0.5)
    assert swarm.effects == {"pause-at-moment": 1}
    assert not any(process.paused for process in world.processes.values()), "it goes on"


def test_what_a_fault_says_in_words_strikes_at_the_moment() -> None:
    words = {"fault": "slow-link", "target": "c1", "to": "c2, c3", "direction": "in", "latency": 0.01, "jitter": 0.0}
    world, swarm, seen = struck_world("slow-link", "vote", amount=0.5, words=words)
    assert "vote" in seen and swarm.effects["slow-link"] > 0, "messages that passed the slow link"
    assert swarm.counts == {"slow-link": 1} and all(process.running for process in world.processes.values())
