"""Pre-vote: whoever was cut off comes back without an election (KIP-996, rule 41, PP-02)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.vote import VoteResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft import messages
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.metadata_log import MetadataLog
from squall.nodes.raft.quorum_state import QuorumState, QuorumStateStore, ReplicaKey
from squall.nodes.raft.replica import RaftReplica
from squall.nodes.raft.roles import Candidate, Prospective, Resigned, Unattached

VOTERS = tuple(Voter(number, f"host{number}", 9093) for number in (1, 2, 3))
NONE, FENCED, INVALID = ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST
VOTED_2 = QuorumState(epoch=5, voted=ReplicaKey(2, (2).to_bytes(16, "big")))


class Clock:
    def now_ms(self) -> int:
        return 1_000


def config(node_id: int) -> RaftConfig:
    return RaftConfig(node_id, "cluster", node_id.to_bytes(16, "big"), VOTERS)


class Asked:
    """Node 1, whose log ends at offset 3 in epoch 4, in epoch 5 unless its state says otherwise."""

    def __init__(self, state: QuorumState) -> None:
        self.disk = SimDisk(Random(0))
        log = MetadataLog(config(1), disk=self.disk, now_ms=0, trace=NullTrace())
        for epoch in (1, 4, 4):
            log.append([b"record"], epoch, 0)
        log.flush()
        self.store = QuorumStateStore(self.disk, config(1).directory)
        self.store.write(state)
        self.replica = RaftReplica(config(1), disk=self.disk, clock=Clock(), rng=Random(1), trace=NullTrace(), now=0)

    def pre_vote(self, epoch: int, last: tuple[int, int], candidate: int = 2, now: int = 0) -> tuple[int, bool]:
        body = messages.vote(config(candidate), epoch, 1, *last, pre_vote=True)
        request = ServerRequest(ApiKey.VOTE, 2, body, "test", "CONTROLLER", 1, now)
        self.replica.handle_vote(now, request)
        assert request.answer is not None
        response = request.answer.response
        assert isinstance(response, VoteResponse)
        data = response.topics[0].partitions[0]
        return data.error_code, data.vote_granted

    def hear_leader(self, now: int) -> None:
        """Fetch once from the leader and be answered."""
        self.replica.tick(now)
        self.replica.flush(now)
        (fetch,) = self.replica.requests
        self.replica.requests.clear()
        leader, epoch = self.replica.leader_and_epoch
        fetch.complete(now, messages.fetch_response(config(3), NONE, messages.Hint(epoch, leader), high_watermark=0))


@pytest.mark.parametrize(
    ("state", "epoch", "last", "answer"),
    [
        pytest.param(QuorumState(5), 5, (4, 3), (NONE, True), id="an equal log is enough"),
        pytest.param(QuorumState(5), 5, (5, 1), (NONE, True), id="a log of the asker's epoch may be, not so in Vote"),
        pytest.param(QuorumState(5), 5, (6, 1), (INVALID, False), id="a log of a later epoch cannot be"),
        pytest.param(QuorumState(5), 5, (4, 2), (NONE, False), id="a shorter log is not"),
        pytest.param(QuorumState(5), 5, (3, 9), (NONE, False), id="a longer log of an older epoch is not"),
        pytest.param(QuorumState(5), 4, (4, 3), (FENCED, False), id="a lower epoch is fenced"),
        pytest.param(VOTED_2, 5, (4, 3), (NONE, True), id="whom it voted for in this epoch is nothing to the next"),
        pytest.param(QuorumState(5, 3), 5, (4, 3), (NONE, True), id="a leader known but never heard is none"),
        pytest.param(QuorumState(5, 1), 5, (4, 3), (NONE, True), id="a former leader does not stand in the way"),
    ],
)
def test_whether_it_would_vote(state: QuorumState, epoch: int, last: tuple[int, int], answer: tuple[int, bool]) -> None:
    asked = Asked(state)
    assert asked.pre_vote(epoch, last, candidate=3 if state.leader_id != 3 else 2) == answer


def test_a_pre_vote_promises_nothing_and_writes_nothing() -> None:
    """Both rivals are granted it, and then either may have the vote."""
    asked = Asked(QuorumState(5))
    assert asked.pre_vote(5, (4, 3), candidate=2) == (NONE, True)
    assert asked.pre_vote(5, (4, 3), candidate=3) == (NONE, True)
    assert asked.store.read() == QuorumState(5)
    assert isinstance(asked.replica.role, Unattached) and asked.replica.role.voted is None


def test_a_follower_refuses_while_it_hears_its_leader_and_no_longer() -> None:
    asked = Asked(QuorumState(5, leader_id=3))
    asked.hear_leader(10)
    assert asked.pre_vote(5, (4, 3), now=20) == (NONE, False)
    assert asked.pre_vote(5, (4, 3), now=20 + config(1).fetch_timeout) == (NONE, True)


def test_a_follower_whose_leader_has_taken_leave_no_longer_refuses() -> None:
    asked = Asked(QuorumState(5, leader_id=3))
    asked.hear_leader(10)
    body = messages.end_quorum_epoch(config(3), 5, (ReplicaKey(2), ReplicaKey(1)))
    asked.replica.handle_end_quorum_epoch(20, ServerRequest(ApiKey.END_QUORUM_EPOCH, 1, body, "t", "CONTROLLER", 1, 20))
    assert asked.pre_vote(5, (4, 3), now=20) == (NONE, True)


def test_a_leader_refuses(make_cluster: Any) -> None:
    cluster = make_cluster().start()
    leader = cluster.elect()
    rival = next(number for number in (1, 2, 3) if number != leader.id)
    end = leader.up.end_offset
    body = messages.vote(cluster.config(rival), leader.up.epoch, leader.id, leader.up.epoch, end + 9, pre_vote=True)
    request = ServerRequest(ApiKey.VOTE, 2, body, "test", "CONTROLLER", 1, cluster.now)
    leader.up.handle_vote(cluster.now, request)
    assert request.answer is not None and isinstance(request.answer.response, VoteResponse)
    assert not request.answer.response.topics[0].partitions[0].vote_granted
    assert leader.up.is_leader


def test_a_leader_cut_off_resigns_stays_in_its_epoch_and_follows_when_it_is_back(make_cluster: Any) -> None:
    cluster = make_cluster(voters=5).start()
    old = cluster.elect()
    epoch = old.up.epoch
    cluster.isolate(old.id)
    cluster.run(20_000)
    assert isinstance(old.up.role, Resigned | Prospective) and old.up.epoch == epoch
    assert old.up.leader_and_epoch == (None, epoch)
    new = cluster.leader
    assert new is not None and new is not old and new.up.epoch > epoch
    cluster.heal()
    cluster.run(4_000)
    assert old.up.leader_and_epoch == (new.id, new.up.epoch), "its return caused an election"


def test_one_deaf_link_to_the_leader_causes_no_election(make_cluster: Any) -> None:
    """A voter that reaches all but the leader would depose it again and again; the others hear the leader."""
    cluster = make_cluster(voters=5).start()
    leader = cluster.elect()
    cluster.run(500)
    epoch = leader.up.epoch
    deaf = next(one for one in cluster.members.values() if one is not leader)
    cluster.cut(deaf.id, leader.id)
    cluster.run(30_000)
    assert leader.up.is_leader and leader.up.epoch == epoch


def test_who_asks_alone_never_stands(make_cluster: Any) -> None:
    cluster = make_cluster(voters=3).start()
    cluster.elect()
    for number in (2, 3):
        cluster.members[number].lose_power()
    cluster.run(30_000)
    only = cluster.members[1].up
    assert not isinstance(only.role, Candidate)
    events = cluster.trace.named("state")
    assert len({event["epoch"] for event in events if event["node"] == 1 and event["role"] == "candidate"}) <= 1
