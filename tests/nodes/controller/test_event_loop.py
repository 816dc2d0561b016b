"""Answers follow commits in order; leadership decides who may decide; state survives by replay (rule 30, QC-21..23)."""

from __future__ import annotations

from typing import Any

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def test_nothing_is_answered_before_it_is_committed(controller: Any) -> None:
    request = controller.begin(create("new"))
    assert request.answer is None
    assert controller.image.topic("new") is None
    controller.settle()
    assert request.answer is not None
    assert controller.image.topic("new") is not None


def test_an_answer_that_rests_on_something_uncommitted_waits_for_it(controller: Any) -> None:
    first, second = controller.begin(create("new")), controller.begin(create("new"))
    assert second.answer is None
    controller.settle()
    assert first.answer.response.topics[0].error_code == ErrorCode.NONE
    assert second.answer.response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_thousand_requests_are_answered_in_order_after_few_flushes(controller: Any) -> None:
    answered: list[int] = []
    requests = []
    before = controller.disk.syncs
    for number in range(1_000):
        request = controller.begin(create(f"topic-{number}"))
        request.on_answer = lambda request, number=number: answered.append(number)
        requests.append(request)
    controller.settle()
    assert answered == list(range(1_000))
    assert controller.disk.syncs - before < 10


def test_losing_the_leadership_rolls_back_and_answers_not_controller(controller: Any) -> None:
    request = controller.begin(create("new"))
    controller.raft.resign(controller.now)
    late = controller.begin(create("late"))
    assert late.answer.response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert request.answer.response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert not controller.controller.is_active
    assert controller.image.topic("new") is None


def test_a_controller_acts_again_in_a_later_epoch_with_what_survived(controller: Any) -> None:
    controller.raft.resign(controller.now)
    controller.pass_time(5)
    assert controller.controller.is_active
    assert controller.create_topic("new").error_code == ErrorCode.NONE


def test_a_restarted_controller_has_the_same_image_at_the_same_offset(controller: Any) -> None:
    controller.create_topic("new", partitions=5, configs={"retention.ms": "1000"})
    fingerprint, offset = controller.image.fingerprint(), controller.image.last_offset
    controller.disk.lose_power()
    controller.start()
    assert controller.image.last_offset > offset
    assert controller.image.fingerprint() == fingerprint


def test_the_log_keeps_moving_while_nothing_happens(controller: Any) -> None:
    before = controller.raft.end_offset
    controller.pass_time(2.1)
    assert controller.raft.end_offset - before == 4
    assert controller.records(before) == []


def test_what_is_decided_and_what_is_committed_agree_once_settled(controller: Any) -> None:
    controller.create_topic("new", partitions=3)
    controller.alter_partition(1, [1, 2])
    controller.live_on(10, 2, 3)
    assert controller.controller._image.fingerprint() == controller.image.fingerprint()


def test_a_parked_request_whose_connection_is_gone_is_not_answered(controller: Any) -> None:
    request = controller.begin(create("new"))
    request.closed = True
    controller.settle()
    assert request.answer is None


def test_records_beyond_the_size_of_a_batch_are_split(make_controller: Any) -> None:
    controller = make_controller(records_max=10)
    controller.bring_up(1, 2)
    for number in range(5):
        controller.create_topic(f"topic-{number}", assignment={part: [1, 2] for part in range(8)})
    controller.live_on(10, 2)
    assert all(registration.leader == 2 for _, _, registration in controller.image.all_partitions())


def test_more_partitions_than_one_batch_holds_are_refused(make_controller: Any) -> None:
    controller = make_controller(records_max=10)
    controller.bring_up(1)
    assert controller.create_topic(partitions=10, factor=1).error_code == ErrorCode.POLICY_VIOLATION
    assert controller.create_topic(partitions=9, factor=1).error_code == ErrorCode.NONE
