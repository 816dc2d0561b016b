"""The fault budget: what may lose data never exceeds what Kafka promises to survive (EL-01, FM-01)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from squall.harness.scenario.cluster import await_whole, create_topics
from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.swarm.budget import CRASHING, FLUSH_MESSAGES, LOSSY, FaultBudget
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.swarm import Swarm
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import NativeAdmin

SECOND = 1_000_000


class Cluster:
    """A running cluster of three brokers with one topic-partition on all of them."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        others: Mapping[str, TopicOptions] | None = None,
        *,
        synced: bool = False,
    ) -> None:
        self.world = SimWorld(ClusterShape(config=dict(FAST, **(config or {}))), 1, topics={})
        self.world.start()
        self.create_topic("events")
        self.budget = FaultBudget(self.world, {"events": self.options(synced=synced)} | dict(others or {}))
        self.under_way: list[tuple[str, str]] = []

    @staticmethod
    def options(*, synced: bool = False) -> TopicOptions:
        return TopicOptions(min_insync_replicas=2, config={FLUSH_MESSAGES: 1} if synced else {})

    def create_topic(self, name: str) -> None:
        self.world.kernel.run_until_complete(self._create_topic(name))

    async def _create_topic(self, name: str) -> None:
        controllers = [(place.address, place.port) for place in self.world.places if place.is_controller]
        admin = NativeAdmin(self.world.connector(), self.world.bootstrap(), controllers)
        await create_topics(admin, (Topic(name, 1, 3, (("min.insync.replicas", "2"),)),), 30)
        await await_whole(admin, 3, {name: 1}, 30)
        await admin.close()

    def allows(self, kind: str, host: str) -> bool:
        allowed = self.budget.allows(kind, host, 1.0)
        self.under_way += [(kind, host)] if allowed else []
        return allowed

    def end_faults(self) -> None:
        """All faults that were allowed are over."""
        under_way, self.under_way = self.under_way, []
        for kind, host in under_way:
            self.budget.ended(kind, host)

    def kill(self, host: str, *, down: float = 1.0) -> None:
        self.world.processes[host].crash()
        self.world.kernel.run_for(round(down * SECOND))
        self.world.processes[host].start()

    def recover(self) -> None:
        self.end_faults()
        self.world.kernel.run_for(10 * SECOND)

    def end(self) -> None:
        self.world.switch_off()


FAST = {
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


def test_after_a_possible_data_loss_no_other_crashes_until_all_is_whole() -> None:
    cluster = Cluster()
    assert cluster.allows("power-loss-broker", "b1")
    cluster.kill("b1")
    assert not cluster.allows("wipe-disk", "b2")
    assert not cluster.allows("crash-broker", "b3"), "an unclean restart cannot be told from a loss"
    assert not cluster.allows("disk-error-broker", "b3")
    cluster.recover()
    assert cluster.allows("wipe-disk", "b2")
    cluster.end()


def test_the_same_broker_may_crash_again_before_it_has_recovered() -> None:
    cluster = Cluster()
    assert cluster.allows("power-loss-broker", "b1")
    assert cluster.allows("crash-broker", "b1")
    assert cluster.allows("power-loss-broker", "b1")
    cluster.end()


def test_crashes_that_lose_nothing_are_free_and_stand_in_the_way_of_a_loss() -> None:
    cluster = Cluster()
    for name in ("b1", "b2", "b3"):
        assert cluster.allows("crash-broker", name)
        cluster.kill(name)
    assert not cluster.allows("power-loss-broker", "b1")
    cluster.recover()
    assert cluster.allows("power-loss-broker", "b1")
    cluster.end()


def test_a_broker_that_is_still_to_crash_counts_as_crashed() -> None:
    """A crash may come at any time until its fault is over, however long it takes to begin.

    Found by seed 107 of control-plane and seed 981321 of worlds: there a power loss of a millisecond began two
    milliseconds after it was allowed, and the next one was allowed in between.
    """
    cluster = Cluster()
    assert cluster.allows("crash-with-tail-broker", "b1")
    assert not cluster.allows("power-loss-broker", "b2"), "b1 runs, is registered and in sync, and will crash"
    cluster.world.kernel.run_for(2 * SECOND)
    assert not cluster.allows("power-loss-broker", "b2"), "its time is over, and it has not ended"
    cluster.end_faults()
    assert cluster.allows("power-loss-broker", "b2")
    cluster.end()


def test_a_clean_restart_of_a_broker_that_may_be_registered_counts_as_a_crash() -> None:
    """It cannot prove that it stopped cleanly under an epoch that it never learned (seed 60105 of worlds)."""
    cluster = Cluster()
    cluster.kill("b1", down=0.1)
    assert cluster.allows("restart-broker", "b1"), "it starts, and has no answer to its registration"
    assert not cluster.allows("power-loss-broker", "b2")
    cluster.recover()
    assert cluster.allows("restart-broker", "b1")
    assert cluster.allows("power-loss-broker", "b2")
    cluster.end()


def test_nobody_loses_data_between_another_min_isr_and_full_isrs() -> None:
    """EL-06: it empties the list of eligible leader replicas (found by seed 15 of control-plane)."""
    cluster = Cluster()
    assert cluster.budget.allows_edit(duration=2.0)
    assert not cluster.allows("wipe-disk", "b1"), "it is being changed"
    assert cluster.allows("crash-broker", "b2")
    cluster.kill("b2", down=4.0)
    assert not cluster.allows("wipe-disk", "b1"), "it is changed back, but not all are in sync"
    cluster.recover()
    assert cluster.allows("wipe-disk", "b1")
    cluster.kill("b1")
    assert not cluster.budget.allows_edit(duration=2.0), "a loss is outstanding"
    cluster.end()


def test_a_change_lasts_until_the_operator_has_an_answer() -> None:
    """Seed 909817 of worlds: the request waited for a second longer than the change was to last, and a disk was wiped
    shortly before it arrived."""
    cluster = Cluster()
    assert cluster.budget.allows_edit(duration=0.5)
    cluster.budget.edit_begun()
    cluster.recover()
    assert not cluster.allows("wipe-disk", "b1"), "it is under way"
    cluster.budget.edit_ended(answered=True)
    cluster.world.kernel.run_for(SECOND)
    assert cluster.allows("wipe-disk", "b1")
    cluster.end()


def test_a_change_without_an_answer_may_still_arrive() -> None:
    cluster = Cluster()
    assert cluster.budget.allows_edit(duration=0.5)
    cluster.budget.edit_begun()
    cluster.budget.edit_ended(answered=False)
    cluster.recover()
    assert not cluster.allows("wipe-disk", "b1")
    cluster.recover()
    assert cluster.allows("wipe-disk", "b1")
    cluster.end()


def test_a_change_that_nobody_reverts_is_over_once_all_isrs_are_full() -> None:
    """A stranger's topic keeps its other min ISR, and new topics appear; those of the load are as they were."""
    cluster = Cluster()
    assert cluster.budget.allows_edit(duration=0.0)
    cluster.budget.edit_begun()
    cluster.create_topic("tended")
    cluster.budget.edit_ended(answered=True)
    cluster.world.kernel.run_for(SECOND)
    assert cluster.allows("wipe-disk", "b1")
    cluster.end()


def test_a_broker_that_runs_but_is_not_registered_again_is_not_back() -> None:
    cluster = Cluster()
    assert cluster.allows("power-loss-broker", "b1")
    cluster.kill("b1", down=0.001)
    assert not cluster.allows("power-loss-broker", "b2"), "the committed image still shows the incarnation before"
    cluster.end()


def test_a_broker_that_is_back_but_not_in_sync_again_is_still_outstanding() -> None:
    cluster = Cluster()
    assert cluster.allows("power-loss-broker", "b1")
    cluster.world.processes["b3"].pause()
    cluster.kill("b1")
    cluster.recover()
    assert not cluster.allows("power-loss-broker", "b2"), "b3 sleeps and is out of the ISR"
    cluster.world.processes["b3"].resume()
    cluster.recover()
    assert cluster.allows("power-loss-broker", "b2")
    cluster.end()


def test_without_eligible_leader_replicas_no_broker_may_lose_data() -> None:
    cluster = Cluster({"eligible.leader.replicas.version": "0"})
    assert not any(cluster.allows(kind, "b1") for kind in LOSSY)
    assert all(cluster.allows(kind, "b1") for kind in CRASHING)
    cluster.end()


def test_a_power_loss_is_a_crash_where_every_record_is_synced_before_it_is_acknowledged() -> None:
    cluster = Cluster({"eligible.leader.replicas.version": "0"}, synced=True)
    for name in ("b1", "b2", "b3"):
        assert cluster.allows("power-loss-broker", name)
    assert not cluster.allows("wipe-disk", "b1"), "a wiped disk has lost what was synced as well"
    cluster.end()


def test_one_topic_that_relies_on_replication_makes_a_power_loss_a_loss() -> None:
    cluster = Cluster(others={"others": TopicOptions(min_insync_replicas=2)}, synced=True)
    assert cluster.allows("power-loss-broker", "b1")
    assert not cluster.allows("power-loss-broker", "b2")
    cluster.end()


@pytest.mark.parametrize("other_lost_records", [True, False])
def test_a_broker_that_is_slow_to_stop_is_killed_only_where_it_may_crash(other_lost_records: bool) -> None:
    """A restart that ends in a kill counts for the controller as a loss of records. Seed 904418 of worlds: all three
    members of an ISR with min ISR 3 had then restarted uncleanly, and two of them had lost records."""
    cluster = Cluster()
    loss = SwarmFault(0.0, "power-loss-broker", ("b1",), 30.0, words={"fault": "power-loss", "target": "b1"})
    restart = SwarmFault(0.5, "restart-broker", ("b2",), 0.1)
    pause = SwarmFault(0.5005, "pause-broker", ("b2",), 15.0, words={"fault": "pause", "target": "b2"})
    faults = [loss, restart, pause] if other_lost_records else [restart, pause]
    swarm = Swarm(cluster.world, faults, cluster.budget)
    cluster.world.kernel.run_until_complete(swarm.run())
    assert swarm.postponed == 0
    assert cluster.world.processes["b2"].incarnation == 2
    assert cluster.world.processes["b2"].unclean_restarts == (0 if other_lost_records else 1)
    cluster.end()


def test_failing_disks_of_controllers_are_a_minority_at_any_time() -> None:
    cluster = Cluster()
    assert cluster.allows("disk-error-controller", "c1")
    assert not cluster.allows("disk-error-controller", "c2")
    cluster.world.kernel.run_for(2 * SECOND)
    assert cluster.allows("disk-error-controller", "c2")
    cluster.end()


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 10))])
def test_whatever_is_asked_two_brokers_never_lose_data_between_recoveries(seed: int) -> None:
    rng, cluster = Random(seed), Cluster()
    crashed: dict[str, bool] = {}
    for _ in range(30):
        kind, host = rng.choice((*LOSSY, *CRASHING)), rng.choice(("b1", "b2", "b3"))
        if cluster.allows(kind, host):
            crashed[host] = crashed.get(host, False) or kind in LOSSY
            assert len(crashed) < 2 or not any(crashed.values())
            cluster.kill(host, down=0.01)
        if rng.random() < 0.3:
            cluster.recover()
            crashed.clear()
    cluster.end()
