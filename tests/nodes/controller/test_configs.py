"""IncrementalAlterConfigs: what may be altered, and what follows for topic-partitions (EL-06, KIP-339)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.metadata.records import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.nodes.controller.conftest import with_events

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


def settings(controller: Any, topic: str = "events") -> Any:
    return controller.image.config(TOPIC_RESOURCE, topic)


def test_a_setting_is_set_altered_and_unset(controller: Any) -> None:
    assert controller.alter_config("retention.ms", "1000").error_code == ErrorCode.NONE
    assert controller.alter_config("segment.bytes", "4096").error_code == ErrorCode.NONE
    assert settings(controller) == {"retention.ms": "1000", "segment.bytes": "4096"}
    controller.alter_config("retention.ms", "2000")
    controller.alter_config("segment.bytes", None, operation=DELETE)
    assert settings(controller) == {"retention.ms": "2000"}


def test_what_changes_nothing_writes_nothing(controller: Any) -> None:
    controller.alter_config("retention.ms", "1000")
    before = controller.raft.end_offset
    assert controller.alter_config("retention.ms", "1000").error_code == ErrorCode.NONE
    assert controller.alter_config("segment.bytes", None, operation=DELETE).error_code == ErrorCode.NONE
    assert controller.alter_config("retention.ms", "5", validate_only=True).error_code == ErrorCode.NONE
    assert controller.raft.end_offset == before


@pytest.mark.parametrize(
    ("name", "value", "topic", "operation", "expected"),
    [
        ("retention.ms", "1000", "absent", SET, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no.such.setting", "1", "events", SET, ErrorCode.INVALID_CONFIG),
        ("no.such.setting", None, "events", DELETE, ErrorCode.INVALID_CONFIG),
        (MIN_ISR, "0", "events", SET, ErrorCode.INVALID_CONFIG),
        (MIN_ISR, None, "events", SET, ErrorCode.INVALID_CONFIG),
        (MIN_ISR, "1", "events", APPEND, ErrorCode.INVALID_CONFIG),
        ("cleanup.policy", "compact", "events", APPEND, ErrorCode.INVALID_CONFIG),
        ("cleanup.policy", "delete", "events", APPEND, ErrorCode.NONE),
        ("cleanup.policy", "delete", "events", SUBTRACT, ErrorCode.INVALID_CONFIG),
        ("cleanup.policy", "compact", "events", SUBTRACT, ErrorCode.NONE),
        (MIN_ISR, "2", "events", 9, ErrorCode.INVALID_REQUEST),
        ("retention.ms", "1000", None, SET, ErrorCode.INVALID_CONFIG),
        (MIN_ISR, None, None, DELETE, ErrorCode.INVALID_CONFIG),
        (UNCLEAN, None, None, DELETE, ErrorCode.NONE),
    ],
)
def test_what_may_be_altered_is_what_a_new_topic_may_have(
    controller: Any, name: str, value: str | None, topic: str | None, operation: int, expected: ErrorCode
) -> None:
    """`topic` None is the cluster's default, which exists for what the controller decides by."""
    answer = controller.alter_config(name, value, topic, operation=operation)
    assert answer.error_code == expected
    assert (answer.error_message is None) == (expected == ErrorCode.NONE)


def test_single_brokers_and_repetitions_are_refused_and_the_rest_is_done(controller: Any) -> None:
    controller.create_topic("other", assignment={0: [1]})
    minute = AlterableConfig("retention.ms", SET, "60000")
    twice = AlterConfigsResource(TOPIC_RESOURCE, "other", [minute])
    resources = [
        AlterConfigsResource(TOPIC_RESOURCE, "events", [minute]),
        AlterConfigsResource(BROKER_RESOURCE, "1", [AlterableConfig(MIN_ISR, SET, "2")]),
        twice,
        twice,
        AlterConfigsResource(BROKER_RESOURCE, CLUSTER_DEFAULT, [AlterableConfig(MIN_ISR, SET, "2")] * 2),
    ]
    answers = controller.ask(IncrementalAlterConfigsRequest(resources)).responses
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] + [ErrorCode.INVALID_REQUEST] * 4
    assert settings(controller) == {"retention.ms": "60000"}
    assert settings(controller, "other") == {}


@pytest.mark.parametrize("name", ["²", "1" * 5000, "01x", "9", "-1"])
@pytest.mark.parametrize("key", [MIN_ISR, "leader.replication.throttled.rate"])
def test_a_name_that_is_no_brokers_id_is_refused(controller: Any, name: str, key: str) -> None:
    """`int` takes neither "²", which is a digit to Python, nor a number of more than 4,300 digits."""
    resource = AlterConfigsResource(BROKER_RESOURCE, name, [AlterableConfig(key, DELETE, None)])
    [answer] = controller.ask(IncrementalAlterConfigsRequest([resource])).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        (BROKER_RESOURCE, "1", "leader.replication.throttled.rate"),
        (BROKER_RESOURCE, "1", "follower.replication.throttled.rate"),
        (TOPIC_RESOURCE, "events", "leader.replication.throttled.replicas"),
    ],
)
def test_throttles_are_refused_by_name_and_taking_them_away_is_granted(
    controller: Any, kind: int, name: str, key: str
) -> None:
    """`kafka-reassign-partitions --verify` ends by taking them away; nothing is accepted that would do nothing."""
    before = controller.raft.end_offset
    for operation, expected in ((SET, ErrorCode.INVALID_CONFIG), (DELETE, ErrorCode.NONE)):
        asked = AlterConfigsResource(kind, name, [AlterableConfig(key, operation, "1000")])
        [answer] = controller.ask(IncrementalAlterConfigsRequest([asked])).responses
        assert answer.error_code == expected
        assert (answer.error_message or key).startswith(key)
    assert controller.raft.end_offset == before


# -- what follows --------------------------------------------------------------------------------------------------


def test_another_min_isr_clears_the_elr_and_moves_the_partition_epoch(durable: Any) -> None:
    """EL-06. The leader's epoch stays: nobody need fetch anew."""
    durable.alter_partition(1, [1, 2])
    durable.alter_partition(1, [1])
    before = durable.partition()
    assert before.elr == (2,)
    durable.alter_config(MIN_ISR, "3")
    after = durable.partition()
    assert (after.isr, after.elr, after.leader_epoch) == ((1,), (), before.leader_epoch)
    assert after.partition_epoch == before.partition_epoch + 1


def test_the_setting_and_what_follows_from_it_are_one_batch(durable: Any) -> None:
    before = durable.raft.end_offset
    durable.alter_config(MIN_ISR, "1")
    [batch] = [batch for batch in durable.raft.committed(before) if not batch.is_control]
    kinds = [type(record).__name__ for record in durable.records(before)]
    assert len(batch.values) == 2 and kinds == ["ConfigRecord", "PartitionChangeRecord"]


def test_no_isr_is_accepted_from_a_leader_that_has_not_heard_of_another_min_isr(controller: Any) -> None:
    """After 1 became 2: else the leader would take the answer, alone, for leave to commit alone (see the model)."""
    epoch = controller.partition().partition_epoch
    controller.alter_config(MIN_ISR, "2")
    answer = controller.alter_partition(1, [1], partition_epoch=epoch).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    answer = controller.alter_partition(1, [1]).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    assert controller.partition().elr == (2, 3)


def test_an_empty_isr_keeps_its_elr_because_there_is_nobody_else_to_elect(durable: Any) -> None:
    durable.alter_partition(1, [1, 2])
    durable.fence(3, 2, 1)
    assert (durable.partition().isr, durable.partition().elr) == ((), (1, 2))
    durable.alter_config(MIN_ISR, "1")
    assert (durable.partition().isr, durable.partition().elr) == ((), (1, 2))
    durable.heartbeat(2)
    found = durable.partition()
    assert (found.leader, found.isr, found.elr) == (2, (2,), ()), "it may commit alone now"


def test_a_cluster_default_counts_for_topics_without_a_setting_of_their_own(durable: Any) -> None:
    durable.create_topic("other", assignment={0: [1, 2, 3]})
    epochs = durable.partition().partition_epoch, durable.partition("other").partition_epoch
    assert durable.alter_config(MIN_ISR, "2", None).error_code == ErrorCode.NONE
    assert durable.partition().partition_epoch == epochs[0]
    assert durable.partition("other").partition_epoch == epochs[1] + 1
    durable.alter_partition(1, [1, 2], topic="other")
    durable.alter_partition(1, [1], topic="other")
    assert durable.partition("other").elr == (2,)


def test_allowing_unclean_elections_elects_at_once(controller_without_elr: Any) -> None:
    controller = controller_without_elr
    controller.alter_partition(1, [1])
    controller.fence(1)
    assert controller.partition().leader == -1
    controller.alter_config(UNCLEAN, "true", None)
    found = controller.partition()
    assert (found.leader, found.isr, found.recovery_state) == (2, (2,), 1)


def test_an_election_by_a_setting_counts_once_and_one_that_is_only_validated_does_not(
    controller_without_elr: Any,
) -> None:
    """Seed 1031730 of worlds: it counted when its records were counted, and again when they were written."""
    controller = controller_without_elr
    controller.alter_partition(1, [1])
    controller.fence(1)
    controller.alter_config(UNCLEAN, "true", None, validate_only=True)
    assert (controller.partition().leader, controller.controller.unclean_elections) == (-1, 0)
    controller.alter_config(UNCLEAN, "true", None)
    assert (controller.partition().leader, controller.controller.unclean_elections) == (2, 1)


def test_more_than_one_batch_holds_is_refused_whole(make_controller: Any) -> None:
    """The setting must not be seen without what follows from it."""
    controller = with_events(make_controller(records_max=10))
    controller.create_topic("big", assignment={number: [1, 2] for number in range(9)})
    answer = controller.alter_config(MIN_ISR, "2", None)
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert controller.image.config(BROKER_RESOURCE, CLUSTER_DEFAULT) == {MIN_ISR: "1"}
    assert controller.alter_config(MIN_ISR, "2").error_code == ErrorCode.NONE
