"""Fetch: what consumers and followers get, and how long they wait for it (DP-05, DP-14, rules 10 to 16)."""

from __future__ import annotations

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from squall.nodes.protocol.requests.session import ServerRequest
from tests.nodes.broker.world import OTHER, SECOND, THIRD, World, fetched, topic_id


def commit_one(world: World) -> None:
    """One more record below the high watermark."""
    world.produce(acks=1)
    end = world.broker.replicas.all()[0].replica.end_offset
    for follower in (OTHER, THIRD):
        world.follow(follower, end)


def size(request: ServerRequest) -> int:
    return len(fetched(request).records or b"")


def test_consumers_see_only_what_is_committed(world: World) -> None:
    world.create()
    world.produce(acks=1)
    request = world.consume(0)
    assert request.answer is None, "it is appended but not committed"
    world.follow(OTHER, 1)
    world.follow(THIRD, 1)
    part = fetched(request)
    assert size(request) > 0
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (1, 1, 0)


def test_followers_see_the_whole_log(world: World) -> None:
    world.create()
    world.produce(acks=1)
    assert size(world.follow(OTHER, 0)) > 0


def test_a_follower_is_woken_by_an_append(world: World) -> None:
    world.create()
    request = world.follow(OTHER, 0)
    assert request.answer is None
    world.produce(acks=1)
    assert size(request) > 0


def test_the_movement_of_the_high_watermark_alone_wakes_no_follower(world: World) -> None:
    """Rule 16."""
    world.create()
    world.produce(acks=1)
    parked = world.follow(OTHER, 1)
    world.follow(THIRD, 1)
    assert world.broker.replicas.all()[0].replica.high_watermark == 1
    assert parked.answer is None


def test_a_long_poll_ends_empty_when_its_time_is_over(world: World) -> None:
    world.create()
    request = world.consume(0, max_wait_ms=500)
    world.run(after=SECOND // 2 - 1)
    assert request.answer is None
    world.run(after=1)
    assert size(request) == 0
    assert fetched(request).error_code == 0


def test_a_fetch_that_will_not_wait_is_answered_at_once(world: World) -> None:
    world.create()
    assert size(world.consume(0, max_wait_ms=0)) == 0
    assert size(world.consume(0, min_bytes=0)) == 0


def test_min_bytes_are_gathered(world: World) -> None:
    world.create()
    commit_one(world)
    one = size(world.consume(0))
    request = world.consume(0, min_bytes=2 * one)
    assert request.answer is None
    commit_one(world)
    assert size(request) == 2 * one


def test_a_new_leader_epoch_wakes_everybody(world: World) -> None:
    world.create()
    consumer, follower = world.consume(0, epoch=0), world.follow(OTHER, 0)
    world.change(leader=1)
    assert fetched(consumer).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert fetched(follower).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_losing_the_lead_tells_the_new_leader(world: World) -> None:
    world.create()
    request = world.consume(0)
    world.change(leader=THIRD)
    part = fetched(request)
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (THIRD, 1)


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, 0), (3, 0), (2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_fetch_is_fenced_by_its_leader_epoch(world: World, epoch: int, error: int) -> None:
    """EP-03, rule 12."""
    world.create()
    for _ in range(3):
        world.change(leader=1)
    assert fetched(world.consume(0, epoch=epoch, max_wait_ms=0)).error_code == error


def test_a_diverged_follower_is_told_where_to_cut(world: World) -> None:
    """DP-13: the leader knows epoch 0 up to offset 1; the follower has three records of it."""
    world.create()
    world.produce(acks=1)
    world.change(leader=1)
    part = fetched(world.follow(OTHER, 3, epoch=1, last_epoch=0))
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 1)
    assert world.broker.replicas.all()[0].replica.high_watermark == 0, "such a fetch proves nothing"


def test_an_offset_beyond_the_log_is_out_of_range(world: World) -> None:
    world.create()
    assert fetched(world.consume(5)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_topic_id_nobody_knows_is_said_to_be_unknown(world: World) -> None:
    request = world.ask(FetchRequest(topics=[FetchTopic(topic_id=b"x" * 16, partitions=[FetchPartition()])]), 13)
    assert fetched(request).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_older_versions_name_topics(world: World) -> None:
    world.create()
    commit_one(world)
    wanted = FetchTopic(topic="t", partitions=[FetchPartition(partition_max_bytes=1 << 20)])
    assert size(world.ask(FetchRequest(min_bytes=1, topics=[wanted]), 11)) > 0


def test_a_fetch_that_wants_no_session_gets_none(world: World) -> None:
    world.create()
    request = world.consume(0, max_wait_ms=0)
    assert request.answer is not None
    assert isinstance(request.answer.response, FetchResponse)
    assert request.answer.response.session_id == 0


def test_an_answer_respects_max_bytes_but_always_makes_progress(world: World) -> None:
    world.create(partitions=2)
    for partition in (0, 1):
        world.produce(("t", partition), acks=1, value=bytes(1000))
    whole = FetchRequest(max_bytes=100, min_bytes=1, max_wait_ms=500)
    request = world._fetch(whole, 0, 0, -1, partitions=2)
    assert request.answer is None, "as a consumer it sees nothing yet"
    for follower in (OTHER, THIRD):
        world.follow(follower, 1, partitions=2)
    assert request.answer is not None
    assert isinstance(request.answer.response, FetchResponse)
    parts = request.answer.response.responses[0].partitions
    assert [len(part.records or b"") > 0 for part in parts] == [True, False]


def test_a_follower_that_has_caught_up_is_proposed_for_the_isr(world: World) -> None:
    """IS-01: the leader asks the controller, once."""
    world.create()
    world.change(isr=[1, OTHER])
    world.produce(acks=1)
    world.follow(OTHER, 1)
    world.follow(THIRD, 1)
    _, message = world.asked(AlterPartitionRequest)
    [part] = message.topics[0].partitions
    assert [state.broker_id for state in part.new_isr_with_epochs] == [1, OTHER, THIRD]
    world.follow(THIRD, 1)
    assert world.asked_nothing(AlterPartitionRequest)


def test_the_proposal_leaves_with_the_turn_of_the_fetch_that_brought_it_about(world: World) -> None:
    """An ISR change is urgent; it waits for no timer and for no other turn."""
    world.create()
    world.change(isr=[1, OTHER])
    world.produce(acks=1)
    world.follow(OTHER, 1)
    world.follow(THIRD, 1)
    waiting = [one.message for one in world.broker.take_requests()]
    assert [type(message) for message in waiting] == [AlterPartitionRequest], "before any tick"


def test_an_answered_fetch_waits_nowhere_any_more(world: World) -> None:
    """Or a topic-partition where nothing happens would gather every long poll there ever was."""
    world.create(partitions=3)
    for _ in range(5):
        world.consume(0, max_wait_ms=100)
        world.run(after=SECOND)
    over_all = world._fetch(FetchRequest(max_wait_ms=500, min_bytes=1), 0, 0, -1, partitions=3)
    commit_one(world)
    assert over_all.answer is not None
    assert [hosted.consumers for hosted in world.broker.replicas.all()] == [{}, {}, {}]


def test_a_fetch_of_a_closed_connection_is_forgotten(world: World) -> None:
    world.create()
    request = world.consume(0)
    request.close()
    assert world.broker.replicas.all()[0].consumers == {}
    world.run(after=SECOND)
    assert request.answer is None


def test_a_follower_answers_whoever_compares_replicas(world: World) -> None:
    """Replica id -2 is that of `kafka-replica-verification`; an ordinary consumer is sent to the leader."""
    world.create("t", leader=OTHER)
    topics = [FetchTopic(topic_id=topic_id("t"), partitions=[FetchPartition(0, 0, 0, partition_max_bytes=1000)])]
    for replica, error in ((-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (-2, ErrorCode.NONE)):
        asked = FetchRequest(replica_state=ReplicaState(replica), max_wait_ms=0, topics=topics)
        assert fetched(world.ask(asked, 18)).error_code == error
