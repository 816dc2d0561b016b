"""What the observer asserts of every metadata record, and the legal records that look like a breach."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.batch_laws import UNCLEAN_ELECTIONS
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.records import (
    RECOVERED,
    RECOVERING,
    TOPIC_RESOURCE,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.harness.simulation.observer.metadata_log import TOPIC_ID, Log, breaks

OTHER_ID = bytes(reversed(range(16)))


def with_eligible_leaders() -> Log:
    log = Log()
    log.commit(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1))
    return log


def fenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=broker - 1, fenced=1)


def unfenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=broker - 1, fenced=-1)


def change(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields)  # type: ignore[arg-type]


def created(**fields: object) -> PartitionRecord:
    said = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "directories": [], **fields}
    return PartitionRecord(partition_id=1, topic_id=TOPIC_ID, **said)  # type: ignore[arg-type]


# -- IS-02, IS-09 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields", [{"isr": [1, 2, 4]}, {"isr": [1, 1, 2]}, {"isr": [2, 3]}, {"isr": [3], "leader": 2}], ids=str
)
def test_the_isr_is_a_part_of_the_replicas_and_has_the_leader(fields: dict[str, object]) -> None:
    with breaks("IS-02"):
        Log().change(**fields)


@pytest.mark.parametrize("fields", [{"isr": [3, 1]}, {"isr": [3, 2], "leader": 2}, {"isr": [1], "leader": -1}], ids=str)
def test_an_isr_in_another_order_another_leader_or_none_are_legal(fields: dict[str, object]) -> None:
    records = [fenced(1)] if "leader" in fields else []
    Log().commit(*records, change(**fields))


def unclean() -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="events", name=UNCLEAN_ELECTIONS, value="true")


def test_a_topic_partition_without_a_leader_gets_a_member_or_one_that_may_lack_records() -> None:
    """EL-04: an unclean election says so, also that of the last known leader."""
    log = Log()
    log.commit(fenced(1), fenced(2), change(isr=[2], leader=-1))
    with breaks("IS-02", "3 is elected"):
        log.change(isr=[3], leader=3)
    log = Log()
    log.commit(unclean())
    log.commit(fenced(1), fenced(2), change(isr=[2], leader=-1))
    log.change(isr=[3], leader=3, leader_recovery_state=RECOVERING)
    log.change(leader_recovery_state=RECOVERED)


def test_the_last_known_leader_of_an_empty_isr_may_lack_records() -> None:
    """EL-04, disagreement X33: Kafka elects it, too, and says that it is recovering."""
    for recovering in (True, False):
        log = with_eligible_leaders()
        log.commit(fenced(1), change(isr=[], leader=-1, last_known_elr=[1, 2, 3]))
        log.commit(unfenced(1))
        if recovering:
            log.change(isr=[1], leader=1, last_known_elr=[], leader_recovery_state=RECOVERING)
        else:
            with breaks("IS-02", "1 is elected"):
                log.change(isr=[1], leader=1, last_known_elr=[])


@pytest.mark.parametrize("fields", [{"isr": [], "leader": -1}, {"leader": -1}], ids=str)
def test_a_new_topic_partition_has_members_and_a_leader(fields: dict[str, object]) -> None:
    with breaks("IS-02", "a new topic-partition"):
        Log().commit(created(**fields))


def test_members_of_a_new_topic_partition_are_active() -> None:
    log = Log()
    log.change(isr=[1, 3])
    log.commit(fenced(2))
    log.commit(created(isr=[1, 3]))
    log = Log()
    log.change(isr=[1, 3])
    log.commit(fenced(2))
    with breaks("IS-02", "[2] are not active"):
        log.commit(created())


def test_only_with_eligible_leaders_the_isr_may_be_empty() -> None:
    with breaks("IS-09"):
        Log().change(isr=[], leader=-1)
    offline = change(isr=[], leader=-1, eligible_leader_replicas=[2, 3], last_known_elr=[1])
    with_eligible_leaders().commit(fenced(1), fenced(2), fenced(3), offline)


# -- EL-02 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elr", [[2], [1], [4], [3, 3]], ids=str)
def test_eligible_leaders_are_replicas_outside_the_isr(elr: list[int]) -> None:
    with breaks("EL-02", "are eligible"):
        with_eligible_leaders().change(isr=[1, 2], eligible_leader_replicas=elr)


def test_eligible_leaders_were_members_or_eligible_before() -> None:
    log = with_eligible_leaders()
    log.change(isr=[1], eligible_leader_replicas=[2], last_known_elr=[3])
    log.commit(fenced(1), change(isr=[2], leader=2, eligible_leader_replicas=[1]))
    log.commit(unfenced(1))
    with breaks("EL-02", "[3] are eligible"):
        log.commit(fenced(2), change(isr=[1], leader=1, eligible_leader_replicas=[2, 3]))


def test_no_member_is_forgotten_while_others_are_eligible() -> None:
    with breaks("EL-02", "[3] were in ISR or ELR"):
        with_eligible_leaders().change(isr=[1], eligible_leader_replicas=[2])


def test_members_that_leave_a_large_enough_isr_are_not_eligible() -> None:
    """There are min ISR without them: they may miss what is committed from now on."""
    log = with_eligible_leaders()
    log.change(isr=[1, 2])
    log.change(isr=[1], eligible_leader_replicas=[2])


def test_who_is_eligible_becomes_no_last_known_member() -> None:
    log = with_eligible_leaders()
    log.change(isr=[1, 2])
    with breaks("EL-02", "[2] become last known members and are eligible, [2]"):
        log.change(isr=[1], eligible_leader_replicas=[2], last_known_elr=[2])


def test_the_leader_of_an_isr_that_is_empty_now_is_both_and_remains_it() -> None:
    """It is elected first if it returns; if records are lost meanwhile, it is the one to ask."""
    log = with_eligible_leaders()
    log.change(isr=[1, 2])
    log.commit(fenced(2), change(isr=[1], eligible_leader_replicas=[2]))
    log.commit(fenced(1), change(isr=[], leader=-1, eligible_leader_replicas=[1, 2], last_known_elr=[1]))
    log.commit(unfenced(2), change(isr=[2], leader=2, eligible_leader_replicas=[1]))


def test_another_eligible_replica_is_not_the_leader_of_that_isr() -> None:
    log = with_eligible_leaders()
    log.change(isr=[1, 2])
    log.commit(fenced(2), change(isr=[1], eligible_leader_replicas=[2]))
    with breaks("EL-02", "[1, 2] become last known members"):
        log.commit(fenced(1), change(isr=[], leader=-1, eligible_leader_replicas=[1, 2], last_known_elr=[1, 2]))


def test_a_member_that_is_no_replica_any_more_is_forgotten() -> None:
    log = with_eligible_leaders()
    log.change(replicas=[1, 2, 3, 4], adding_replicas=[4], removing_replicas=[3], directories=[])
    log.change(isr=[1, 2, 4, 3])
    log.change(replicas=[1, 2, 4], isr=[1, 2, 4], adding_replicas=[], removing_replicas=[], leader=1, directories=[])


# -- RA-04 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": [1, 2, 3, 3]},
        {"adding_replicas": [4]},
        {"removing_replicas": [5]},
        {"replicas": [1, 2, 3, 4], "adding_replicas": [4], "directories": [bytes(16)] * 3},
    ],
    ids=str,
)
def test_a_reassignment_names_each_replica_once_and_no_stranger(fields: dict[str, object]) -> None:
    with breaks("RA-04"):
        Log().change(**fields)


def test_a_replica_that_was_added_may_be_left_out_again_by_the_next_reassignment() -> None:
    """RA-08: it is still adding, and removing as well. Seeds 903543, 903598, 903681, 903710 and 903761 of worlds."""
    log = Log()
    log.change(replicas=[1, 2, 3, 4], adding_replicas=[4], directories=[bytes(16)] * 4)
    log.change(replicas=[5, 1, 2, 3, 4], adding_replicas=[5, 4], removing_replicas=[4], directories=[bytes(16)] * 5)


def test_a_reassignment_adds_and_removes_replicas_with_a_directory_for_each() -> None:
    Log().change(replicas=[4, 2, 3, 1], adding_replicas=[4], removing_replicas=[1], directories=[bytes(16)] * 4)


# -- FD-02 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [fenced(1), FenceBrokerRecord(id=1, epoch=0)], ids=lambda one: type(one).__name__)
def test_a_fenced_broker_leads_nothing_once_the_batch_is_over(
    record: BrokerRegistrationChangeRecord | FenceBrokerRecord,
) -> None:
    with breaks("FD-02", "leaves it events-0"):
        Log().commit(record)
    Log().commit(record, change(isr=[2, 3], leader=2))
    Log().commit(change(isr=[2, 3], leader=2), record)


@pytest.mark.parametrize("record", [fenced(1), FenceBrokerRecord(id=1, epoch=0)], ids=lambda one: type(one).__name__)
def test_a_fenced_broker_is_not_fenced_again(record: BrokerRegistrationChangeRecord | FenceBrokerRecord) -> None:
    log = Log()
    log.commit(record, change(isr=[2, 3], leader=2))
    with breaks("FD-02", "broker 1 is fenced, and was before"):
        log.commit(record)


def test_a_broker_that_registers_again_leads_nothing_once_the_batch_is_over() -> None:
    """Its new incarnation is fenced until its first heartbeat."""
    again = RegisterBrokerRecord(broker_id=1, broker_epoch=7, incarnation_id=bytes(15) + b"2", fenced=True)
    with breaks("FD-02"):
        Log().commit(again)
    Log().commit(again, change(isr=[1], leader=-1))


# -- EL-05 --------------------------------------------------------------------------------------------------------


def test_an_unregistered_broker_has_everything_nowhere_once_the_batch_is_over() -> None:
    gone = UnregisterBrokerRecord(broker_id=1, broker_epoch=0)
    with breaks("EL-05", "events-0: broker 1 is unregistered at offset"):
        Log().commit(gone)
    Log().commit(change(isr=[2, 3], leader=2), gone)
    with breaks("EL-05", "still in ISR [2, 3] or ELR [1]"):
        with_eligible_leaders().commit(change(isr=[2, 3], leader=2, eligible_leader_replicas=[1]), gone)


def test_without_eligible_leaders_the_last_member_stays_though_it_is_unregistered() -> None:
    """IS-09."""
    log = Log()
    log.change(isr=[1])
    log.commit(change(leader=-1), UnregisterBrokerRecord(broker_id=1, broker_epoch=0))


# -- MD-08 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"isr": [1, 2, 3]}, "isr (1, 2, 3)"),
        ({"leader": 1}, "leader 1"),
        ({"replicas": [1, 2, 3]}, "replicas (1, 2, 3)"),
        ({"replicas": [1, 2, 3, 4], "adding_replicas": [4], "leader": 1}, "leader 1"),
        ({"adding_replicas": []}, "adding ()"),
        ({"removing_replicas": []}, "removing ()"),
        ({"eligible_leader_replicas": []}, "elr ()"),
        ({"last_known_elr": []}, "last known elr ()"),
        ({"leader_recovery_state": 0}, "recovery state 0"),
    ],
    ids=str,
)
def test_a_change_record_states_only_what_it_changes(fields: dict[str, object], words: str) -> None:
    with breaks("MD-08", f"events-0 at offset 7: the record states {words}, which is no change"):
        Log().change(**fields)


def test_a_record_that_takes_replicas_away_may_name_the_leader_that_stays() -> None:
    """Rule 23: a new leader epoch begins."""
    Log().change(replicas=[1, 2], isr=[1, 2], leader=1)


def test_a_change_record_that_states_nothing_is_legal() -> None:
    """EL-03: another min ISR raises the partition epochs."""
    Log().change()


def test_a_brokers_epoch_is_the_offset_of_its_registration() -> None:
    log = Log()
    log.commit(RegisterBrokerRecord(broker_id=6, broker_epoch=7))
    with breaks("MD-08", "broker 6"):
        log.commit(RegisterBrokerRecord(broker_id=6, broker_epoch=7))


def test_producer_ids_are_given_once() -> None:
    log = Log()
    log.commit(ProducerIdsRecord(broker_id=1, next_producer_id=1000))
    log.commit(ProducerIdsRecord(broker_id=1, next_producer_id=2000))
    with breaks("MD-08", "producer ids"):
        log.commit(ProducerIdsRecord(broker_id=2, next_producer_id=2000))


def test_a_name_is_free_again_when_its_topic_is_deleted() -> None:
    log = Log()
    with breaks("MD-08", "second topic"):
        log.commit(TopicRecord(name="events", topic_id=OTHER_ID))
    log = Log()
    log.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    log.commit(TopicRecord(name="events", topic_id=OTHER_ID))


class Kept(dict[tuple[int, str], dict[str, str]]):
    """Settings from which nothing goes."""

    def pop(self, *_: object) -> dict[str, str]:
        return {}


def test_the_settings_of_a_topic_are_removed_with_it() -> None:
    log = Log()
    log.commit(ConfigRecord(resource_type=2, resource_name="events", name="retention.ms", value="7"))
    log.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    log = Log()
    log.observer.image.configs = Kept({(2, "events"): {"retention.ms": "7"}})
    with breaks("MD-08", "topic events is removed at offset 7, and its settings are still {'retention.ms': '7'}"):
        log.commit(RemoveTopicRecord(topic_id=TOPIC_ID))


# -- CS-02 --------------------------------------------------------------------------------------------------------


def test_a_leader_that_leaves_an_isr_joins_none_before_it_was_marked_or_fenced() -> None:
    """A controller takes a broker that stops out of its ISRs, has not marked it, and so accepts it again."""
    log = Log()
    log.change(isr=[2, 3], leader=2)
    with breaks("CS-02", "broker 1 joins the ISR [1, 2, 3]; as an active leader it left one"):
        log.change(isr=[1, 2, 3])


def test_who_is_fenced_last_may_come_back_when_it_is_unfenced() -> None:
    """A large decision is written in several batches."""
    log = Log()
    log.change(isr=[2, 3], leader=2)
    log.commit(fenced(1))
    log.commit(unfenced(1))
    log.change(isr=[1, 2, 3])


def test_the_next_controller_knows_nothing_of_a_decision_that_was_not_finished() -> None:
    log = Log()
    log.change(isr=[2, 3], leader=2)
    log.epoch += 1
    log.change(isr=[1, 2, 3])


def test_a_leader_that_a_reassignment_takes_away_may_be_added_again() -> None:
    log = Log()
    log.change(replicas=[2, 3], isr=[2, 3], leader=2)
    log.change(replicas=[1, 2, 3], adding_replicas=[1])
    log.change(isr=[1, 2, 3], adding_replicas=[])
