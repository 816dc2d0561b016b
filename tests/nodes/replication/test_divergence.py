"""Logs that part and meet again: truncation by epoch and end offset (DP-13, KIP-101, KIP-279), and what D4 and D5 draw.

A log is written as its batches, one letter per epoch: "aabbb" is two records of epoch 1 and three of epoch 2.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.records import Record, build_batch

World = Any


def fill(world: World, broker: int, letters: str) -> None:
    """A log as drawn; what epoch and offset say is the same on all brokers, as only one leader wrote it."""
    log = world.replica(broker).log
    for at, letter in enumerate(letters):
        log.append_as_leader(build_batch([Record(value=f"{letter}{at}".encode())]), ord(letter) - 96, 0)


def drawn(world: World, broker: int) -> str:
    return "".join(chr(96 + epoch) for _, epoch, _ in world.content(broker))


def lead_with(world: World, leader: str, follower: str, epoch: int) -> None:
    fill(world, 1, leader)
    fill(world, 2, follower)
    world.state = world.decide(leader=1, leader_epoch=epoch)
    world.tell(1, 2)


@pytest.mark.parametrize(
    ("leader", "follower", "cuts"),
    [
        ("aaa", "", []),
        ("aaa", "aa", []),
        ("aaa", "aaa", []),
        ("aa", "aaa", [2]),  # a longer log of the same epoch
        ("aabb", "aaa", [2]),
        ("aacc", "aabbb", [2]),  # the follower's last epoch is unknown to the leader
        ("aaaaaacc", "aaaabb", [4]),
        ("bbb", "aaa", [0]),  # nothing in common
        ("aabbdd", "aaccc", [2]),
        # KIP-279: several rounds. The leader knows 1, 2, 4; the follower 1, 3 and then 5.
        ("aabbbdd", "aaccceee", [5, 2]),
        ("abcdefgh", "abcdxyz", [4]),
        ("aaaaabbbb", "aaa", []),
    ],
)
def test_a_follower_cuts_back_to_what_both_have(world: World, leader: str, follower: str, cuts: list[int]) -> None:
    """Rule 13, round by round (KIP-279)."""
    lead_with(world, leader, follower, epoch=30)
    world.trace.events.clear()
    world.catch_up(2, 1)
    assert drawn(world, 2) == leader
    assert world.content(1) == world.content(2)
    seen = [event["to"] for event in world.trace.of("truncate") if event["to"] != event["end"]]
    assert seen == cuts


def test_the_leader_answers_the_end_of_the_largest_epoch_not_above_the_followers(world: World) -> None:
    """D4: the follower asks with an epoch the leader does not have; the leader's epoch 2 ends at 6."""
    lead_with(world, "aaabbbddd", "aaabbbbccc", epoch=4)
    bounds = world.ask(2, 1)
    assert bounds.diverging == (2, 6)
    assert bounds.upper == bounds.offset, "no records with a divergence"


def test_the_leader_answers_where_a_common_epoch_ends(world: World) -> None:
    """D5: the follower has epoch 2 up to offset 7, the leader only up to 6."""
    lead_with(world, "aaabbbccc", "aaabbbb", epoch=3)
    assert world.ask(2, 1).diverging == (2, 6)
    world.catch_up(2, 1)
    assert world.content(1) == world.content(2)


def test_a_diverging_fetch_changes_nothing_at_the_leader(world: World) -> None:
    """Rule 13."""
    world.decide(isr=(1, 3))
    lead_with(world, "aabb", "aacccc", epoch=4)
    leader = world.replica(1)
    before = leader.high_watermark
    assert world.ask(2, 1).diverging is not None
    assert leader.proposal is None and leader.high_watermark == before
    assert leader._remotes[2].end_offset == -1


def test_an_old_leader_that_never_appended_forgets_its_epoch(world: World) -> None:
    """Rule 14: otherwise its next fetch would diverge for ever."""
    world.lead(1)
    world.produce(1, 2)
    world.catch_up(2, 1)
    world.lead(2)
    world.lead(1, 1)
    assert world.replica(2).log.epochs.entries == [(1, 0), (2, 2)]
    world.tell(2)
    assert world.catch_up(2, 1) == 1
    assert world.replica(2).log.epochs.entries == [(1, 0)]
    assert world.replica(2).end_offset == 2
    world.produce(1, 1)
    world.catch_up(2, 1)
    assert world.replica(2).log.epochs.entries == [(1, 0), (3, 2)]


def test_the_high_watermark_follows_the_log_end_down(world: World) -> None:
    lead_with(world, "aab", "aaa", epoch=3)
    world.replica(2).high_watermark = 3
    world.fetch(2, 1)
    assert world.replica(2).high_watermark == 2


def test_follower_high_watermark_is_the_lesser_of_the_leaders_and_its_own_end(world: World) -> None:
    """Rule 11."""
    world.lead(1)
    world.produce(1, 4)
    world.catch_up(2, 1)
    world.catch_up(3, 1)
    assert world.replica(1).high_watermark == 4
    assert world.replica(2).high_watermark == 0, "it lags by one fetch"
    world.ask(2, 1)
    world.fetch(2, 1)
    assert world.replica(2).high_watermark == 4
    world.replica(2).append_fetched(world.now, b"", 99)
    assert world.replica(2).high_watermark == 4


class TestOutOfRange:
    def test_below_the_leaders_start_whatever_the_epochs_say(self, world: World) -> None:
        lead_with(world, "", "aa", epoch=3)
        world.replica(1).log.restart_at(10)
        world.replica(1).log.assign_epoch(3, 10)
        assert world.ask(2, 1).error == ErrorCode.OFFSET_OUT_OF_RANGE
        world.replica(2).restart_from_leader_start(world.now, 10)
        assert world.replica(2).fetch_position().offset == 10
        assert world.ask(2, 1).error == 0

    def test_a_log_that_overlaps_the_leaders_is_kept(self, world: World) -> None:
        lead_with(world, "aaa", "aa", epoch=3)
        world.replica(2).restart_from_leader_start(world.now, 1)
        assert drawn(world, 2) == "aa"

    @pytest.mark.parametrize("start", [2, 3, 4, 5])
    @pytest.mark.parametrize("follower", ["aaaaaaaa", "aa", "aaa", "aaaa", "aaaaa", "aabbbbbb"])
    def test_a_log_that_diverged_below_the_leaders_start_begins_anew_there(
        self, world: World, start: int, follower: str
    ) -> None:
        """Seed 810729: the start lay inside a batch, and the follower, cut there, refused that batch for ever."""
        lead_with(world, "aa", follower, epoch=3)
        leader = world.replica(1).log
        leader.append_as_leader(build_batch([Record(value=b"c")] * 3), 3, 0)
        leader.append_as_leader(build_batch([Record(value=b"c")] * 2), 3, 0)
        world.replica(1).high_watermark = 7
        leader.advance_start(start)
        for _ in range(5):
            if world.ask(2, 1).error:
                world.replica(2).restart_from_leader_start(world.now, start)
            world.fetch(2, 1)
        assert world.replica(2).end_offset == 7
        assert world.replica(2).log.start_offset == start
        assert world.content(2) == world.content(1)
        assert not world.trace.of("records_refused")

    @pytest.mark.parametrize(("end", "cut", "left"), [(1, True, "a"), (2, False, "aa"), (5, False, "aa")])
    def test_a_log_longer_than_the_leaders_is_cut_to_its_end(
        self, world: World, end: int, cut: bool, left: str
    ) -> None:
        lead_with(world, "aaaaa", "aa", epoch=3)
        assert world.replica(2).truncate_to_leader_end(world.now, end) is cut
        assert drawn(world, 2) == left


class TestTruncatingToTheHighWatermark:
    """N06 (X01): why that was abandoned. Two quick leader changes lose what was acknowledged."""

    def acknowledged_after_two_failovers(self, world: World) -> tuple[bool, list[tuple[int, int, bytes | None]]]:
        world.decide(min_insync_replicas=1, replicas=(1, 2), isr=(1, 2))
        world.lead(1, 1, 2)
        answer = world.produce(1, 3)
        world.fetch(2, 1)
        world.ask(2, 1)
        acknowledged = world.replica(1).produce_status(answer.leader_epoch, answer.required_offset) == 0
        assert world.replica(2).high_watermark == 0, "2 has the records but has not heard that they are committed"
        world.lead(1, 2)  # a bump of the epoch reaches 2 first
        world.lead(2, 1, 2)  # then 1 fails and 2 leads
        world.catch_up(1, 2)
        return acknowledged, world.content(2)

    def test_truncation_by_epoch_keeps_what_was_acknowledged(self, world: World) -> None:
        acknowledged, content = self.acknowledged_after_two_failovers(world)
        assert acknowledged and len(content) == 3

    def test_mutant_loses_it(self, world_with: Any) -> None:
        world = world_with(Mutants(frozenset({"truncate-to-hw"})))
        acknowledged, content = self.acknowledged_after_two_failovers(world)
        assert acknowledged and content == []


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_history_of_leaders_ends_in_equal_logs(world_with: Any, data: st.DataObject) -> None:
    """LM: replicas that agree on (offset, epoch) agree on everything before; and followers converge on the leader."""
    world = world_with()
    world.decide(min_insync_replicas=1)
    for _ in range(data.draw(st.integers(1, 8), label="epochs")):
        leader = data.draw(st.sampled_from((1, 2, 3)), label="leader")
        heard = data.draw(st.lists(st.sampled_from((1, 2, 3)), max_size=2), label="told")
        world.lead(leader, leader, *heard)
        for _ in range(data.draw(st.integers(0, 6), label="steps")):
            follower = data.draw(st.sampled_from((0, 1, 2, 3)), label="0 produces, else who fetches")
            if follower == 0:
                world.produce(leader, data.draw(st.integers(1, 3)), acks=1)
            elif follower != leader and world.replica(follower).state == world.state:
                world.fetch(follower, leader)
        check_log_matching(world)
    world.lead(leader, 1, 2, 3)
    world.produce(leader, 1, acks=1)
    for follower in (1, 2, 3):
        if follower != leader:
            world.catch_up(follower, leader)
            assert world.content(follower) == world.content(leader)
            assert world.replica(follower).log.epochs.entries == world.replica(leader).log.epochs.entries


def check_log_matching(world: World) -> None:
    contents = [world.content(broker) for broker in (1, 2, 3)]
    for one in contents:
        for other in contents:
            for at in range(min(len(one), len(other)) - 1, -1, -1):
                if one[at][:2] == other[at][:2]:
                    assert one[: at + 1] == other[: at + 1]
                    break
