"""Answers follow commits in order; leadership decides who may decide; state survives by replay (rule 30, QC-21..23)."""

from __future__ import annotations

from typing import Any

from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from squall.nodes.protocol.schema import Message


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
    """EP-06: one loop takes them one after the other."""
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


def test_losing_the_leadership_rolls_back_what_was_not_committed(controller: Any) -> None:
    controller.begin(create("new"))
    controller.raft.resign(controller.now)
    late = controller.begin(create("late"))
    assert late.answer.response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert not controller.controller.is_active
    assert controller.image.topic("new") is None


def deposed_with(controller: Any, body: Message) -> Any:
    """The answer to a request that was written and not committed when its controller was deposed."""
    request = controller.begin(body)
    controller.raft.resign(controller.now)
    controller.settle()
    return request.answer.response


def test_a_deposed_controller_does_not_know_what_became_of_a_write(controller: Any) -> None:
    """MD-09, DP-09: other voters may have its records. NOT_CONTROLLER would make brokers ask for it once more."""
    answer = deposed_with(controller, create("new"))
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_deposed_controller_does_not_know_what_became_of_a_deletion(controller: Any) -> None:
    controller.create_topic("old")
    answer = deposed_with(controller, DeleteTopicsRequest(topics=[DeleteTopicState(name="old")]))
    assert [(one.name, one.error_code) for one in answer.responses] == [("old", ErrorCode.REQUEST_TIMED_OUT)]


def test_a_deposed_controller_sends_on_what_has_changed_nothing(controller: Any) -> None:
    """A refusal that rests on somebody else's records is no write."""
    controller.begin(create("new"))
    answer = deposed_with(controller, create("new"))
    assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER


def test_a_deposed_controller_sends_on_what_brokers_ask_for_themselves(controller: Any) -> None:
    """Epochs tell a repetition from a second request."""
    answer = deposed_with(controller, AllocateProducerIdsRequest(1, controller.image.brokers[1].epoch))
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_with_a_mutant_a_deposed_controller_calls_its_writes_undone(make_controller: Any) -> None:
    mutated = make_controller(mutants=Mutants(frozenset({"parked-writes-repeated"})))
    mutated.bring_up(1, 2, 3)
    assert deposed_with(mutated, create("new")).topics[0].error_code == ErrorCode.NOT_CONTROLLER


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
