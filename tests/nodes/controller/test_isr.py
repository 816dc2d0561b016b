"""AlterPartition: what is accepted, what is refused, and in which order of checks (rule 22, IS-04, IS-07, IS-08)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    PartitionDataRequest,
    TopicDataRequest,
)


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
