"""When the leader proposes another ISR, and what counts while the controller has not answered (IS-01 to IS-08)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.replication.ports import ProposalAnswer

SECOND = 1_000_000
LAG = 10 * SECOND
World = Any


@pytest.fixture
def led(world: World) -> World:
    """Broker 1 leads with ISR 1, 2 in leader epoch 1; broker 3 is outside; everybody has six records, all committed."""
    world.lead(1, isr=(1, 2))
    world.view.ineligible.append(3)
    world.produce(1, 6)
    world.catch_up(2, 1)
    world.catch_up(3, 1)
    world.view.ineligible.clear()
    world.trace.events.clear()
    assert world.replica(1).high_watermark == 6 and world.replica(1).proposal is None
    return world


def members(world: World, leader: int = 1) -> tuple[int, ...] | None:
    proposal = world.replica(leader).proposal
    return None if proposal is None else proposal.members


class TestExpanding:
    @pytest.mark.parametrize(("offset", "proposed"), [(5, None), (6, (1, 2, 3)), (8, (1, 2, 3))])
    def test_a_follower_joins_when_it_has_reached_the_high_watermark(
        self, led: World, offset: int, proposed: tuple[int, ...] | None
    ) -> None:
        """IS-06, the boundary: everything below the high watermark, that is a fetch *at* it."""
        led.produce(1, 1)
        led.produce(1, 1)
        led.replica(1).follower_fetch(led.now, 3, 103, offset, 1, 1)
        assert led.replica(1).high_watermark == 6
        assert members(led) == proposed

    @pytest.mark.parametrize(("offset", "proposed"), [(8, None), (9, None), (10, (1, 2, 3))])
    def test_a_follower_joins_only_when_it_has_reached_the_start_of_this_epoch(
        self, led: World, offset: int, proposed: tuple[int, ...] | None
    ) -> None:
        """Rule 19.

        A new leader's high watermark lags; reaching it does not mean having what the last leader acknowledged."""
        for _ in range(4):
            led.produce(1, 1)
        led.fetch(2, 1)
        led.lead(2, 2)
        leader = led.replica(2)
        assert (leader.high_watermark, leader.end_offset) == (6, 10)
        leader.follower_fetch(led.now, 3, 103, offset, 1, 2)
        assert members(led, 2) == proposed

    def test_a_proposal_names_the_incarnations_that_fetched(self, led: World) -> None:
        led.ask(2, 1)
        led.ask(3, 1)
        proposal = led.replica(1).proposal
        assert proposal is not None
        assert proposal.isr == ((1, 101), (2, 102), (3, 103))
        assert (proposal.leader_epoch, proposal.partition_epoch) == (1, led.state.partition_epoch)

    @pytest.mark.parametrize("reason", ["fenced or stopping", "another incarnation is registered"])
    def test_a_replica_that_may_not_join_is_not_proposed(self, led: World, reason: str) -> None:
        if reason == "fenced or stopping":
            led.view.ineligible.append(3)
            led.ask(3, 1)
        else:
            led.view.epochs[3] = 50
            led.replica(1).follower_fetch(led.now, 3, 103, 6, 1, 1)
        assert members(led) is None

    def test_a_fetch_of_an_earlier_incarnation_counts_for_nothing_once_the_next_has_fetched(self, led: World) -> None:
        """IS-08, seed 1031160 of `worlds`: the frame is late, and the leader has not heard of the next registration."""
        leader = led.replica(1)
        led.view.epochs[3] = 103
        leader.follower_fetch(led.now, 3, 110, 4, 1, 1)
        late = leader.follower_fetch(led.now, 3, 103, 6, 1, 1)
        assert late.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert dict(leader.follower_epochs())[3] == 110 and leader.follower_ends()[3] == 4

    def test_a_fetch_without_broker_epoch_bypasses_the_check(self, led: World) -> None:
        led.replica(1).follower_fetch(led.now, 3, -1, 6, 1, 1)
        proposal = led.replica(1).proposal
        assert proposal is not None and proposal.isr[-1] == (3, -1)

    def test_a_pending_member_holds_the_high_watermark_at_once(self, led: World) -> None:
        """IS-05: the controller may have committed it already."""
        led.ask(3, 1)
        assert led.replica(1).maximal_isr == (1, 2, 3) and led.replica(1).isr == (1, 2)
        led.now += LAG + 1
        led.produce(1, 1)
        led.catch_up(2, 1)
        assert led.replica(1).high_watermark == 6
        led.catch_up(3, 1)
        assert led.replica(1).high_watermark == 7

    def test_a_pending_member_does_not_count_for_min_isr(self, led: World) -> None:
        led.decide(isr=(1,))
        led.tell(1)
        led.ask(3, 1)
        assert members(led) == (1, 3)
        assert led.produce(1).error == ErrorCode.NOT_ENOUGH_REPLICAS


class TestShrinking:
    def test_a_member_that_falls_behind_is_dropped_after_the_lag_time(self, led: World) -> None:
        """Rule 19."""
        led.produce(1, 1)
        led.now += LAG
        led.replica(1).maybe_shrink(led.now)
        assert members(led) is None
        led.now += 1
        led.replica(1).maybe_shrink(led.now)
        assert members(led) == (1,)

    def test_a_member_that_has_everything_stays_however_long_it_is_silent(self, led: World) -> None:
        led.now += 100 * LAG
        led.replica(1).maybe_shrink(led.now)
        assert members(led) is None

    def test_a_member_that_keeps_up_with_a_busy_leader_stays(self, led: World) -> None:
        """It never has everything, but each time what the leader had at its last fetch."""
        for _ in range(40):
            led.produce(1, 1)
            led.fetch(2, 1)
            led.produce(1, 1)
            led.now += SECOND
            led.replica(1).maybe_shrink(led.now)
        assert led.replica(2).end_offset < led.replica(1).end_offset
        assert members(led) is None

    @pytest.mark.parametrize("restarted", [False, True])
    def test_a_fetch_that_arrives_after_later_ones_says_nothing_of_its_sender(
        self, led: World, restarted: bool
    ) -> None:
        """IS-03. Of another incarnation it says where that one's log ends."""
        led.produce(1, 3)
        led.catch_up(2, 1)
        led.now += 5 * SECOND
        if restarted:
            led.view.epochs[2] = 999
        late = led.replica(1).follower_fetch(led.now, 2, led.view.broker_epoch(2) or -1, 1, 1, 1)
        assert late.error == 0 and late.diverging is None
        assert led.replica(1).follower_ends()[2] == (1 if restarted else led.replica(1).end_offset)
        led.now += 20 * SECOND
        led.replica(1).maybe_shrink(led.now)
        assert members(led) == ((1,) if restarted else None)

    def test_a_member_that_fetches_but_gains_no_ground_is_dropped(self, led: World) -> None:
        for _ in range(30):
            led.produce(1, 1)
        for _ in range(12):
            led.now += SECOND
            led.ask(2, 1)
            led.replica(1).maybe_shrink(led.now)
        assert members(led) == (1,)

    def test_a_pending_shrink_still_counts_the_old_members(self, led: World) -> None:
        """IS-04: until the controller accepts, the lagging replica may be elected."""
        led.produce(1, 1)
        led.now += LAG + 1
        led.replica(1).maybe_shrink(led.now)
        assert members(led) == (1,)
        assert led.replica(1).maximal_isr == (1, 2)
        assert led.replica(1).high_watermark == 6
        led.answer(1)
        assert led.replica(1).isr == (1,)
        assert led.replica(1).high_watermark == 6, "frozen: one replica is below min ISR 2"

    def test_a_new_leader_gives_members_the_lag_time_to_appear(self, led: World) -> None:
        led.lead(2, isr=(1, 2, 3))
        led.produce(2, 1)
        led.now += LAG
        led.replica(2).maybe_shrink(led.now)
        assert members(led, 2) is None
        led.now += 1
        led.replica(2).maybe_shrink(led.now)
        assert members(led, 2) == (2,)

    def test_a_follower_proposes_nothing(self, led: World) -> None:
        led.now += 100 * LAG
        assert not led.replica(2).maybe_shrink(led.now)
        assert members(led, 2) is None

    def test_the_high_watermark_stops_waiting_for_a_replica_that_ceased_to_keep_up(self, led: World) -> None:
        led.view.ineligible.append(3)
        led.ask(3, 1)
        led.produce(1, 1)
        led.view.ineligible.clear()
        led.catch_up(2, 1)
        assert led.replica(1).high_watermark == 6
        led.now += LAG + 1
        assert led.replica(1).maybe_shrink(led.now)
        assert led.replica(1).high_watermark == 7


class TestAnswers:
    def test_one_change_at_a_time(self, led: World) -> None:
        led.ask(3, 1)
        proposal = led.replica(1).proposal
        led.produce(1, 1)
        led.now += LAG + 1
        led.replica(1).maybe_shrink(led.now)
        assert led.replica(1).proposal is proposal

    def test_success_commits(self, led: World) -> None:
        led.ask(3, 1)
        led.answer(1)
        replica = led.replica(1)
        assert (replica.isr, replica.proposal, replica.partition_epoch) == ((1, 2, 3), None, led.state.partition_epoch)
        assert [event["isr"] for event in led.trace.of("isr")] == [(1, 2, 3)]

    def test_metadata_of_the_same_change_arriving_later_changes_nothing(self, led: World) -> None:
        led.ask(3, 1)
        led.answer(1)
        led.produce(1, 1)
        led.now += LAG + 1
        led.replica(1).maybe_shrink(led.now)
        proposal = led.replica(1).proposal
        assert proposal is not None and proposal.members == (1,)
        led.tell(1)
        assert led.replica(1).proposal is proposal, "a proposal made meanwhile stays under way"

    def test_metadata_arriving_before_the_answer_makes_the_answer_meaningless(self, led: World) -> None:
        led.ask(3, 1)
        proposal = led.replica(1).proposal
        led.decide(isr=(1, 2, 3))
        led.tell(1)
        assert led.replica(1).isr == (1, 2, 3) and led.replica(1).proposal is None
        answer = ProposalAnswer(ErrorCode.INELIGIBLE_REPLICA)
        assert not led.replica(1).proposal_answered(led.now, proposal, answer)
        assert led.replica(1).isr == (1, 2, 3)

    @pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
    def test_refused_for_certain_means_as_before(self, led: World, error: int) -> None:
        led.ask(3, 1)
        led.answer(1, error)
        replica = led.replica(1)
        assert (replica.isr, replica.maximal_isr, replica.proposal) == ((1, 2), (1, 2), None)
        led.ask(3, 1)
        assert members(led) == (1, 2, 3), "it may be proposed again"

    @pytest.mark.parametrize(
        "error",
        [
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NEW_LEADER_ELECTED,
        ],
    )
    def test_undecided_errors_wait_for_metadata_and_count_both_ways(self, led: World, error: int) -> None:
        led.ask(3, 1)
        led.answer(1, error)
        replica = led.replica(1)
        assert (replica.isr, replica.maximal_isr, replica.proposal) == ((1, 2), (1, 2, 3), None)
        led.ask(3, 1)
        assert replica.proposal is None, "nothing else is proposed meanwhile"
        led.decide(isr=(1, 2))
        led.tell(1)
        assert replica.maximal_isr == (1, 2)

    @pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, -1, 30_000])
    def test_any_other_error_asks_for_the_same_proposal_again(self, led: World, error: int) -> None:
        led.ask(3, 1)
        proposal = led.replica(1).proposal
        led.answer(1, error)
        assert led.replica(1).proposal is proposal

    @pytest.mark.parametrize(("epoch_step", "partition_step"), [(1, 1), (-1, 1), (0, -1)])
    def test_success_for_another_epoch_is_not_taken(self, led: World, epoch_step: int, partition_step: int) -> None:
        led.ask(3, 1)
        replica = led.replica(1)
        answer = ProposalAnswer(
            0, 1, replica.leader_epoch + epoch_step, replica.partition_epoch + partition_step, (1, 2, 3)
        )
        replica.proposal_answered(led.now, replica.proposal, answer)
        assert replica.isr == (1, 2) and replica.maximal_isr == (1, 2, 3) and replica.proposal is None

    def test_a_shrink_accepted_moves_the_high_watermark(self, world: World) -> None:
        world.lead(1, isr=(1, 2, 3))
        world.produce(1, 4)
        world.catch_up(2, 1)
        world.now += LAG + 1
        world.replica(1).maybe_shrink(world.now)
        world.ask(2, 1)
        assert members(world) == (1, 2)
        assert world.replica(1).high_watermark == 0
        world.answer(1)
        assert world.replica(1).high_watermark == 4
