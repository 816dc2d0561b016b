"""ElectLeaders: the preferred replica back in its place, and elections on an operator's word (KIP-460)."""

from __future__ import annotations

from typing import Any

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.nodes.controller.conftest import MIN_ISR_2, with_events

PREFERRED, UNCLEAN = 0, 1


def elect(controller: Any, kind: int, *partitions: int, topic: str = "events") -> list[ErrorCode]:
    asked = [TopicPartitions(topic, list(partitions or (0,)))]
    answer = controller.ask(ElectLeadersRequest(kind, asked))
    return [ErrorCode(one.error_code) for one in answer.replica_election_results[0].partition_result]


def test_the_preferred_replica_leads_again_in_a_new_leader_epoch(controller: Any) -> None:
    controller.fence(1)
    controller.heartbeat(1)
    assert elect(controller, PREFERRED) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE], "it is not in sync yet"
    controller.alter_partition(2, [2, 3, 1])
    before = controller.partition()
    assert elect(controller, PREFERRED) == [ErrorCode.NONE]
    after = controller.partition()
    assert (after.leader, after.isr) == (1, (2, 3, 1))
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch + 1, before.partition_epoch + 1)
    assert elect(controller, PREFERRED) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_a_preferred_leader_may_be_elected_while_others_are_eligible(durable: Any) -> None:
    durable.create_topic("four", assignment={0: [1, 2, 3]}, configs={"min.insync.replicas": "3"})
    durable.fence(1)
    durable.heartbeat(1)
    durable.alter_partition(2, [2, 1], topic="four")
    assert durable.partition("four").elr == (3,)
    assert elect(durable, PREFERRED, topic="four") == [ErrorCode.NONE]
    assert (durable.partition("four").leader, durable.partition("four").elr) == (1, (3,))


def test_an_operator_may_have_somebody_elected_who_may_lack_records(make_controller: Any) -> None:
    controller = with_events(make_controller(last_known_leader=False), MIN_ISR_2)
    assert elect(controller, UNCLEAN) == [ErrorCode.ELECTION_NOT_NEEDED]
    controller.fence(1, 2, 3)
    assert elect(controller, UNCLEAN) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    controller.register(1, incarnation=2)
    controller.heartbeat(1)
    assert controller.partition().leader == -1
    assert elect(controller, UNCLEAN) == [ErrorCode.NONE]
    found = controller.partition()
    assert (found.leader, found.isr, found.elr, found.recovery_state) == (1, (1,), (), 1)


def test_what_is_not_there_and_what_is_not_known_is_named_as_such(controller: Any) -> None:
    assert elect(controller, PREFERRED, 0, 7) == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert elect(controller, PREFERRED, topic="absent") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert controller.ask(ElectLeadersRequest(5, None)).error_code == ErrorCode.INVALID_REQUEST


def test_asked_for_all_only_what_was_done_or_failed_is_told(controller: Any) -> None:
    controller.create_topic("other", assignment={0: [2, 1], 1: [1, 2]})
    controller.fence(2)
    controller.heartbeat(2)
    controller.alter_partition(1, [1, 2], topic="other")
    answer = controller.ask(ElectLeadersRequest(PREFERRED, None))
    [told] = answer.replica_election_results
    assert told.topic == "other"
    assert [(one.partition_id, one.error_code) for one in told.partition_result] == [(0, ErrorCode.NONE)]
