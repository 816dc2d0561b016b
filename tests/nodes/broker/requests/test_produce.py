"""Produce: when it is answered, and with what (DP-02, DP-08, rules 1 to 3)."""

from __future__ import annotations

import pytest

from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from tests.nodes.broker.world import OTHER, SECOND, THIRD, World, produced


def test_acks_1_is_answered_after_the_append(world: World) -> None:
    world.create()
    [part] = produced(world.produce(acks=1))
    assert (part.error_code, part.base_offset) == (0, 0)


def test_acks_0_is_never_answered(world: World) -> None:
    world.create()
    request = world.produce(acks=0)
    assert request.answer == Answer()


def test_acks_0_that_fails_ends_the_connection(world: World) -> None:
    request = world.produce(("unknown", 0), acks=0)
    assert request.answer == Answer(close=True)


def test_acks_all_waits_for_every_member_of_the_isr(world: World) -> None:
    """Rule 3."""
    world.create()
    request = world.produce()
    world.follow(OTHER, 1)
    assert request.answer is None
    world.follow(THIRD, 1)
    [part] = produced(request)
    assert (part.error_code, part.base_offset) == (0, 0)


def repeated(world: World) -> ServerRequest:
    """A batch is sent again before any follower has it."""
    world.create()
    world.produce(producer_id=7)
    return world.produce(producer_id=7)


def test_a_repeated_batch_waits_for_the_first_append(world: World) -> None:
    """Rule 7: that a batch is in the log does not make it committed."""
    request = repeated(world)
    world.follow(OTHER, 1)
    assert request.answer is None
    world.follow(THIRD, 1)
    [part] = produced(request)
    assert (part.error_code, part.base_offset) == (0, 0)


def test_a_repeated_batch_of_the_mutant_is_acknowledged_early() -> None:
    world = World(Mutants(frozenset({"duplicate-acked-early"})))
    world.start()
    assert produced(repeated(world))[0].error_code == 0


def test_acks_all_of_a_single_replica_is_answered_at_once(world: World) -> None:
    world.create(replicas=(1,))
    assert produced(world.produce())[0].error_code == 0


def test_one_stalled_partition_of_twenty_delays_the_request_to_its_timeout(world: World) -> None:
    """DP-08's own example."""
    world.create(partitions=20)
    request = world.produce(*[("t", number) for number in range(20)], timeout_ms=2000)
    for follower in (OTHER, THIRD):
        world.follow(follower, 1, partitions=19)
    world.run(after=SECOND)
    assert request.answer is None
    world.run(after=SECOND)
    parts = produced(request)
    assert [part.error_code for part in parts[:19]] == [0] * 19
    assert parts[19].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_failed_partition_does_not_hurry_the_others(world: World) -> None:
    world.create()
    request = world.produce(("t", 0), ("unknown", 0))
    assert request.answer is None
    world.follow(OTHER, 1)
    world.follow(THIRD, 1)
    assert [part.error_code for part in produced(request)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_losing_the_lead_while_waiting_is_an_unknown_outcome(world: World) -> None:
    """Rule 3."""
    world.create()
    request = world.produce()
    world.change(leader=OTHER)
    assert produced(request)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_deleting_the_topic_ends_the_wait(world: World) -> None:
    from squall.nodes.metadata.records import RemoveTopicRecord
    from tests.nodes.broker.world import topic_id

    world.create()
    request = world.produce()
    world.commit(RemoveTopicRecord(topic_id("t")))
    assert produced(request)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_below_min_isr_nothing_is_appended(world: World) -> None:
    world.create(min_isr=2)
    world.change(isr=[1])
    [part] = produced(world.produce())
    assert part.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.broker.replicas.all()[0].replica.end_offset == 0


def test_an_isr_that_shrinks_to_commit_answers_who_waited(world: World) -> None:
    world.create()
    request = world.produce()
    world.follow(OTHER, 1)
    world.change(isr=[1, OTHER])
    assert produced(request)[0].error_code == 0


@pytest.mark.parametrize(
    ("topic", "partition", "error"),
    [
        ("unknown", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("elsewhere", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("followed", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_only_the_leader_takes_records(world: World, topic: str, partition: int, error: ErrorCode) -> None:
    """DP-02."""
    world.create()
    world.create("elsewhere", replicas=(OTHER, THIRD), leader=OTHER)
    world.create("followed", leader=OTHER)
    assert produced(world.produce((topic, partition)))[0].error_code == error


def test_a_number_of_acks_that_is_none_is_refused(world: World) -> None:
    world.create()
    assert produced(world.produce(acks=2))[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_a_batch_above_max_message_bytes_is_refused(world: World) -> None:
    world.create()
    assert produced(world.produce(value=bytes(200_000)))[0].error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_request_of_a_closed_connection_is_forgotten_at_once(world: World) -> None:
    """Not when something happens or time is up: a client may ask for weeks, close, and ask again."""
    world.create(partitions=2)
    request = world.produce(("t", 0), ("t", 1), timeout_ms=2**31 - 1)
    assert all(hosted.produces for hosted in world.broker.replicas.all())
    request.close()
    assert not any(hosted.produces for hosted in world.broker.replicas.all())
    world.follow(OTHER, 1, partitions=2)
    world.follow(THIRD, 1, partitions=2)
    world.run(after=2 * SECOND)
    assert request.answer is None


def test_a_connection_that_closes_while_the_parked_look_is_forgotten(world: World) -> None:
    """One request's answer may close the connection of another that was woken with it."""
    world.create()
    first, second = world.produce(timeout_ms=1000), world.produce(timeout_ms=1000)
    first.on_answer = lambda request: second.close()
    world.follow(OTHER, 2)
    world.follow(THIRD, 2)
    world.run(after=2 * SECOND)
    assert first.answer is not None and second.answer is None


def test_answered_requests_leave_no_timer_behind(world: World) -> None:
    world.create()
    before = world.broker.deadline()
    for offset in range(1, 50):
        world.produce()
        world.follow(OTHER, offset)
        world.follow(THIRD, offset)
    hosted = world.broker.replicas.all()[0]
    assert hosted.produces == {}
    assert len(hosted.followers) == 2, "one each, parked"
    assert world.broker.deadline() <= before + 30 * SECOND


def test_the_mutant_answers_acks_all_before_replication() -> None:
    """N04; the high watermark stays right."""
    world = World(Mutants(frozenset({"ack-before-replication"})))
    world.start()
    world.create()
    assert produced(world.produce())[0].error_code == 0
    assert world.broker.replicas.all()[0].replica.high_watermark == 0
