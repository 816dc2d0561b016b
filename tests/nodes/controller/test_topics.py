"""Topics are created, extended and deleted; each kind of wrong request gets Kafka's error for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from squall.nodes.metadata.records import TOPIC_RESOURCE
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from squall.nodes.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def test_a_topic_starts_with_active_replicas_in_sync_and_the_first_leading(controller: Any) -> None:
    result = controller.create_topic("orders", partitions=6)
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 6, 3)
    assert result.topic_id == controller.image.topic_ids["orders"]
    for number in range(6):
        registration = controller.partition("orders", number)
        assert registration.isr == registration.replicas
        assert registration.leader == registration.replicas[0]
        assert (registration.leader_epoch, registration.partition_epoch) == (0, 0)


def test_replicas_are_spread_evenly(make_controller: Any) -> None:
    controller = make_controller()
    controller.bring_up(1, 2, 3, 4, 5)
    controller.create_topic(partitions=100)
    registrations = [controller.partition("events", number) for number in range(100)]
    leaders = Counter(one.leader for one in registrations)
    replicas = Counter(replica for one in registrations for replica in one.replicas)
    pairs = Counter(one.replicas[:2] for one in registrations)
    assert set(leaders.values()) == {20}
    assert max(replicas.values()) - min(replicas.values()) <= 2
    assert len(pairs) == 20, "a leader's partitions have various first followers"


def test_defaults_stand_in_for_minus_one(make_controller: Any) -> None:
    controller = make_controller(default_partitions=4, default_replication_factor=2)
    controller.bring_up(1, 2)
    result = controller.create_topic(partitions=-1, factor=-1)
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_fenced_brokers_get_replicas_only_if_needed_and_are_not_in_sync(controller: Any) -> None:
    controller.live_on(10, 1, 2)
    controller.create_topic("two", partitions=4, factor=2)
    assert all(set(controller.partition("two", number).replicas) == {1, 2} for number in range(4))
    controller.create_topic("three", partitions=4, factor=3)
    for number in range(4):
        registration = controller.partition("three", number)
        assert registration.replicas[-1] == 3
        assert set(registration.isr) == {1, 2}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "events"}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "no spaces"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "__cluster_metadata"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "new", "partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"name": "new", "partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"name": "new", "partitions": 2_000_000_000}, ErrorCode.POLICY_VIOLATION),
        ({"name": "new", "factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": "new", "factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": "new", "assignment": {0: [1, 9]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "new", "assignment": {0: [1, 1]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "new", "assignment": {0: []}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "new", "assignment": {1: [1]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "new", "assignment": {0: [1], 1: [2, 3]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"name": "new", "configs": {"no.such.thing": "1"}}, ErrorCode.INVALID_CONFIG),
        ({"name": "new", "configs": {"min.insync.replicas": "0"}}, ErrorCode.INVALID_CONFIG),
        ({"name": "new", "configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
        ({"name": "new", "configs": {"cleanup.policy": "compact"}}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_wrong_requests_get_the_error_for_it_and_create_nothing(
    controller: Any, arguments: dict[str, Any], expected: ErrorCode
) -> None:
    before = controller.raft.end_offset
    result = controller.create_topic(**arguments)
    assert result.error_code == expected
    assert result.error_message
    assert controller.raft.end_offset == before


def test_names_that_differ_in_dots_and_underscores_only_collide(controller: Any) -> None:
    assert controller.create_topic("a.b").error_code == ErrorCode.NONE
    assert controller.create_topic("a_b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_request_for_too_many_topic_partitions_is_refused_whole(make_controller: Any) -> None:
    controller = make_controller(records_max=10, default_partitions=3)
    controller.bring_up(1, 2, 3)
    placed = [CreatableReplicaAssignment(number, [1]) for number in range(3)]
    fitting = [
        CreatableTopic("two", 2, 1),
        CreatableTopic("as usual", -1, 1),
        CreatableTopic("placed", -1, -1, assignments=placed),
        CreatableTopic("less than nothing", -2, 1),
        CreatableTopic("one", 1, 1),
    ]
    before = controller.raft.end_offset
    results = controller.ask(CreateTopicsRequest(topics=[*fitting, CreatableTopic("more", 2, 1)])).topics
    names = [*(one.name for one in fitting), "more"]
    assert [(one.name, one.error_code) for one in results] == [(name, ErrorCode.POLICY_VIOLATION) for name in names]
    assert all("11 partitions at once; at most 10" in one.error_message for one in results)
    assert controller.raft.end_offset == before
    results = controller.ask(CreateTopicsRequest(topics=fitting)).topics
    assert results[0].error_code == ErrorCode.NONE, "9 partitions are not too many, whatever becomes of the others"


def test_one_wrong_topic_does_not_spoil_the_others(controller: Any) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("one", "events", "twice", "twice", "two")
    ]
    results = controller.ask(CreateTopicsRequest(topics=topics)).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("one", ErrorCode.NONE),
        ("events", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("two", ErrorCode.NONE),
    ]
    assert {"one", "two"} <= set(controller.image.topic_ids)


def test_validation_only_creates_nothing(controller: Any) -> None:
    assert controller.create_topic("new", validate_only=True).error_code == ErrorCode.NONE
    assert controller.image.topic("new") is None


def test_settings_are_kept_and_described(controller: Any) -> None:
    result = controller.create_topic("new", configs={"min.insync.replicas": "2"})
    assert controller.image.config(TOPIC_RESOURCE, "new") == {"min.insync.replicas": "2"}
    described = {config.name: (config.value, config.config_source) for config in result.configs}
    assert described["min.insync.replicas"] == ("2", 1)
    assert described["cleanup.policy"] == ("delete", 5)


def test_topics_are_deleted_by_name_and_by_id(controller: Any) -> None:
    controller.create_topic("other", configs={"retention.ms": "1000"})
    by_id = DeleteTopicState(name=None, topic_id=controller.image.topic_ids["events"])
    request = DeleteTopicsRequest(
        topics=[by_id, DeleteTopicState(name="other"), DeleteTopicState(name="absent"), DeleteTopicState(name=None)]
    )
    responses = controller.ask(request).responses
    assert [one.error_code for one in responses] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert responses[0].name == "events"
    assert not controller.image.topics
    assert not any(kind == TOPIC_RESOURCE for kind, _ in controller.image.configs)


def test_a_topic_that_is_named_twice_is_not_deleted(controller: Any) -> None:
    """As in Apache Kafka, which deletes the others of the request."""
    controller.create_topic("other")
    by_id = DeleteTopicState(name=None, topic_id=controller.image.topic_ids["events"])
    states = [by_id, DeleteTopicState(name="other"), DeleteTopicState(name="events")]
    responses = controller.ask(DeleteTopicsRequest(topics=states)).responses
    assert [one.error_code for one in responses] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
    assert [topic.name for topic in controller.image.topics.values()] == ["events"]


def test_older_versions_delete_by_names(controller: Any) -> None:
    response = controller.ask(DeleteTopicsRequest(topic_names=["events"]), version=4)
    assert response.responses[0].error_code == ErrorCode.NONE
    assert not controller.image.topics


def extend(controller: Any, count: int, assignments: list[list[int]] | None = None, **options: Any) -> ErrorCode:
    manual = None if assignments is None else [CreatePartitionsAssignment(broker_ids=one) for one in assignments]
    topic = CreatePartitionsTopic(name=options.pop("name", "events"), count=count, assignments=manual)
    return ErrorCode(controller.ask(CreatePartitionsRequest(topics=[topic], **options)).results[0].error_code)


def test_partitions_are_added_after_those_there_are(controller: Any) -> None:
    assert extend(controller, 3) == ErrorCode.NONE
    assert sorted(controller.image.topic("events").partitions) == [0, 1, 2]
    assert len(controller.partition("events", 2).replicas) == 3
    assert extend(controller, 4, [[3, 1, 2]]) == ErrorCode.NONE
    assert controller.partition("events", 3).leader == 3


@pytest.mark.parametrize(
    ("count", "assignments", "options", "expected"),
    [
        (1, None, {}, ErrorCode.INVALID_PARTITIONS),
        (0, None, {}, ErrorCode.INVALID_PARTITIONS),
        (3, [[1, 2, 3]], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[1, 2]], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, None, {"name": "absent"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, None, {"validate_only": True}, ErrorCode.NONE),
    ],
)
def test_what_cannot_be_added_is_refused(
    controller: Any, count: int, assignments: Any, options: dict[str, Any], expected: ErrorCode
) -> None:
    assert extend(controller, count, assignments, **options) == expected
    assert len(controller.image.topic("events").partitions) == 1
