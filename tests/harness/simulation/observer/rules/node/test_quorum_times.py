"""METRIC as the observer asserts it of the quorum's times: a real controller, and what it says of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.quorum_times import QuorumTimes
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.raft.roles import Candidate, Prospective
from tests.nodes.node.test_node import Host

MS = 1_000


class Quorum:
    """A node that leads a quorum of one; a test says what its replica is, and what the node reports of it."""

    def __init__(self) -> None:
        host = Host()
        host.run()
        self.node = host.node
        self.watch = self.node.quorum_watch
        self.process: Any = SimpleNamespace(name="n1", incarnation=1, now=0, node=self.node)
        cluster = ObservedCluster()
        cluster.processes = {"n1": self.process}
        self.rule = QuorumTimes(cluster)
        self.real = self.node.raft
        self.raft: Any = SimpleNamespace(role=self.real.role, is_leader=False, leader_and_epoch=(None, 5))

    def turn(self, ms: int, **state: Any) -> None:
        """A turn of the node at this time, after which its replica is in this state."""
        for name, value in state.items():
            setattr(self.raft, name, value)
        self.process.now = ms * MS
        self.node.raft = self.raft
        self.rule.turned(self.process, self.node)
        self.node.raft = self.real

    def ends(self, *, commits: tuple[int, ...] = (), elections: tuple[int, ...] = ()) -> None:
        """The run ends, and these are the times in milliseconds that the node reports."""
        for recent, times in ((self.watch.commits, commits), (self.watch.elections, elections)):
            recent.__init__()  # type: ignore[misc]
            for one in times:
                recent.add(one * MS)
        self.rule.at_end()


def with_an_election() -> Quorum:
    """It stands from 10 ms, still does at 20 ms, and knows a leader at 40 ms."""
    quorum = Quorum()
    follower = quorum.raft.role
    candidate = Candidate.__new__(Candidate)
    quorum.turn(0)
    quorum.turn(10, role=candidate)
    quorum.turn(20)
    quorum.turn(40, role=follower, leader_and_epoch=(2, 6))
    quorum.turn(90)
    return quorum


def with_commits() -> Quorum:
    """It leads, and commits up to 5 within 7 ms, and up to 6 within 20 ms."""
    quorum = Quorum()
    quorum.turn(0, is_leader=True, leader_and_epoch=(1, 5), end_offset=3, high_watermark=3)
    quorum.turn(10, end_offset=5)
    quorum.turn(12, end_offset=6)
    quorum.turn(17, high_watermark=5)
    quorum.turn(32, high_watermark=6)
    return quorum


def test_an_election_lasts_until_a_leader_is_known() -> None:
    with_an_election().ends(elections=(30,))


def test_a_voter_that_asks_for_pre_votes_still_names_the_leader_that_it_lost() -> None:
    """Found when the observer looked twice in an instant: every second turn had counted as an election."""
    quorum = Quorum()
    follower = quorum.raft.role
    quorum.turn(10, role=Prospective.__new__(Prospective), leader_and_epoch=(3, 5))
    quorum.turn(20)
    quorum.turn(30)
    quorum.turn(40, role=follower, leader_and_epoch=(2, 6))
    quorum.ends(elections=(30,))


@pytest.mark.parametrize("told", [(29,), (30, 80), (20,)])
def test_another_time_breaks_it(told: tuple[int, ...]) -> None:
    with pytest.raises(InvariantBroken, match=r"^METRIC: n1 says .* ms for the average of elections .* it was 30 ms"):
        with_an_election().ends(elections=told)


def test_a_longest_time_that_is_not_the_longest_breaks_it() -> None:
    with pytest.raises(InvariantBroken, match=r"for the longest of commits .* and it was 20 ms"):
        with_commits().ends(commits=(13, 14))


def test_a_commit_lasts_until_the_high_watermark_is_past_it() -> None:
    with_commits().ends(commits=(7, 20))


def test_what_was_not_committed_when_another_leads_has_no_time() -> None:
    quorum = with_commits()
    quorum.turn(40, end_offset=8)
    quorum.turn(50, is_leader=False)
    quorum.turn(60, is_leader=True, high_watermark=8)
    quorum.ends(commits=(7, 20))


def test_an_incarnation_that_has_elected_nothing_reports_no_number() -> None:
    quorum = with_an_election()
    quorum.process.incarnation = 2
    quorum.turn(100)
    quorum.ends()


def test_what_an_earlier_incarnation_has_measured_is_not_asked_of_the_next() -> None:
    quorum = with_an_election()
    quorum.process.incarnation = 2
    quorum.ends()
