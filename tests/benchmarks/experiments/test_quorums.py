"""Experiments on simulated quorums: what pulling costs, what a removed voter does, what more voters cost."""

from __future__ import annotations

import statistics

import pytest

from squall.benchmarks.experiments import commit_lag, disruptive_server, quorum_size
from squall.benchmarks.experiments.disruptive_server import ARMS, SCENARIOS, disrupted
from squall.nodes.raft.config import KRAFT, Replication, Variant


def test_pull_and_push_commit_alike_and_pull_announces_its_leader_first() -> None:
    """PP-03: the followers of either learn of a commit half a round trip later; an epoch begins later with pull."""
    pull, push = (commit_lag.measured(variant, 2.0, 1) for variant in (KRAFT, Variant(Replication.PUSH)))
    for lags in (pull, push):
        assert 20 <= statistics.median(lags.leader) < 25
        assert 30 <= statistics.median(lags.followers) < 35
    assert pull.first_commit[0] > push.first_commit[0] + 5


def test_a_leader_that_announces_no_commits_leaves_followers_behind() -> None:
    """PP-03: with Kafka's leader a follower learns of a commit with the next record, or after its longest wait."""
    lags = commit_lag.measured(Variant(announces_commits=False), 2.0, 0)
    assert statistics.median(lags.followers) > 2 * statistics.median(lags.leader)


@pytest.mark.parametrize("arm", ARMS)
def test_only_push_without_pre_vote_lets_a_removed_voter_disrupt(arm: str) -> None:
    """PP-02."""
    found = disrupted(SCENARIOS[0], ARMS[arm], 1, 12.0)
    assert (found.elections >= 5) == (arm == "push, no pre-vote")


@pytest.mark.parametrize("arm", ["pull, no pre-vote", "pull, pre-vote"])
def test_only_pre_vote_keeps_a_returning_voter_from_standing(arm: str) -> None:
    found = disrupted(SCENARIOS[1], ARMS[arm], 1, 20.0)
    assert (found.elections >= 5) == (arm == "pull, no pre-vote")
    assert (found.epoch > 2) == (arm == "pull, no pre-vote")


def test_a_quorum_of_five_commits_as_fast_as_one_of_three_and_with_two_slow_voters() -> None:
    """FM-04."""
    three, five, limping = (
        statistics.median(quorum_size.commit_times(voters, slow, 2.0)) for voters, slow in ((3, 0), (5, 0), (5, 2))
    )
    assert five < 1.5 * three
    assert limping < 1.5 * five


def test_every_figure_of_disruption_has_its_rule() -> None:
    found = disruptive_server.Disruption(57.0, 0.36, 3, 2.0, 40)
    first = next(iter(disruptive_server.figures(SCENARIOS[0], "pull, pre-vote", [found])))
    assert not first.passed and first.reference
    assert next(iter(disruptive_server.figures(SCENARIOS[0], "push, no pre-vote", [found]))).passed
