"""PENDING as the observer asserts it: a replica waits for requests that are under way, one of a kind to each voter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.quorum_requests import EVERY, QuorumRequests
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.raft.quorum_state import ReplicaKey
from squall.nodes.raft.roles import Candidate, Follower, Leader, Peer, ReplicaProgress, Unattached
from squall.nodes.raft.voters import VoterSet

SECOND = 1_000_000
BEGIN, VOTE, FETCH = ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.VOTE, ApiKey.FETCH


class Voter:
    """Voter 1 of 1, 2 and 3, with these requests under way, as (node, API key)."""

    def __init__(self, role: Any, *under_way: tuple[int, ApiKey]) -> None:
        self.under_way = [(node, int(key)) for node, key in under_way]
        cluster = ObservedCluster()
        cluster.turns["c1"] = EVERY
        self.rule = QuorumRequests(cluster)
        self.process: Any = SimpleNamespace(name="c1", now=0)
        self.node: Any = SimpleNamespace(
            raft=SimpleNamespace(role=role, voters=VoterSet(())),
            links=SimpleNamespace(to_voters=lambda: iter(self.under_way)),
            config=SimpleNamespace(controller_quorum_request_timeout_ms=2_000),
        )

    def turn(self, *, second: int = 0) -> None:
        self.process.now = second * SECOND
        self.rule.turned(self.process, self.node)


def leader(*in_flight: int) -> Leader:
    others = {voter: ReplicaProgress(begin=Peer(in_flight=voter in in_flight)) for voter in (2, 3)}
    return Leader(5, 1, 0, 0, 2, others)


def candidate(**votes: bool) -> Candidate:
    peers = {2: Peer(in_flight=True), 3: Peer(in_flight=True)}
    return Candidate(5, ReplicaKey(1), 0, 0, peers, {int(one.removeprefix("of_")): vote for one, vote in votes.items()})


def test_a_note_without_a_request_breaks_it() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^PENDING: c1, leader of quorum epoch 5, waits for node 3 to answer BEGIN"
    ):
        Voter(leader(2, 3), (2, BEGIN)).turn()


@pytest.mark.parametrize("kind", [BEGIN, ApiKey.APPEND_ENTRIES])
def test_a_leader_tells_or_sends(kind: ApiKey) -> None:
    Voter(leader(2, 3), (2, kind), (3, kind)).turn()


def test_a_request_of_another_kind_is_none() -> None:
    with pytest.raises(
        InvariantBroken, match="waits for node 2 to answer BEGIN_QUORUM_EPOCH or APPEND_ENTRIES, and no"
    ):
        Voter(leader(2), (2, VOTE)).turn()


def test_a_candidate_waits_for_votes_that_it_does_not_have() -> None:
    Voter(candidate(of_1=True, of_2=False), (3, VOTE)).turn()
    with pytest.raises(InvariantBroken, match="waits for node 2 to answer VOTE"):
        Voter(candidate(of_1=True), (3, VOTE)).turn()


@pytest.mark.parametrize("kind", [FETCH, ApiKey.FETCH_SNAPSHOT])
@pytest.mark.parametrize(
    "role", [Follower(5, 2, 0, Peer(in_flight=True)), Unattached(5, None, 0, 0, Peer(in_flight=True))]
)
def test_who_fetches_may_ask_any_voter(role: Any, kind: ApiKey) -> None:
    Voter(role, (3, kind)).turn()
    with pytest.raises(InvariantBroken, match="to answer FETCH or FETCH_SNAPSHOT"):
        Voter(role).turn()


def test_a_second_request_of_a_kind_breaks_it() -> None:
    voter = Voter(leader(2), (2, BEGIN), (2, BEGIN))
    voter.turn()
    voter.turn(second=4)
    with pytest.raises(
        InvariantBroken, match=r"^PENDING: c1, .* has 2 BEGIN_QUORUM_EPOCH requests to node 2 under way"
    ):
        voter.turn(second=5)


def test_requests_of_an_earlier_role_may_be_under_way_for_a_while() -> None:
    voter = Voter(leader(2), (2, BEGIN), (2, BEGIN))
    voter.turn()
    voter.node.raft.role = leader(2)
    voter.turn(second=5)


def test_so_may_those_of_before_a_change_of_the_voters() -> None:
    voter = Voter(leader(2), (2, BEGIN), (2, BEGIN))
    voter.turn()
    voter.node.raft.voters = VoterSet((SimpleNamespace(id=2, directory_id=b""),))  # type: ignore[arg-type]
    voter.turn(second=5)


def test_it_is_asserted_now_and_then() -> None:
    voter = Voter(leader(2))
    voter.rule.cluster.turns["c1"] = EVERY + 1
    voter.turn()
