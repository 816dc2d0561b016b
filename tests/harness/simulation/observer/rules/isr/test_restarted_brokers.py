"""EL-05 as the observer asserts it: how a broker stopped decides what it is when it registers again."""

from __future__ import annotations

from typing import Any

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.records import FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord
from tests.harness.simulation.observer.observed import TOPIC_ID, Cluster, incarnation_id


def eligible(*, kept: bool = True) -> Cluster:
    """The ISR is b1, and b2 and b3 are eligible, because min ISR is 2."""
    cluster = Cluster()
    if kept:
        cluster.decide(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    cluster.change(isr=[1], eligible_leader_replicas=[2, 3] if kept else None)
    return cluster


def ends(cluster: Cluster, how: str, name: str = "b3", *, proof: int = 2) -> None:
    """An incarnation ends, and the next one starts; the first one of b3 had the broker epoch 2."""
    process = cluster.processes[name]
    process.leave_proof(proof)
    process.up, process.how_it_ended = False, how
    cluster.observer.look(process)  # type: ignore[arg-type]
    process.up, process.incarnation = True, process.incarnation + 1
    cluster.observer.event("high_watermark", node=process.node_id)
    cluster.observer.look(process)  # type: ignore[arg-type]


def registers(cluster: Cluster, **change: Any) -> None:
    """The controllers register the running incarnation of b3; the same batch changes the topic-partition."""
    process = cluster.processes["b3"]
    epoch = cluster.processes["b1"].raft.end_offset + bool(change)
    changes = [PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **change)] if change else []
    identity = incarnation_id(3, process.incarnation)
    record = RegisterBrokerRecord(broker_id=3, broker_epoch=epoch, incarnation_id=identity, fenced=True)
    cluster.decide(*changes, record)


LEAVES = {"eligible_leader_replicas": [2], "last_known_elr": [3]}


def test_a_broker_that_died_and_stays_eligible_breaks_el_05() -> None:
    cluster = eligible()
    ends(cluster, "died")
    with pytest.raises(InvariantBroken, match=r"^EL-05: events-0: broker 3 .* after it died, and is still in"):
        registers(cluster)


def test_a_broker_that_died_leaves_with_its_registration() -> None:
    cluster = eligible()
    ends(cluster, "died")
    registers(cluster, **LEAVES)


def test_a_broker_that_stopped_cleanly_keeps_its_place() -> None:
    cluster = eligible()
    ends(cluster, "stopped")
    registers(cluster)


def test_a_broker_that_stopped_cleanly_and_is_taken_for_a_dead_one_breaks_el_05() -> None:
    cluster = eligible()
    ends(cluster, "stopped")
    with pytest.raises(InvariantBroken, match=r"^EL-05: events-0: broker 3 .* after a clean stop, and counts no more"):
        registers(cluster, **LEAVES)


def test_a_clean_stop_proves_nothing_if_the_disk_lost_something_afterwards() -> None:
    cluster = eligible()
    ends(cluster, "stopped")
    cluster.observer.power_lost("b3")
    registers(cluster, **LEAVES)


def test_nor_if_another_incarnation_died_before_it_was_registered() -> None:
    cluster = eligible()
    ends(cluster, "stopped")
    ends(cluster, "died")
    registers(cluster, **LEAVES)


@pytest.mark.parametrize("change", [{}, LEAVES])
def test_a_broker_that_died_while_it_closed_may_have_left_its_proof(change: dict[str, Any]) -> None:
    cluster = eligible()
    ends(cluster, "died while it closed")
    registers(cluster, **change)


def test_without_eligible_leader_replicas_the_last_member_stays_in_the_isr() -> None:
    cluster = Cluster()
    cluster.change(isr=[3], leader=3)
    ends(cluster, "died")
    registers(cluster, leader=-1)


# -- the proof of a clean stop ------------------------------------------------------------------------------------


def stops_with(cluster: Cluster, epoch: int, how: str = "stopped") -> None:
    """The incarnation of b3 ends, and leaves the proof of this broker epoch."""
    cluster.show("b3")
    ends(cluster, how, proof=epoch)


def test_a_clean_stop_proves_the_epoch_of_the_registration() -> None:
    stops_with(Cluster(), 2)
    with pytest.raises(InvariantBroken, match=r"^EL-05: b3 has stopped cleanly, .* broker epoch 1, instead of 2$"):
        stops_with(Cluster(), 1)


def test_one_that_was_not_registered_proves_what_its_disk_proved_before() -> None:
    cluster = Cluster()
    stops_with(cluster, 2)
    stops_with(cluster, 2)
    with pytest.raises(InvariantBroken, match=r"^EL-05: b3 has stopped cleanly, .* broker epoch -1, instead of 2$"):
        stops_with(cluster, -1)


def test_after_a_death_nothing_is_proved_until_it_registers() -> None:
    cluster = Cluster()
    stops_with(cluster, 2, "died")
    stops_with(cluster, -1)
    with pytest.raises(InvariantBroken, match=r"^EL-05: .* broker epoch 2, instead of -1$"):
        stops_with(cluster, 2)


def test_one_that_died_while_it_closed_may_have_left_its_proof_or_not() -> None:
    for left in (-1, 2):
        cluster = Cluster()
        stops_with(cluster, 2, "died while it closed")
        stops_with(cluster, left)
