"""ELECT as the observer asserts it of elections that are given up: lost, or over in time (QC-09, QC-10)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.given_up_elections import GivenUpElections
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.raft.config import NEVER
from squall.nodes.raft.quorum_state import ReplicaKey
from squall.nodes.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from squall.nodes.raft.transitions import BACKOFF_BASE

EPOCH, BEGAN, ENDS = 5, 1_000, 2_000
FETCH_TIMEOUT, BACKOFF_MAX = 12_000, 500_000


class Election:
    """C1 stands in epoch 5, of five voters, from time 1000 to 2000; it has its own vote."""

    def __init__(self, *, pre_vote: bool = False, leader: int | None = None) -> None:
        self.rule = GivenUpElections(None)  # type: ignore[arg-type]
        self.process: Any = SimpleNamespace(name="c1", incarnation=1, now=BEGAN)
        if pre_vote:
            self.role: Any = Prospective(EPOCH, leader, None, 0, ENDS, {}, {1: True})
        else:
            self.role = Candidate(EPOCH, ReplicaKey(1), 0, ENDS, {}, {1: True})
        self.raft = SimpleNamespace(role=self.role, voters=SimpleNamespace(ids=(1, 2, 3, 4, 5)))
        self.turns(BEGAN)

    def turns(self, now: int) -> None:
        self.process.now = now
        config = SimpleNamespace(
            node_id=1,
            controller_quorum_election_timeout_ms=5,
            controller_quorum_fetch_timeout_ms=FETCH_TIMEOUT // 1_000,
            controller_quorum_election_backoff_max_ms=BACKOFF_MAX // 1_000,
        )
        self.rule.turned(self.process, SimpleNamespace(raft=self.raft, config=config, broker=None))  # type: ignore[arg-type]

    def refused_by(self, *voters: int) -> Election:
        self.role.votes |= dict.fromkeys(voters, False)
        return self

    def becomes(self, role: object, now: int = BEGAN + 1) -> None:
        self.raft.role = role
        self.turns(now)

    def backs_off(self, now: int = BEGAN + 1) -> None:
        self.role.backing_off = True
        self.role.election_at = now + 50
        self.turns(now)


def waits() -> Unattached:
    return Unattached(EPOCH, None, 9_000)


def test_a_candidate_that_a_majority_refuses_backs_off() -> None:
    Election().refused_by(2, 3, 4).backs_off()


@pytest.mark.parametrize("voters", [(), (2,), (2, 3)])
def test_a_candidate_that_could_still_win_does_not(voters: tuple[int, ...]) -> None:
    with pytest.raises(InvariantBroken, match=rf"^ELECT: c1 gives up .* 999 us .* {len(voters)} of 5 .*; 3 are"):
        Election().refused_by(*voters).backs_off()


def test_a_candidate_that_grants_itself_more_time_breaks_it() -> None:
    election = Election()
    election.turns(BEGAN + 1)
    election.role.election_at = ENDS + 50
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 stands in quorum epoch 5, .* 2050 us instead of 2000 us$"):
        election.turns(ENDS)


def test_one_that_backs_off_has_another_time() -> None:
    election = Election().refused_by(2, 3, 4)
    election.backs_off()
    election.role.election_at += 50
    election.turns(BEGAN + 60)


def test_its_time_may_be_over() -> None:
    Election().refused_by(2).backs_off(ENDS)


def test_refusals_of_later_turns_count() -> None:
    election = Election()
    election.refused_by(2).turns(BEGAN + 1)
    election.refused_by(3, 4).backs_off(BEGAN + 2)


def test_who_asks_for_pre_votes_gives_up_when_a_majority_refuses() -> None:
    Election(pre_vote=True).refused_by(2, 3, 4).becomes(waits())
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 gives up an election in quorum epoch 5"):
        Election(pre_vote=True).refused_by(2, 3).becomes(waits())


@pytest.mark.parametrize(
    "role",
    [
        Unattached(EPOCH + 1, None, 9_000),
        Candidate(EPOCH + 1, ReplicaKey(1), 0, 9_000, {}, {1: True}),
        Leader(EPOCH, leader_id=1, epoch_start_offset=8, since=0, majority=3, others={}),
        Follower(EPOCH, 2, None, 9_000),
        Resigned(EPOCH, 1, (), 9_000, {}),
    ],
    ids=lambda one: f"{one.name}-{one.epoch}",
)
def test_another_epoch_or_a_leader_ends_it(role: object) -> None:
    Election().becomes(role)
    Election(pre_vote=True).becomes(role)


def test_who_asks_for_pre_votes_may_vote_for_another() -> None:
    """Seed 5 of worlds: a candidate of this epoch asked meanwhile."""
    Election(pre_vote=True).becomes(Unattached(EPOCH, ReplicaKey(2), 9_000))


def test_another_process_or_other_voters_begin_anew() -> None:
    election = Election()
    election.process.incarnation = 2
    election.backs_off()
    election = Election()
    election.raft.voters.ids = (1, 2, 3)
    election.backs_off()
    election = Election()
    election.rule.died(election.process)
    election.backs_off()


def test_a_candidate_that_backs_off_already_is_not_judged_again() -> None:
    election = Election().refused_by(2, 3, 4)
    election.backs_off()
    election.turns(BEGAN + 2)


@pytest.mark.parametrize(
    "role",
    [
        Unattached(EPOCH, None, ENDS),
        Candidate(EPOCH, ReplicaKey(1), 0, ENDS, {}, {1: True}),
        Candidate(EPOCH, ReplicaKey(1), 0, ENDS, {}, {1: True}, backing_off=True),
        Prospective(EPOCH, None, None, 0, ENDS, {}, {1: True}),
        Resigned(EPOCH, 1, (), ENDS, {}),
    ],
    ids=["waits", "stands", "backs off", "asks for pre-votes", "has resigned"],
)
def test_a_voter_that_lets_its_time_pass_breaks_it(role: object) -> None:
    election = Election()
    election.rule.died(election.process)
    election.becomes(role, ENDS - 1)
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 is .* in quorum epoch 5, and has let .* pass, 1 us ago$"):
        election.turns(ENDS + 1)


def test_an_observer_waits_for_no_election() -> None:
    election = Election()
    election.becomes(Unattached(EPOCH, None, NEVER), 9_000)


@pytest.mark.parametrize("further", [0, 1])
@pytest.mark.parametrize(
    "role",
    [
        Unattached(EPOCH, None, BEGAN + FETCH_TIMEOUT),
        Candidate(EPOCH, ReplicaKey(1), 0, BEGAN + FETCH_TIMEOUT, {}, {1: True}),
        Candidate(EPOCH, ReplicaKey(1), 0, BEGAN + 2 * BACKOFF_BASE, {}, {1: True}, backing_off=True),
        Candidate(EPOCH, ReplicaKey(1), 3, BEGAN + BACKOFF_MAX, {}, {1: True}, backing_off=True),
    ],
    ids=["waits", "stands", "backs off from the first election", "backs off from a later one"],
)
def test_a_voter_that_waits_for_longer_than_it_may_breaks_it(role: Any, further: int) -> None:
    election = Election()
    election.rule.died(election.process)
    late = replace(role, election_at=role.election_at + further)
    with (
        pytest.raises(InvariantBroken, match=r"^ELECT: c1 is .* will be for \d+1 us; \d+0 us are the most$")
        if further
        else (nullcontext())
    ):
        election.becomes(late, BEGAN)


@pytest.mark.parametrize("votes", [{}, {1: False}, {2: True}])
@pytest.mark.parametrize("pre_vote", [False, True])
def test_who_stands_and_does_not_count_its_own_vote_breaks_it(votes: dict[int, bool], *, pre_vote: bool) -> None:
    election = Election(pre_vote=pre_vote)
    election.role.votes = votes
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 is .* in quorum epoch 5, and does not count its own vote$"):
        election.turns(BEGAN + 1)


def test_who_has_left_the_voters_has_no_vote_of_its_own() -> None:
    election = Election()
    election.role.votes, election.raft.voters.ids = {}, (2, 3)
    election.turns(BEGAN + 1)
