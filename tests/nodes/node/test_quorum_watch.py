"""Commit and election latencies, seen from outside a quorum replica that is played by a stand-in."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from squall.nodes.node.quorum_watch import QuorumWatch


class Replica:
    """What the watch looks at."""

    def __init__(self) -> None:
        self.role = SimpleNamespace(name="follower")
        self.leader_and_epoch: tuple[int | None, int] = (None, 0)
        self.is_leader = False
        self.end_offset = self.high_watermark = 0

    def become(self, role: str, leader: int | None, epoch: int) -> None:
        self.role = SimpleNamespace(name=role)
        self.leader_and_epoch = leader, epoch
        self.is_leader = role == "leader"


@pytest.fixture
def replica() -> Replica:
    return Replica()


@pytest.fixture
def watch(replica: Replica) -> QuorumWatch:
    return QuorumWatch(replica)  # type: ignore[arg-type]


def test_a_commit_lasts_from_the_write_until_the_high_watermark_has_passed_it(
    replica: Replica, watch: QuorumWatch
) -> None:
    replica.become("leader", 1, 1)
    replica.end_offset = 3
    watch.observe(100)
    replica.end_offset = 5
    watch.observe(150)
    replica.high_watermark = 3
    watch.observe(170)
    replica.high_watermark = 5
    watch.observe(400)
    assert watch.commits.values() == [70, 250]


def test_what_a_leader_did_not_see_committed_is_not_counted(replica: Replica, watch: QuorumWatch) -> None:
    replica.become("leader", 1, 1)
    replica.end_offset = 3
    watch.observe(100)
    replica.become("follower", 2, 2)
    watch.observe(200)
    replica.high_watermark = replica.end_offset = 9
    replica.become("leader", 1, 3)
    watch.observe(300)
    assert watch.commits.values() == []


@pytest.mark.parametrize("winner", [1, 2])
def test_an_election_lasts_from_standing_to_knowing_a_leader_whoever_wins(
    replica: Replica, watch: QuorumWatch, winner: int
) -> None:
    replica.become("prospective", None, 1)
    watch.observe(1000)
    replica.become("candidate", None, 2)
    watch.observe(1200)
    replica.become("candidate", None, 3)
    watch.observe(1900)
    replica.become("leader" if winner == 1 else "follower", winner, 3)
    watch.observe(2500)
    watch.observe(2600)
    assert watch.elections.values() == [1500]


def test_a_voter_that_asks_for_pre_votes_still_names_the_leader_that_it_lost(
    replica: Replica, watch: QuorumWatch
) -> None:
    """KIP-996. Every second turn had counted as an election, and the average was far too short."""
    replica.become("prospective", 3, 1)
    for now in (1000, 1200, 1400):
        watch.observe(now)
    replica.become("candidate", None, 2)
    watch.observe(1900)
    replica.become("follower", 2, 2)
    watch.observe(2500)
    assert watch.elections.values() == [1500]


def test_one_that_goes_back_to_the_leader_that_it_had_lost_has_stood_until_then(
    replica: Replica, watch: QuorumWatch
) -> None:
    replica.become("prospective", 3, 1)
    watch.observe(1000)
    replica.become("follower", 3, 1)
    watch.observe(1700)
    assert watch.elections.values() == [700]
