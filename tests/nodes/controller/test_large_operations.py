"""What concerns more topic-partitions than a batch holds is written a batch in a turn, decided as if in one turn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from squall.nodes.controller import controller as event_loop
from squall.nodes.metadata.records import FenceBrokerRecord, PartitionChangeRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest

TOPICS, PARTITIONS = 6, 8


@pytest.fixture
def full(make_controller: Any) -> Any:
    """Three brokers, 48 topic-partitions led by broker 1, and batches of ten records."""
    controller = make_controller(records_max=10)
    controller.bring_up(1, 2, 3)
    for number in range(TOPICS):
        controller.create_topic(f"topic-{number}", assignment={part: [1, 2] for part in range(PARTITIONS)})
    return controller


def leave(controller: Any) -> Any:
    epoch, offset = controller.image.brokers[1].epoch, controller.image.last_offset
    return controller.begin(
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=offset, want_fence=True)
    )


def turn(controller: Any) -> None:
    controller.raft.tick(controller.now)
    controller.controller.tick(controller.now)
    controller.raft.flush(controller.now)
    controller.controller.advance(controller.now)


def finish(controller: Any, *requests: Any) -> None:
    for _ in range(30):
        turn(controller)
        if all(request.answer is not None for request in requests):
            return
    raise AssertionError("not answered within thirty turns")


def test_one_turn_writes_at_most_one_batch_more(full: Any) -> None:
    before = full.raft.end_offset
    request = leave(full)
    ends = [full.raft.end_offset]
    while request.answer is None:
        assert full.controller.deadline() <= full.now, "the host is to come again at once"
        turn(full)
        ends.append(full.raft.end_offset)
    assert max(later - earlier for earlier, later in pairwise([before, *ends])) <= 10
    assert len(ends) > TOPICS * PARTITIONS // 10


def test_all_leaderships_move_before_the_broker_is_fenced_and_answered(full: Any) -> None:
    """Rule 25."""
    before = full.raft.end_offset
    request = leave(full)
    finish(full, request)
    records = full.records(before)
    assert [type(one) for one in records] == [PartitionChangeRecord] * TOPICS * PARTITIONS + [FenceBrokerRecord]
    assert all(one.leader == 2 and one.isr == (2,) for _, _, one in full.image.all_partitions())


def test_requests_that_come_meanwhile_are_decided_afterwards_in_their_order(full: Any) -> None:
    first = leave(full)
    epoch, offset = full.image.brokers[1].epoch, full.image.last_offset
    again = full.begin(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=offset))
    other = full.begin(BrokerHeartbeatRequest(broker_id=2, broker_epoch=-7, current_metadata_offset=offset))
    assert again.answer is None and other.answer is None
    finish(full, first, again, other)
    assert other.answer.response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert not full.image.brokers[1].fenced, "it asked to be unfenced, after it was fenced"
    assert all(one.leader == 2 for _, _, one in full.image.all_partitions())


def test_losing_the_leadership_half_way_answers_all_and_keeps_what_was_committed(full: Any) -> None:
    first, second = leave(full), leave(full)
    turn(full)
    full.raft.resign(full.now)
    turn(full)
    for request in (first, second):
        assert request.answer.response.error_code == ErrorCode.NOT_CONTROLLER
    moved = [one for _, _, one in full.image.all_partitions() if one.leader == 2]
    assert 0 < len(moved) < TOPICS * PARTITIONS
    assert not full.image.brokers[1].fenced
    full.pass_time(20)
    assert full.image.brokers[1].fenced, "its session ends at the next controller as well"
    assert all(one.leader != 1 for _, _, one in full.image.all_partitions())


def test_the_next_controller_ends_a_controlled_shutdown_that_was_left_half_way(full: Any) -> None:
    """CS-02, CS-04: otherwise the broker, marked as stopping, would lead the rest and wait for ever."""

    def stop() -> Any:
        epoch, offset = full.image.brokers[1].epoch, full.image.last_offset
        return full.begin(
            BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=offset, want_shut_down=True)
        )

    first = stop()
    turn(full)
    full.raft.resign(full.now)
    turn(full)
    assert first.answer.response.error_code == ErrorCode.NOT_CONTROLLER
    assert full.image.brokers[1].in_controlled_shutdown
    left = [one for _, _, one in full.image.all_partitions() if one.leader == 1]
    assert 0 < len(left) < TOPICS * PARTITIONS
    full.pass_time(3)
    again = stop()
    finish(full, again)
    assert again.answer.response.error_code == ErrorCode.NONE
    assert all(one.leader == 2 and one.isr == (2,) for _, _, one in full.image.all_partitions())


def test_the_next_controller_finishes_elections_of_a_half_done_return(full: Any) -> None:
    """The broker is unfenced by the first batch already, so that no heartbeat of its would bring it up again."""

    def beat(broker: int, *, fence: bool) -> Any:
        epoch, offset = full.image.brokers[broker].epoch, full.image.last_offset
        return full.begin(
            BrokerHeartbeatRequest(
                broker_id=broker, broker_epoch=epoch, current_metadata_offset=offset, want_fence=fence
            )
        )

    for broker in (1, 2):
        finish(full, beat(broker, fence=True))
    assert all(one.leader == -1 for _, _, one in full.image.all_partitions())
    back = beat(2, fence=False)
    turn(full)
    full.raft.resign(full.now)
    turn(full)
    assert back.answer.response.error_code == ErrorCode.NOT_CONTROLLER
    assert not full.image.brokers[2].fenced
    left = [one for _, _, one in full.image.all_partitions() if one.leader == -1]
    assert 0 < len(left) < TOPICS * PARTITIONS
    full.pass_time(3)
    assert all(one.leader == 2 for _, _, one in full.image.all_partitions())


def test_a_controller_that_starts_replays_a_bounded_number_of_records_in_a_turn(
    full: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "REPLAYED_IN_A_TURN", 12)
    fingerprint = full.image.fingerprint()
    controller = event_loop.QuorumController(
        full.config, full.raft, rng=full.controller._topics._rng, trace=full.controller._trace, now=0
    )
    offsets = [-1]
    while controller.deadline() == 0:
        controller.advance(0)
        offsets.append(controller.committed.last_offset)
    steps = [later - earlier for earlier, later in pairwise(offsets)]
    assert len(steps) > 3 and max(steps) < 12 + full.config.records_max
    assert controller.committed.fingerprint() == fingerprint


def test_both_images_hold_the_same_topics_again_once_all_is_committed(full: Any) -> None:
    finish(full, leave(full))
    turn(full)
    ahead = full.controller._image
    assert all(ahead.topics[key] is topic for key, topic in full.image.topics.items())
    assert ahead.fingerprint() == full.image.fingerprint()
