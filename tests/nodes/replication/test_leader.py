"""A leader's appends, fencing, high watermark and the offsets it tells (DP-06, DP-07, DP-08, DP-14, EP-03)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.replication.ports import OffsetAnswer, ReplicationConfig
from squall.nodes.replication.replica import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TopicPartitionReplica,
)

LAG = 10_000_000
World = Any


@pytest.fixture
def led(world: World) -> World:
    """Broker 1 leads with ISR 1, 2, 3 in leader epoch 1; min ISR is 2."""
    world.lead(1)
    return world


class TestAppending:
    def test_only_the_leader_appends(self, led: World) -> None:
        assert led.produce(2).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert led.replica(2).end_offset == 0

    def test_the_epoch_is_recorded_before_anything_is_appended(self, led: World) -> None:
        """Rule 9."""
        assert led.replica(1).log.epochs.entries == [(1, 0)]
        led.produce(1, 3)
        led.lead(1)
        assert led.replica(1).log.epochs.entries == [(1, 0), (2, 3)]

    @pytest.mark.parametrize(("acks", "error"), [(-1, 19), (1, 0), (0, 0)])
    def test_below_min_isr_acks_all_is_refused_before_the_append(self, led: World, acks: int, error: int) -> None:
        """Rule 2, before the append."""
        led.decide(isr=(1,))
        led.tell()
        answer = led.produce(1, acks=acks)
        assert answer.error == error
        assert led.replica(1).end_offset == (0 if error else 1)

    def test_min_isr_cannot_exceed_the_replicas(self, led: World) -> None:
        led.decide(isr=(1,), replicas=(1,), min_insync_replicas=3)
        led.tell(1)
        assert led.produce(1).error == 0
        assert led.replica(1).high_watermark == 1

    def test_a_refused_batch_answers_its_error_and_reason(self, led: World) -> None:
        answer = led.replica(1).append(led.now, bytearray(80), -1)
        assert (answer.error, answer.message is not None) == (ErrorCode.CORRUPT_MESSAGE, True)


class TestAcknowledging:
    def test_acks_all_waits_for_the_high_watermark(self, led: World) -> None:
        answer = led.produce(1, 5)
        assert led.replica(1).produce_status(answer.leader_epoch, answer.required_offset) is None
        led.catch_up(2, 1)
        assert led.replica(1).produce_status(answer.leader_epoch, answer.required_offset) is None
        led.catch_up(3, 1)
        assert led.replica(1).produce_status(answer.leader_epoch, answer.required_offset) == ErrorCode.NONE

    def test_an_isr_below_min_isr_afterwards_leaves_the_outcome_unknown(self, led: World) -> None:
        """Rule 2, after it."""
        answer = led.produce(1)
        led.catch_up(2, 1)
        led.catch_up(3, 1)
        led.decide(isr=(1,))
        led.tell(1)
        status = led.replica(1).produce_status(answer.leader_epoch, answer.required_offset)
        assert status == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def test_lost_leadership_leaves_the_outcome_unknown_even_if_it_comes_back(self, led: World) -> None:
        answer = led.produce(1)
        led.lead(2)
        asked = (answer.leader_epoch, answer.required_offset)
        assert led.replica(1).produce_status(*asked) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        led.lead(1)
        assert led.replica(1).produce_status(*asked) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_new_epoch_of_the_same_leader_keeps_waiting(self, led: World) -> None:
        answer = led.produce(1)
        led.lead(1)
        assert led.replica(1).produce_status(answer.leader_epoch, answer.required_offset) is None


class TestHighWatermark:
    def test_it_is_the_least_log_end_in_the_isr(self, led: World) -> None:
        led.produce(1, 4)
        led.catch_up(2, 1)
        led.produce(1, 2)
        led.catch_up(3, 1)
        assert led.replica(1).high_watermark == 4
        led.catch_up(2, 1)
        assert led.replica(1).high_watermark == 6

    def test_a_fetch_proves_what_is_below_its_offset_not_what_it_asks_for(self, led: World) -> None:
        """Rule 10."""
        led.produce(1, 4)
        led.fetch(2, 1)
        led.fetch(3, 1)
        assert led.replica(2).end_offset == 4
        assert led.replica(1).high_watermark == 0
        led.ask(2, 1)
        led.ask(3, 1)
        assert led.replica(1).high_watermark == 4

    def test_a_fetch_says_that_it_moved_the_high_watermark(self, led: World) -> None:
        led.produce(1)
        led.catch_up(2, 1)
        led.fetch(3, 1)
        bounds = led.ask(3, 1)
        assert bounds.advanced and bounds.high_watermark == 1
        assert not led.ask(3, 1).advanced

    def test_it_is_frozen_while_the_isr_is_below_min_isr(self, led: World) -> None:
        """Rule 10; it is what makes ELR safe (EL-03).

        Even for acks=1 (rule 10): what makes the last replica of the ISR a safe choice later."""
        led.decide(isr=(1,))
        led.tell()
        led.now += LAG + 1
        led.produce(1, 3, acks=1)
        assert led.replica(1).high_watermark == 0
        led.decide(isr=(1, 2))
        led.tell()
        led.catch_up(2, 1)
        assert led.replica(1).high_watermark == 3

    def test_it_waits_for_a_replica_that_is_about_to_join(self, led: World) -> None:
        """Rule 10: one that keeps up and may join holds it back, or it would never reach it on a busy leader."""
        led.decide(isr=(1, 2))
        led.tell()
        led.produce(1, 2)
        led.catch_up(3, 1)
        led.produce(1, 2)
        led.catch_up(2, 1)
        assert led.replica(1).high_watermark == 2
        led.now += LAG + 1
        led.ask(2, 1)
        assert led.replica(1).proposal is not None, "3 was proposed, and counts at once"
        assert led.replica(1).high_watermark == 2

    def test_it_does_not_wait_for_a_replica_that_may_not_join(self, led: World) -> None:
        led.decide(isr=(1, 2))
        led.tell()
        led.view.ineligible.append(3)
        led.produce(1, 2)
        led.catch_up(3, 1)
        led.produce(1, 2)
        led.catch_up(2, 1)
        assert led.replica(1).high_watermark == 4

    def test_a_leader_never_lowers_it(self, led: World) -> None:
        led.produce(1, 4)
        led.catch_up(2, 1)
        led.catch_up(3, 1)
        led.replicas.pop(3)
        led.disks.pop(3)
        led.tell(3)
        led.ask(3, 1)
        assert led.replica(1).high_watermark == 4

    def test_a_new_epoch_forgets_what_followers_had(self, led: World) -> None:
        led.produce(1, 4)
        led.lead(1)
        led.ask(2, 1)
        led.ask(3, 1)
        assert led.replica(1).high_watermark == 0
        assert not led.tell(1).high_watermark_advanced

    def test_alone_in_the_isr_a_leader_advances_by_itself(self, led: World) -> None:
        led.lead(1, isr=(1,), min_insync_replicas=1)
        assert led.produce(1, 3).advanced
        assert led.replica(1).high_watermark == 3

    def test_a_parked_fetch_looked_at_again_counts_for_nothing(self, led: World) -> None:
        led.produce(1, 2)
        led.fetch(2, 1)
        led.fetch(3, 1)
        led.ask(2, 1)
        assert led.ask(3, 1, arrived=False).upper == 2
        assert led.replica(1).high_watermark == 0

    def test_mutant_high_watermark_is_the_leaders_own_end(self, world_with: Any) -> None:
        world = world_with(Mutants(frozenset({"hw-before-isr-ack"})))
        world.lead(1)
        assert world.produce(1, 3).advanced
        assert world.replica(1).high_watermark == 3


class TestFencing:
    @pytest.mark.parametrize(
        ("epoch", "error"),
        [(-1, 0), (1, ErrorCode.FENCED_LEADER_EPOCH), (2, 0), (3, ErrorCode.UNKNOWN_LEADER_EPOCH)],
    )
    def test_every_request_is_held_against_the_leader_epoch(self, led: World, epoch: int, error: int) -> None:
        """Rule 12, EP-03."""
        led.lead(1)
        leader = led.replica(1)
        assert leader.follower_fetch(led.now, 2, 102, 0, -1, epoch).error == error
        assert leader.consumer_fetch(0, epoch).error == error
        assert leader.list_offset(EARLIEST_TIMESTAMP, epoch).error == error
        assert leader.offset_for_leader_epoch(epoch, 1).error == error

    def test_an_epoch_that_has_not_begun_has_no_end(self, led: World) -> None:
        led.lead(1)
        leader = led.replica(1)
        ends = [leader.offset_for_leader_epoch(-1, epoch) for epoch in (2, 3)]
        assert [(one.error, one.leader_epoch, one.end_offset) for one in ends] == [(0, 2, 0), (0, -1, -1)]

    def test_a_follower_serves_nobody(self, led: World) -> None:
        bounds = led.replica(2).consumer_fetch(0, 1)
        assert (bounds.error, bounds.leader, bounds.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 1)

    def test_a_stranger_is_told_that_metadata_may_be_on_its_way(self, led: World) -> None:
        assert led.replica(1).follower_fetch(led.now, 9, 109, 0, -1, 1).error == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_a_fetch_of_an_earlier_incarnation_counts_for_nothing(self, led: World) -> None:
        led.produce(1, 2)
        assert led.replica(1).follower_fetch(led.now, 2, 101, 0, -1, 1).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert led.replica(1).follower_fetch(led.now, 2, -1, 0, -1, 1).error == 0, "-1 bypasses the check"

    def test_a_leader_that_has_heard_of_its_successor_appends_nothing(self, led: World) -> None:
        led.lead(2)
        assert led.produce(1).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestConsumers:
    def test_they_see_only_what_is_below_the_high_watermark(self, led: World) -> None:
        led.produce(1, 2)
        led.catch_up(2, 1)
        led.catch_up(3, 1)
        led.produce(1, 3)
        bounds = led.replica(1).consumer_fetch(0, 1)
        assert (bounds.upper, bounds.high_watermark) == (2, 2)
        assert len(led.replica(1).read(0, 10_000, bounds.upper, at_least_one=True)) > 0

    @pytest.mark.parametrize(
        ("offset", "error"), [(-1, 1), (0, 0), (2, 0), (4, 0), (5, 0), (6, ErrorCode.OFFSET_OUT_OF_RANGE)]
    )
    def test_reads_past_the_high_watermark_are_empty_and_past_the_end_fail(
        self, led: World, offset: int, error: int
    ) -> None:
        led.produce(1, 2)
        led.catch_up(2, 1)
        led.catch_up(3, 1)
        led.produce(1, 3)
        bounds = led.replica(1).consumer_fetch(offset, -1)
        assert bounds.error == error
        if offset >= 2 and not error:
            assert len(led.replica(1).read(offset, 100, bounds.upper, at_least_one=True)) == 0


class TestListingOffsets:
    def test_latest_and_earliest(self, led: World) -> None:
        led.produce(1, 2)
        led.catch_up(2, 1)
        led.catch_up(3, 1)
        led.produce(1, 3)
        leader = led.replica(1)
        assert leader.list_offset(LATEST_TIMESTAMP, 1).offset == 2
        assert leader.list_offset(LATEST_TIMESTAMP, 1, replica_id=2).offset == 5, "a follower sees the log's end"
        assert leader.list_offset(EARLIEST_TIMESTAMP, 1).offset == 0
        assert leader.list_offset(MAX_TIMESTAMP, 1).offset == 0
        assert leader.list_offset(10**15, 1) == OffsetAnswer(ErrorCode.NONE), "no record is so new"

    def test_a_new_leader_knows_the_end_when_its_high_watermark_is_in_epoch(self, led: World) -> None:
        """Rule 11, KIP-207."""
        led.produce(1, 2)
        led.catch_up(2, 1)
        led.catch_up(3, 1)
        led.produce(1, 2)
        led.fetch(2, 1)
        led.lead(2)
        leader = led.replica(2)
        assert (leader.high_watermark, leader.end_offset) == (2, 4)
        assert leader.list_offset(LATEST_TIMESTAMP, 2).error == ErrorCode.OFFSET_NOT_AVAILABLE
        assert leader.list_offset(10**15, 2).error == ErrorCode.OFFSET_NOT_AVAILABLE
        assert leader.list_offset(EARLIEST_TIMESTAMP, 2).error == 0
        assert leader.list_offset(LATEST_TIMESTAMP, 2, replica_id=3).offset == 4
        led.catch_up(3, 2)
        led.catch_up(1, 2)
        assert leader.list_offset(LATEST_TIMESTAMP, 2).offset == 4


class TestApplying:
    def test_older_states_are_ignored(self, led: World) -> None:
        """Rule 9."""
        old = led.state
        led.lead(2)
        assert led.replica(1).apply(led.now, old).stale
        assert not led.replica(1).is_leader

    def test_a_state_older_than_the_log_itself_is_ignored(self, led: World) -> None:
        """A restarted broker that replays old metadata must not lead again in an old epoch."""
        old = led.state
        led.produce(1, 2)
        led.lead(1)
        led.produce(1, 2)
        led.replica(1).log.close()
        led.replicas.clear()
        assert led.replica(1).apply(led.now, old).stale
        assert not led.replica(1).is_leader
        assert led.replica(1).log.epochs.entries == [(1, 0), (2, 2)]
        led.lead(1)
        assert led.replica(1).log.epochs.entries == [(1, 0), (2, 2), (3, 4)]

    def test_a_leader_cannot_change_within_an_epoch(self, led: World) -> None:
        led.state = led.decide()
        object.__setattr__(led.state, "leader", 2)
        with pytest.raises(ValueError, match="leader 1 became 2 within leader epoch 1"):
            led.tell(1)

    def test_what_changed_is_told(self, world: World) -> None:
        world.decide(leader=1)
        applied = world.tell(1)
        assert applied.became_leader and applied.new_leader_epoch
        world.decide(leader=2)
        applied = world.tell(1)
        assert applied.new_leader_epoch and not applied.became_leader
        applied = world.tell(1)
        assert not applied.new_leader_epoch and not applied.stale

    def test_no_leader_at_all(self, led: World) -> None:
        led.lead(-1)
        assert led.produce(1).error == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_the_checkpointed_high_watermark_is_bounded_by_the_log(self, world: World) -> None:
        world.lead(1)
        world.produce(1, 3)
        one = world.replica(1)
        for kept, expected in ((2, 2), (3, 3), (99, 3), (-5, 0)):
            again = TopicPartitionReplica(
                1,
                world.state,
                one.log,
                ReplicationConfig(),
                world.view,
                clock=one._clock,
                trace=world.trace,
                high_watermark=kept,
            )
            assert again.high_watermark == expected
