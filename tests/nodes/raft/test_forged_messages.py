"""Nonsense from peers is refused and reported, never obeyed and never fatal (QC-03, QC-09, rules 36 and 37).

There is no authentication: whoever reaches the listener can pretend to be a controller. What cannot be true of any
peer is refused; a forged message that could be true is obeyed, and the quorum gets over it.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from squall.nodes.protocol.compiler import decode, encode_bytes
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.records import Record, build_batch, seal
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToVoter
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.messages import Hint
from squall.nodes.raft.plausibility import ALLOWANCE_MAX, ANSWER_MAX, EPOCH_LAST
from squall.nodes.raft.quorum_state import QuorumState
from squall.nodes.raft.replication import OBSERVERS_MAX
from tests.nodes.forged import Forger
from tests.nodes.raft.alone import Node, Voting, config
from tests.nodes.raft.conftest import VERSIONS, Cluster, Member

EPOCH_MAX = 2**31 - 1
INVALID = ErrorCode.INVALID_REQUEST
FOLLOWING_3 = QuorumState(5, 3)


def begin(node: Voting, leader: int, epoch: int) -> int:
    response: Any = node.send(ApiKey.BEGIN_QUORUM_EPOCH, 1, messages.begin_quorum_epoch(config(leader), epoch, 1))
    return int(response.topics[0].partitions[0].error_code)


# -- requests ------------------------------------------------------------------------------------------------------


def test_a_second_leader_of_an_epoch_is_refused_and_the_first_is_kept() -> None:
    """Rule 37: a replica follows one leader in an epoch. Whoever claims to be another may be lying."""
    voting = Voting([1], FOLLOWING_3)
    assert begin(voting, 2, 5) == INVALID
    assert voting.replica.leader_and_epoch == (3, 5)


def test_a_replica_that_is_told_that_it_leads_refuses() -> None:
    voting = Voting([1], FOLLOWING_3)
    assert begin(voting, 1, 5) == INVALID
    assert begin(voting, 1, 6) == INVALID
    assert voting.replica.leader_and_epoch == (3, 5)


def test_a_leader_stays_one_when_another_claims_its_epoch() -> None:
    leader = Node(1, [1], QuorumState(epoch=1)).win()
    epoch = leader.replica.epoch
    for make in (messages.begin_quorum_epoch, lambda by, epoch, to: messages.end_quorum_epoch(by, epoch, [])):
        body = make(config(2), epoch, 1)
        request = ServerRequest(body.API_KEY, 1, body, "test", "CONTROLLER", 1, leader.now)
        handle = leader.replica.handle_begin_quorum_epoch
        if body.API_KEY == ApiKey.END_QUORUM_EPOCH:
            handle = leader.replica.handle_end_quorum_epoch
        handle(leader.now, request)
        leader.replica.tick(leader.now)
    assert leader.replica.is_leader and leader.replica.epoch == epoch


def test_a_leader_that_is_no_voter_of_a_fixed_quorum_is_refused() -> None:
    voting = Voting([1], FOLLOWING_3)
    assert begin(voting, 77, 6) == INVALID
    assert voting.replica.leader_and_epoch == (3, 5)


@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize("epoch", [EPOCH_MAX, EPOCH_MAX - 1, EPOCH_LAST, 5 + ALLOWANCE_MAX + 1])
def test_a_vote_in_an_epoch_out_of_reach_is_refused(epoch: int, pre_vote: bool) -> None:
    """An epoch near 2**31 would leave none to elect a leader in."""
    voting = Voting([1], FOLLOWING_3)
    assert voting.ask(2, epoch, 1, 1, pre_vote=pre_vote) == (INVALID, False)
    assert voting.replica.leader_and_epoch == (3, 5)
    assert any("epoch" in line and str(epoch) in line for line in voting.replica.snapshots.notices)


def test_many_votes_cannot_use_up_the_epochs() -> None:
    """However many are sent at once: together they move a replica no further than one of them may."""
    voting = Voting([1], QuorumState(epoch=5))
    for _ in range(1000):
        voting.ask(2, voting.replica.epoch + 100_000, 1, 1)
    assert voting.replica.epoch <= 5 + ALLOWANCE_MAX


def test_refusals_are_reported_but_do_not_flood_the_log() -> None:
    voting = Voting([1], FOLLOWING_3)
    for _ in range(100):
        begin(voting, 2, 5)
    assert len(voting.replica.snapshots.notices) == 1


def test_fetches_in_ever_new_names_take_no_more_memory() -> None:
    leader = Node(1, [1], QuorumState(epoch=1)).win()
    for name in range(100, 100 + 3 * OBSERVERS_MAX):
        leader.now += 1
        leader.fetched_by(name, 1, 1)
    role: Any = leader.replica.role
    assert len(role.observers) <= OBSERVERS_MAX
    assert name in role.observers, "the newest are kept"


# -- answers -------------------------------------------------------------------------------------------------------


def answer_fetch(follower: Node, **said: Any) -> None:
    fetch, _ = follower.next_fetch()
    hint = said.pop("hint", Hint(follower.replica.epoch, follower.replica.leader_and_epoch[0]))
    fetch.complete(follower.now, messages.fetch_response(config(3), ErrorCode.NONE, hint, **said))


def batch_at(offset: int, epoch: int, values: int = 1, **changes: int) -> bytearray:
    batch = build_batch([Record(value=b"v")] * values, base_offset=offset, leader_epoch=epoch)
    if "count" in changes:
        batch[57:61] = changes["count"].to_bytes(4, "big", signed=True)
        batch[23:27] = (changes["count"] - 1).to_bytes(4, "big", signed=True)
        seal(batch)
    return batch


@pytest.mark.parametrize(
    "said",
    [
        {"hint": Hint(4, 2)},
        {"hint": Hint(4, 77)},
        {"hint": Hint(5, 2)},
        {"hint": Hint(EPOCH_MAX, 1)},
        {"hint": Hint(EPOCH_MAX, None)},
        {"hint": Hint(4 + ANSWER_MAX + 1, 1)},
        {"diverging": (1, 2)},
        {"diverging": (-5, 0)},
        {"snapshot": (1, 1)},
        {"snapshot": (9, -3)},
        {"snapshot": (9, EPOCH_MAX)},
        {"records": batch_at(3, 4)},
        {"records": batch_at(9, 4)},
        {"records": batch_at(4, 5)},
        {"records": batch_at(4, EPOCH_MAX)},
        {"records": batch_at(4, 0)},
        {"records": batch_at(4, 4, count=EPOCH_MAX)},
        {"records": batch_at(4, 4)[:-1]},
        {"records": b"\xff" * 61},
        {"records": b"nonsense"},
    ],
)
def test_what_no_leader_says_is_refused_and_changes_nothing(said: dict[str, Any]) -> None:
    """Rules 36 and 37: the follower's log, its high watermark and its epoch are what they were."""
    follower = Node(2, [1, 1, 1, 1]).follow(3, 4)
    follower.told(b"", high_watermark=3)
    answer_fetch(follower, **said)
    replica = follower.replica
    replica.flush(follower.now)
    if said.get("hint") not in (Hint(5, 2), Hint(5, 1)):
        assert replica.epoch == 4
    assert (replica.end_offset, replica.high_watermark) == (4, 3)
    assert replica.snapshots.notices, "it is reported"


def test_a_leader_that_says_nonsense_only_is_given_up() -> None:
    follower = Node(2, [1, 1, 1, 1]).follow(3, 4)
    follower.told(b"", high_watermark=3)
    for _ in range(1000):
        follower.now = follower.replica.deadline()
        follower.replica.tick(follower.now)
        requests = follower.sent()
        if follower.replica.role.name == "prospective":
            return
        for request in requests:
            request.complete(
                follower.now, messages.fetch_response(config(3), ErrorCode.NONE, Hint(4, 3), diverging=(1, 1))
            )
    raise AssertionError(f"it still follows: {follower.replica.role}")


# -- everything at once --------------------------------------------------------------------------------------------


class Forged(Cluster):
    """A cluster on whose network somebody copies requests with other content, or rewrites answers."""

    def __init__(self, seed: int, *, requests: float = 0.0, answers: float = 0.0, dynamic: bool = False) -> None:
        super().__init__(3, observers=1, seed=seed, dynamic=dynamic)
        self.requests, self.answers = requests, answers
        self.forger = Forger(Random(f"{seed}/forger"), names=["__cluster_metadata", "cluster"])
        self.forged = 0

    def send(self, sender: Member, outbound: OutboundRequest) -> None:
        assert isinstance(outbound.destination, ToVoter)
        version = VERSIONS[ApiKey(outbound.message.API_KEY)]
        self.forger.numbers[4:] = [one.up.epoch for one in self.members.values()] + [
            one.up.end_offset for one in self.members.values()
        ]
        if self.rng.random() < self.requests and outbound.message.API_KEY != ApiKey.FETCH:
            self.at(self.now + 1, lambda: self.deliver_forged(outbound.destination.id, outbound.message, version))
        if self.rng.random() < self.answers:
            honest = outbound.complete

            def complete(now: int, response: Message | None) -> None:
                honest(now, None if response is None else self.rewritten(response, version))

            outbound.complete = complete
        if outbound.destination.id in self.members:
            super().send(sender, outbound)
            return
        incarnation = sender.incarnation  # a forged leader that is nowhere

        def give_up() -> None:
            if sender.incarnation == incarnation:
                outbound.complete(self.now, None)
                sender.iterate()

        self.at(self.now + outbound.timeout, give_up)

    def rewritten(self, message: Message, version: int) -> Message:
        self.forged += 1
        for _ in range(20):
            made = self.forger.distorted(message, version)
            try:
                return decode(type(message), version, encode_bytes(made, version))
            except ProtocolError:
                continue
        return message

    def deliver_forged(self, target: int, message: Message, version: int) -> None:
        member = self.members[target]
        request = ServerRequest(message.API_KEY, version, self.rewritten(message, version), "x", "CONTROLLER", 9, 0)
        member.deliver(request)
        member.iterate()

    def check(self, member: Member) -> None:
        """A lie about what is durable breaks safety; that is what authentication is for. Here nothing may die."""
        if not self.answers:
            super().check(member)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_quorum_outlives_forged_requests(seed: int, dynamic: bool) -> None:
    cluster = Forged(seed, requests=0.7, dynamic=dynamic)
    cluster.start()
    for _ in range(15):
        cluster.run(1000)
        if cluster.leader is not None:
            cluster.append(b"record")
    assert cluster.forged, f"seed {seed}: nothing was forged"
    cluster.requests = 0.0
    cluster.run(5000)
    leader = cluster.elect()
    offset = cluster.append(b"afterwards")
    cluster.run_until(lambda: leader.up.high_watermark > offset)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_no_replica_dies_of_a_peer_that_lies(seed: int, dynamic: bool) -> None:
    cluster = Forged(seed, requests=0.3, answers=0.3, dynamic=dynamic)
    cluster.start()
    for _ in range(20):
        cluster.run(500)
        if cluster.leader is not None:
            cluster.append(b"record")
    assert cluster.forged, f"seed {seed}: nothing was forged"
    assert all(member.up.epoch <= EPOCH_LAST for member in cluster.members.values())
