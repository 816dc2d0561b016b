"""What the observer asserts of every batch of metadata records, and the legal batches that look like a breach."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.batch_laws import UNCLEAN_ELECTIONS
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.records import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    RECOVERING,
    TOPIC_RESOURCE,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    UnregisterBrokerRecord,
)
from squall.nodes.metadata.topic_configs import MIN_ISR
from squall.nodes.protocol.schema import Message
from tests.harness.simulation.observer.metadata_log import TOPIC_ID, Log, breaks


def log_with(*, min_isr: int = 2, eligible_leaders: bool = True) -> Log:
    log = Log()
    log.commit(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=int(eligible_leaders)), cluster(min_isr))
    return log


def cluster(min_isr: int) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=CLUSTER_DEFAULT, name=MIN_ISR, value=str(min_isr))


def topic(min_isr: int) -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="events", name=MIN_ISR, value=str(min_isr))


def unclean(value: str = "true") -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="events", name=UNCLEAN_ELECTIONS, value=value)


def unregistered(broker: int) -> UnregisterBrokerRecord:
    return UnregisterBrokerRecord(broker_id=broker, broker_epoch=broker - 1)


def fenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=broker - 1, fenced=1)


def unfenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=broker - 1, fenced=-1)


def change(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields)  # type: ignore[arg-type]


# -- EL-04 --------------------------------------------------------------------------------------------------------


def test_a_leader_that_is_active_and_in_sync_stays() -> None:
    log = Log()
    log.commit(fenced(1), change(isr=[2, 3], leader=2))
    with breaks("EL-04", "3 takes the place of leader 2"):
        log.change(leader=3)


def test_the_first_replica_may_take_the_leaders_place() -> None:
    log = Log()
    log.commit(fenced(1), change(isr=[2, 3], leader=2))
    log.commit(unfenced(1))
    log.change(isr=[1, 2, 3])
    log.change(leader=1)


def test_the_first_active_member_in_assignment_order_is_elected() -> None:
    with breaks("EL-04", "3 is elected, although 2 comes before it"):
        Log().commit(fenced(1), change(isr=[2, 3], leader=3))
    Log().commit(fenced(1), change(isr=[3, 2], leader=2))
    log = Log()
    log.change(isr=[1, 3])
    log.commit(fenced(1), change(isr=[3], leader=3))


def test_a_member_that_is_about_to_stop_is_passed_over() -> None:
    log = Log()
    log.commit(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1, in_controlled_shutdown=1))
    log.commit(fenced(1), change(isr=[2, 3], leader=3))


def test_a_topic_partition_has_a_leader_while_a_member_is_active() -> None:
    with breaks("EL-04", "no leader, although [2, 3] are active"):
        Log().commit(fenced(1), change(isr=[2, 3], leader=-1))
    log = Log()
    log.change(isr=[1])
    log.commit(fenced(1), change(leader=-1))


def test_eligible_replicas_lead_only_where_the_isr_is_empty() -> None:
    log = log_with(min_isr=2)
    log.change(isr=[1, 2])
    log.commit(fenced(2), change(isr=[1], eligible_leader_replicas=[2]))
    gone = change(isr=[], leader=-1, eligible_leader_replicas=[1, 2], last_known_elr=[1])
    log.commit(fenced(1), gone)
    with breaks("EL-04", "no leader, although [2] are active"):
        log.commit(unfenced(2), change())


def test_no_election_may_lose_records_while_a_member_is_active() -> None:
    log = Log()
    log.change(isr=[1, 2])
    with breaks("EL-04", "3 is elected and may lack records, although [2]"):
        log.commit(fenced(1), change(isr=[3], leader=3, leader_recovery_state=RECOVERING))
    log = Log()
    log.commit(unclean())
    log.change(isr=[1])
    log.commit(fenced(1), change(isr=[3], leader=3, leader_recovery_state=RECOVERING))


def test_an_election_that_may_lose_records_waits_for_who_has_everything_unless_it_may_be_unclean() -> None:
    def nobody_is_there(*records: Message) -> Log:
        log = log_with(min_isr=2)
        log.commit(*records)
        log.change(isr=[1, 2])
        log.commit(fenced(2), change(isr=[1], eligible_leader_replicas=[2]))
        log.commit(fenced(1), change(isr=[], leader=-1, eligible_leader_replicas=[1, 2], last_known_elr=[1]))
        log.change(eligible_leader_replicas=[2])
        return log

    elected = change(
        isr=[1], leader=1, eligible_leader_replicas=[], last_known_elr=[], leader_recovery_state=RECOVERING
    )
    with breaks("EL-04", r"1 is elected and may lack records, although [2] have everything"):
        nobody_is_there().commit(unfenced(1), elected)
    with breaks("EL-04", r"although [2] have everything"):
        nobody_is_there(unclean("false")).commit(unfenced(1), elected)
    nobody_is_there(unclean()).commit(unfenced(1), elected)
    log = nobody_is_there()
    log.commit(unregistered(2), change(eligible_leader_replicas=[], last_known_elr=[1, 2]))
    elected.eligible_leader_replicas = None
    log.commit(unfenced(1), elected)


def test_a_broker_that_is_lost_in_the_batch_has_not_everything() -> None:
    log = log_with(min_isr=1)
    log.change(isr=[1])
    log.commit(fenced(1), change(isr=[], leader=-1, eligible_leader_replicas=[1]))
    log.commit(
        unregistered(1),
        change(isr=[2], leader=2, eligible_leader_replicas=[], leader_recovery_state=RECOVERING),
    )


def test_a_leader_that_still_recovers_may_be_elected_again() -> None:
    """Seed 970230 of worlds: it died meanwhile, and is the only one in sync."""
    log = Log()
    log.commit(unclean())
    log.change(isr=[1])
    log.commit(fenced(1), change(isr=[3], leader=3, leader_recovery_state=RECOVERING))
    log.commit(fenced(3), change(leader=-1))
    log.commit(unfenced(3), change(leader=3))


# -- EL-02, EL-03 -------------------------------------------------------------------------------------------------


def test_with_enough_in_sync_none_is_eligible() -> None:
    log = log_with(min_isr=2)
    log.change(isr=[1, 2])
    with breaks("EL-02", "[3] are eligible"):
        log.change(isr=[1, 2, 3])
        log.change(isr=[1, 2], eligible_leader_replicas=[3])
    log = log_with(min_isr=3)
    log.change(isr=[1, 2], eligible_leader_replicas=[3])


@pytest.mark.parametrize("record", [topic(1), cluster(1)], ids=["of the topic", "of the cluster"])
def test_another_min_isr_raises_the_partition_epochs_in_its_batch(record: ConfigRecord) -> None:
    with breaks("EL-03", "from 2 to 1, and leaves the partition epochs of [0]"):
        log_with(min_isr=2).commit(record)
    log_with(min_isr=2).commit(record, change())
    log_with(min_isr=2).commit(change(), record)


def test_a_min_isr_that_says_what_held_before_raises_nothing() -> None:
    log = log_with(min_isr=2)
    log.commit(topic(2))
    log.commit(cluster(3))


def test_without_eligible_leaders_another_min_isr_raises_nothing() -> None:
    log_with(min_isr=2, eligible_leaders=False).commit(topic(1))


# -- RA-08 --------------------------------------------------------------------------------------------------------


def test_another_target_leaves_the_replicas_that_a_reassignment_began_with() -> None:
    log = Log()
    log.change(replicas=[4, 1, 2, 3], adding_replicas=[4], removing_replicas=[1, 2, 3], directories=[])
    with breaks("RA-08", "began with replicas [1, 2, 3]"):
        log.change(replicas=[5, 4, 1, 2, 3], adding_replicas=[5], removing_replicas=[4, 1, 2, 3], directories=[])


def test_a_reassignment_may_get_another_target_be_cancelled_or_complete() -> None:
    log = Log()
    log.change(replicas=[4, 1, 2, 3], adding_replicas=[4], removing_replicas=[1, 2, 3], directories=[])
    log.change(replicas=[5, 4, 1, 2, 3], adding_replicas=[5, 4], removing_replicas=[4, 1, 2, 3], directories=[])
    log.change(replicas=[1, 2, 3], adding_replicas=[], removing_replicas=[], directories=[])
    log.change(replicas=[1, 2, 3, 4], adding_replicas=[4], directories=[])
    log.change(isr=[1, 2, 3, 4], adding_replicas=[])
    log.change(replicas=[5, 1, 2, 3, 4], adding_replicas=[5], directories=[])


def test_a_new_topic_partition_has_no_state_before() -> None:
    created = {"replicas": [3, 1], "isr": [1, 3], "leader": 1, "directories": []}
    Log().commit(PartitionRecord(partition_id=1, topic_id=TOPIC_ID, **created))  # type: ignore[arg-type]
