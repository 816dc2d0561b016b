"""DP-12 as the observer asserts it: a broker's replicas work by the settings that its image holds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.records import ConfigRecord
from tests.harness.simulation.observer.observed import TOPIC, Cluster


def working() -> Cluster:
    """The replicas of all brokers work by the min ISR of the topic, which is 2."""
    cluster = Cluster()
    for name in ("b1", "b2", "b3"):
        cluster.replica(name).state = SimpleNamespace(min_insync_replicas=2)
    return cluster


def alters(cluster: Cluster, name: str, value: str) -> None:
    cluster.decide(ConfigRecord(resource_type=2, resource_name=TOPIC, name=name, value=value), tell=("b2",))


def test_a_replica_that_goes_on_with_the_min_isr_of_before_breaks_dp_12() -> None:
    cluster = working()
    with pytest.raises(InvariantBroken, match=r"^DP-12: events-0: b2 works by min\.insync\.replicas 2, .* has 3"):
        alters(cluster, "min.insync.replicas", "3")


def test_so_does_a_log_that_goes_on_with_the_retention_of_before() -> None:
    cluster = working()
    with pytest.raises(InvariantBroken, match=r"^DP-12: events-0: b2 works by retention\.bytes -1, .* has 4000"):
        alters(cluster, "retention.bytes", "4000")


def test_a_replica_that_works_by_what_was_altered_is_right() -> None:
    cluster = working()
    cluster.replica("b2").state = SimpleNamespace(min_insync_replicas=3)
    alters(cluster, "min.insync.replicas", "3")
    log = cluster.replica("b2").log
    log.config = replace(log.config, retention_bytes=4_000)
    alters(cluster, "retention.bytes", "4000")


def test_a_setting_that_the_topic_does_not_have_is_the_nodes_own() -> None:
    cluster = working()
    log = cluster.replica("b2").log
    log.config = replace(log.config, segment_bytes=7_000)
    alters(cluster, "flush.ms", str(log.config.flush_ms))


def test_a_replica_without_a_decision_yet_works_by_none() -> None:
    cluster = working()
    cluster.replica("b2").state = None
    alters(cluster, "min.insync.replicas", "3")


def test_a_setting_that_no_replica_works_by_is_none_of_its_business() -> None:
    cluster = working()
    alters(cluster, "unclean.leader.election.enable", "true")


def test_a_broker_that_applies_a_batch_over_several_turns_is_judged_when_it_is_done() -> None:
    cluster = working()
    process = cluster.processes["b2"]
    process.is_busy = True
    alters(cluster, "min.insync.replicas", "3")
    process.is_busy = False
    with pytest.raises(InvariantBroken, match=r"^DP-12: events-0: b2 works by min\.insync\.replicas 2, .* has 3"):
        cluster.observer.event("high_watermark", node=2)
        cluster.observer.look(process)  # type: ignore[arg-type]


def test_a_leader_that_knows_a_newer_isr_takes_the_min_isr_with_the_record_of_that() -> None:
    """Seed 911109 of worlds: the controller's response to its proposal came before the metadata."""
    cluster = working()
    cluster.replica("b2").partition_epoch = 1
    alters(cluster, "min.insync.replicas", "3")
    with pytest.raises(InvariantBroken, match=r"^DP-12"):
        cluster.change(isr=[1, 2], tell=("b2",))
