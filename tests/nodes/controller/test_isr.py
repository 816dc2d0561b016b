"""AlterPartition: what is accepted, what is refused, and in which order of checks (rule 22, IS-04, IS-07, IS-08)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.metadata.records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest
from squall.nodes.protocol.schema import Message, fields_of


def error_of(response: Any) -> ErrorCode:
    return ErrorCode(response.error_code or response.topics[0].partitions[0].error_code)


def test_a_shrink_is_committed_and_answered_with_the_new_partition_epoch(controller: Any) -> None:
    answer = controller.alter_partition(1, [1, 2]).topics[0].partitions[0]
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (ErrorCode.NONE, 1, 0)
    assert (answer.isr, answer.partition_epoch) == ([1, 2], 1)
    assert controller.partition().isr == (1, 2)


def test_an_expansion_brings_a_member_back(controller: Any) -> None:
    controller.alter_partition(1, [1, 2])
    assert error_of(controller.alter_partition(1, [1, 2, 3])) == ErrorCode.NONE
    assert (controller.partition().isr, controller.partition().partition_epoch) == ((1, 2, 3), 2)


def test_the_isr_there_is_already_changes_nothing(controller: Any) -> None:
    before = controller.raft.end_offset
    answer = controller.alter_partition(1, [1, 2, 3]).topics[0].partitions[0]
    assert (answer.error_code, answer.partition_epoch) == (ErrorCode.NONE, 0)
    assert controller.raft.end_offset == before


def test_an_old_request_sent_again_loses(controller: Any) -> None:
    """IS-07."""
    controller.alter_partition(1, [1, 2], partition_epoch=0)
    assert error_of(controller.alter_partition(1, [1, 3], partition_epoch=0)) == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("sender", "isr", "options", "expected"),
    [
        (1, [1, 2], {"broker_epoch": 0}, ErrorCode.STALE_BROKER_EPOCH),
        (1, [1, 2], {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        (1, [1, 2], {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        (1, [1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (2, [1, 2], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (1, [], {}, ErrorCode.INVALID_REQUEST),
        (1, [2, 3], {}, ErrorCode.INVALID_REQUEST),
        (1, {1: -1, 8: -1}, {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 2], {"recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (1, [1, 2], {"recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        (1, {1: -1, 2: 12345}, {}, ErrorCode.INELIGIBLE_REPLICA),
        (1, {1: -1, 2: -1}, {}, ErrorCode.NONE),
        # several things wrong at once: the first check in Kafka's order speaks
        (2, [1, 2], {"broker_epoch": 0, "leader_epoch": 9}, ErrorCode.STALE_BROKER_EPOCH),
        (2, [1, 2], {"partition_epoch": 9, "leader_epoch": -1}, ErrorCode.NOT_CONTROLLER),
        (2, [1, 2], {"leader_epoch": -1, "partition_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (2, [1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_REQUEST),
        (1, [2, 3], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (1, {2: 12345}, {}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_proposals_are_refused_for_the_first_reason_in_order(
    controller: Any, sender: int, isr: Any, options: dict[str, int], expected: ErrorCode
) -> None:
    """Rule 22."""
    assert error_of(controller.alter_partition(sender, isr, **options)) == expected
    if expected != ErrorCode.NONE:
        assert controller.partition().partition_epoch == 0


def test_a_fenced_broker_may_not_join(controller: Any) -> None:
    """IS-08, KIP-841."""
    controller.live_on(10, 1, 2)
    assert controller.partition().isr == (1, 2)
    assert error_of(controller.alter_partition(1, [1, 2, 3])) == ErrorCode.INELIGIBLE_REPLICA


def test_a_member_that_has_restarted_since_may_not_join(controller: Any) -> None:
    """KIP-903: the proposal names the incarnation that had caught up."""
    old = controller.image.brokers[3].epoch
    controller.live_on(10, 1, 2)
    controller.register(3, incarnation=2)
    controller.heartbeat(3)
    members = {1: controller.image.brokers[1].epoch, 2: controller.image.brokers[2].epoch, 3: old}
    assert error_of(controller.alter_partition(1, members)) == ErrorCode.INELIGIBLE_REPLICA
    members[3] = controller.image.brokers[3].epoch
    assert error_of(controller.alter_partition(1, members)) == ErrorCode.NONE


def test_a_recovering_leader_says_when_it_has_recovered(controller: Any) -> None:
    controller.create_topic("lossy", assignment={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"})
    controller.alter_partition(1, [1], topic="lossy")
    controller.live_on(10, 2, 3)
    assert controller.partition("lossy").recovery_state == 1
    assert error_of(controller.alter_partition(2, [2], topic="lossy")) == ErrorCode.NONE
    assert controller.partition("lossy").recovery_state == 0


def test_unknown_topics_and_partitions_are_named_as_such(controller: Any) -> None:
    def ask(topic_id: bytes, number: int) -> ErrorCode:
        data = PartitionDataRequest(partition_index=number)
        topic = TopicDataRequest(topic_id=topic_id, partitions=[data])
        epoch = controller.image.brokers[1].epoch
        return error_of(controller.ask(AlterPartitionRequest(broker_id=1, broker_epoch=epoch, topics=[topic])))

    assert ask(bytes(16), 0) == ErrorCode.UNKNOWN_TOPIC_ID
    assert ask(controller.image.topic_ids["events"], 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_that_is_stopping_may_not_join(controller: Any) -> None:
    """IS-08, KIP-841: unfenced still, but about to go."""
    controller.alter_partition(1, [1, 2])
    broker = controller.image.brokers[3]
    stopping = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=broker.epoch, in_controlled_shutdown=1)
    controller.controller._write(controller.now, [stopping])
    controller.settle()
    assert not controller.image.brokers[3].fenced
    assert error_of(controller.alter_partition(1, [1, 2, 3])) == ErrorCode.INELIGIBLE_REPLICA


def test_a_broker_that_is_not_registered_may_not_join(controller: Any) -> None:
    controller.alter_partition(1, [1, 2])
    broker = controller.image.brokers[3]
    controller.controller._write(controller.now, [UnregisterBrokerRecord(broker_id=3, broker_epoch=broker.epoch)])
    controller.settle()
    members = {1: -1, 2: -1, 3: broker.epoch}
    assert error_of(controller.alter_partition(1, members)) == ErrorCode.INELIGIBLE_REPLICA


def test_a_broker_whose_disk_was_wiped_may_not_join_by_what_it_had(controller: Any) -> None:
    """P15: 3 catches up; the leader's proposal is under way while 3 dies, is wiped, and comes back unfenced."""
    controller.alter_partition(1, [1, 2])
    caught_up = {one: controller.image.brokers[one].epoch for one in (1, 2, 3)}
    epochs = controller.partition()
    controller.fence(3)
    controller.return_of(3, clean=False)
    assert controller.partition() == epochs, "its coming and going concerned no ISR: only its broker epoch tells"
    assert error_of(controller.alter_partition(1, caught_up)) == ErrorCode.INELIGIBLE_REPLICA
    assert controller.partition().isr == (1, 2)


def test_of_two_proposals_for_one_partition_the_second_is_refused(controller: Any) -> None:
    """Rule 20 says that a leader never does that; were both taken, the second would rest on a state that is gone."""
    epoch = controller.image.brokers[1].epoch
    topic_id = controller.image.topic_ids["events"]

    def proposal(*isr: int) -> PartitionDataRequest:
        members = [BrokerState(one, controller.image.brokers[one].epoch) for one in isr]
        return PartitionDataRequest(0, 0, new_isr_with_epochs=members, partition_epoch=0)

    topics = [
        TopicDataRequest(topic_id, [proposal(1, 2), proposal(1, 3)]),
        TopicDataRequest(topic_id, [proposal(1)]),
    ]
    answer = controller.ask(AlterPartitionRequest(1, epoch, topics))
    errors = [[part.error_code for part in topic.partitions] for topic in answer.topics]
    assert errors == [[ErrorCode.NONE, ErrorCode.INVALID_REQUEST], [ErrorCode.INVALID_REQUEST]]
    assert (controller.partition().isr, controller.partition().partition_epoch) == ((1, 2), 1)


def test_the_controller_hears_nothing_of_log_ends_or_high_watermarks() -> None:
    """EP-07: no request that it serves has a field for one."""
    names: set[str] = set()

    def gather(cls: type[Message]) -> None:
        for name, schema in fields_of(cls):
            names.add(name)
            if isinstance(schema.element, type):
                gather(schema.element)

    for message in (AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest):
        gather(message)
    assert not [name for name in names if "watermark" in name or "end_offset" in name or "stable" in name]
    assert [name for name in names if "offset" in name] == ["current_metadata_offset"]


# -- mutants: the same attacks, unopposed --------------------------------------------------------------------------


def mutant(make_controller: Any, name: str) -> Any:
    controller = make_controller(Mutants(frozenset({name})))
    controller.bring_up(1, 2, 3)
    controller.create_topic(assignment={0: [1, 2, 3]})
    return controller


def test_unfenced_a_leader_of_the_past_puts_itself_back_without_the_others(
    make_controller: Any, controller: Any
) -> None:
    """N02, P03: 1 was paused, 2 leads; 1 wakes up, its heartbeat unfences it, and it drops who does not fetch."""
    broken = mutant(make_controller, "alter-partition-unfenced")
    for one in (broken, controller):
        one.fence(1)
        one.heartbeat(1)
        assert one.partition().leader == 2
    stale = {"leader_epoch": 0, "partition_epoch": 0}
    assert error_of(controller.alter_partition(1, [1], **stale)) == ErrorCode.FENCED_LEADER_EPOCH
    broken.alter_partition(1, [1], **stale)
    assert (broken.partition().leader, broken.partition().isr) == (1, (1,))


def test_unchecked_a_wiped_broker_joins_by_what_it_had(make_controller: Any) -> None:
    """N14."""
    broken = mutant(make_controller, "broker-epoch-unchecked")
    broken.alter_partition(1, [1, 2])
    caught_up = {one: broken.image.brokers[one].epoch for one in (1, 2, 3)}
    broken.fence(3)
    broken.return_of(3, clean=False)
    assert error_of(broken.alter_partition(1, caught_up)) == ErrorCode.NONE
    assert broken.partition().isr == (1, 2, 3)
