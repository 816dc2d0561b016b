"""ELECT, HWM and VOTERS as the observer asserts them on the metadata quorum: votes, majorities and voters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.counted_voters import CountedVoters
from squall.harness.simulation.observer.rules.quorum.quorum_commitment import QuorumCommitment
from squall.harness.simulation.observer.rules.quorum.quorum_leader import QuorumLeader
from squall.harness.simulation.observer.rules.quorum.quorum_voters import QuorumVoters
from squall.harness.simulation.observer.rules.quorum.quorum_votes import QuorumVotes
from squall.harness.simulation.observer.rules.rule import QuorumTurn
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from squall.nodes.protocol.messages.vote import (
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
    TopicDataResponse,
    VoteRequest,
    VoteResponse,
)
from squall.nodes.protocol.records import Record, build_batch, control_key
from squall.nodes.protocol.requests.session import Answer, ClientSession, ServerRequest
from squall.nodes.raft.config import Voter
from squall.nodes.raft.quorum_state import NO_DIRECTORY, ReplicaKey
from squall.nodes.raft.roles import Candidate, Follower, Leader, ReplicaProgress, Unattached
from squall.nodes.raft.snapshot_file import ControlRecord
from squall.nodes.raft.snapshots import SnapshotId
from squall.nodes.raft.voters import VoterSet
from tests.harness.simulation.observer.observed import sealed

EPOCH = 5
NOW = 7_000_000


class Quorum:
    """Controllers 1 to 3, of which each rule sees just what it looks at."""

    def __init__(self, *voters: int) -> None:
        self.voters = voters or (1, 2, 3)
        self.nodes = {one: self._node(one) for one in (1, 2, 3)}
        self.processes = {
            one: SimpleNamespace(name=f"c{one}", incarnation=1, node=node, now=0) for one, node in self.nodes.items()
        }
        self.cluster = ObservedCluster(acks_all=True, unclean_allowed=False)
        self.cluster.names = {one: f"c{one}" for one in (1, 2, 3)}
        self.cluster.processes = {f"c{one}": process for one, process in self.processes.items()}  # type: ignore[misc]

    def _node(self, number: int) -> Any:
        voters = VoterSet(tuple(Voter(one, f"10.0.0.{one}", 9093) for one in self.voters))
        log = SimpleNamespace(last_epoch=EPOCH - 1, end_offset=10, start_offset=0)
        raft = SimpleNamespace(role=Unattached(EPOCH, None, 0), epoch=EPOCH, voters=voters, log=log, end_offset=0)
        return SimpleNamespace(raft=raft, config=SimpleNamespace(node_id=number), broker=None)

    def stands(self, number: int) -> None:
        self.nodes[number].raft.role = Candidate(EPOCH, ReplicaKey(number), 0, 0, {}, {})

    def leads(self, number: int, high_watermark: int | None = None, start: int = 8) -> None:
        self.nodes[number].raft.role = Leader(
            EPOCH, leader_id=number, epoch_start_offset=start, since=0, majority=2, others={},
            high_watermark=high_watermark,
        )  # fmt: skip

    def turn(self, number: int, *, before: int = 0, cut: int | None = None) -> QuorumTurn:
        """A turn of this controller, whose high watermark was `before`."""
        node = self.nodes[number]
        is_leader = isinstance(node.raft.role, Leader)
        now = (node.raft.log.end_offset, before, is_leader, EPOCH)
        return QuorumTurn(self.processes[number], node, (0, before, is_leader, EPOCH), now, cut, None)  # type: ignore[arg-type]


# -- votes ----------------------------------------------------------------------------------------------------------


def votes(quorum: Quorum, rule: QuorumLeader, voter: int, candidate: int) -> None:
    rule.traced("vote", {"node": voter, "epoch": EPOCH, "candidate": candidate})
    rule.messages_seen(quorum.processes[voter], quorum.nodes[voter])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("last_epoch", "end", "legal"),
    [(EPOCH - 1, 10, True), (EPOCH - 1, 9, False), (EPOCH - 2, 12, False), (EPOCH, 5, True)],
)
def test_a_vote_goes_to_a_log_that_has_as_much(last_epoch: int, end: int, legal: bool) -> None:
    """QC-07: by last epoch, then by end."""
    quorum = Quorum()
    rule = QuorumLeader(quorum.cluster)
    quorum.stands(2)
    quorum.nodes[2].raft.log = SimpleNamespace(last_epoch=last_epoch, end_offset=end)
    if legal:
        votes(quorum, rule, 1, 2)
    else:
        with pytest.raises(InvariantBroken, match=rf"^ELECT: c1 votes in quorum epoch 5 for c2, .* ends at {end} "):
            votes(quorum, rule, 1, 2)


def test_a_candidate_that_has_given_up_may_have_lost_records() -> None:
    quorum = Quorum()
    quorum.nodes[2].raft.log = SimpleNamespace(last_epoch=0, end_offset=0)
    votes(quorum, QuorumLeader(quorum.cluster), 1, 2)


def test_a_vote_in_the_turn_of_the_death_is_not_looked_at() -> None:
    quorum = Quorum()
    rule = QuorumLeader(quorum.cluster)
    quorum.stands(2)
    quorum.nodes[2].raft.log = SimpleNamespace(last_epoch=0, end_offset=0)
    rule.traced("vote", {"node": 1, "epoch": EPOCH, "candidate": 2})
    rule.died(quorum.processes[1])  # type: ignore[arg-type]
    rule.messages_seen(quorum.processes[1], quorum.nodes[1])  # type: ignore[arg-type]


def test_a_vote_at_the_start_of_a_node_is_not_that_of_the_next_one_to_take_a_turn() -> None:
    """Seed 957359 of worlds."""
    quorum = Quorum()
    rule = QuorumLeader(quorum.cluster)
    quorum.stands(2)
    quorum.nodes[2].raft.log = SimpleNamespace(last_epoch=0, end_offset=0)
    rule.traced("vote", {"node": 2, "epoch": EPOCH, "candidate": 2})
    rule.messages_seen(quorum.processes[3], quorum.nodes[3])  # type: ignore[arg-type]
    rule.messages_seen(quorum.processes[2], quorum.nodes[2])  # type: ignore[arg-type]


@pytest.mark.parametrize(("voters", "legal"), [((2, 3), True), ((2,), False), ((1, 9), False)])
def test_a_leader_has_the_votes_of_a_majority_of_the_voters(voters: tuple[int, ...], legal: bool) -> None:
    """QC-09; what others than voters say does not count."""
    quorum = Quorum()
    rule = QuorumLeader(quorum.cluster)
    for voter in voters:
        rule.traced("vote", {"node": voter, "epoch": EPOCH, "candidate": 2})
    quorum.leads(2)
    if legal:
        rule.quorum_led(quorum.turn(2))
    else:
        with pytest.raises(
            InvariantBroken, match=r"^ELECT: c2 leads quorum epoch 5 by the votes of .* 2 of \[1, 2, 3\]"
        ):
            rule.quorum_led(quorum.turn(2))


def test_a_voter_that_died_while_it_wrote_its_vote_down_may_grant_it_later() -> None:
    """Seed 946185 of worlds: the vote was on the disk, and not traced."""
    quorum = Quorum()
    rule = QuorumLeader(quorum.cluster)
    rule.traced("vote", {"node": 2, "epoch": EPOCH, "candidate": 2})
    quorum.nodes[1].raft.role = Unattached(EPOCH, ReplicaKey(2), 0)
    rule.messages_seen(quorum.processes[1], quorum.nodes[1])  # type: ignore[arg-type]
    quorum.leads(2)
    rule.quorum_led(quorum.turn(2))


# -- what a majority has --------------------------------------------------------------------------------------------


def commits(high_watermark: int, *having: int, other: int = EPOCH) -> None:
    """C1 leads and commits up to here; it and these have its batch, the others one of another epoch there."""
    quorum = Quorum()
    for one in (1, 2, 3):
        epoch = EPOCH if one in (1, *having) else other
        content = sealed(0, epoch, b"one", b"two")
        ends = 0 if epoch == EPOCH and one not in (1, *having) else 2
        quorum.cluster.quorum.examine((f"c{one}", 1), lambda offset, upper, content=content: content, 0, ends)  # type: ignore[misc]
    quorum.leads(1, high_watermark, start=0)
    QuorumCommitment(quorum.cluster).quorum_moved(quorum.turn(1))


def test_what_a_majority_has_is_committed() -> None:
    commits(2, 3)


@pytest.mark.parametrize("other", [EPOCH, EPOCH - 1])
def test_what_one_of_three_has_is_not(other: int) -> None:
    """Those that have as many records, but others, do not count."""
    with pytest.raises(InvariantBroken, match=r"^HWM: c1 leads .* batch 0–1 of epoch 5, .* at \['c1'\] only, 2 of"):
        commits(2, other=other)


@pytest.mark.parametrize("moved_before", [True, False])
def test_a_leader_may_change_the_voters_after_it_has_counted_them(moved_before: bool) -> None:
    """Seed 1010724 of worlds: it committed what it and another one had, and removed itself in the same turn."""
    quorum = Quorum()
    rule = QuorumCommitment(quorum.cluster)
    content = sealed(0, EPOCH, b"one")
    for one in (1, 2):
        quorum.cluster.quorum.examine((f"c{one}", 1), lambda offset, upper: content, 0, 1)
    quorum.leads(1, None, start=0)
    if moved_before:
        rule.quorum_moved(quorum.turn(1))
    quorum.leads(1, 1, start=0)
    quorum.nodes[1].raft.voters = VoterSet(tuple(Voter(one, "c", 9093) for one in (2, 3)))
    if moved_before:
        rule.quorum_moved(quorum.turn(1))
    else:
        with pytest.raises(InvariantBroken, match=r"^HWM: c1 leads .* at \['c2'\] only, 2 of \[2, 3\]"):
            rule.quorum_moved(quorum.turn(1))


def test_a_voter_has_what_an_earlier_incarnation_had() -> None:
    quorum = Quorum()
    content = sealed(0, EPOCH, b"one")
    for one in (1, 2):
        quorum.cluster.quorum.examine((f"c{one}", 1), lambda offset, upper: content, 0, 1)
    quorum.processes[2].incarnation = 2
    quorum.leads(1, 1, start=0)
    QuorumCommitment(quorum.cluster).quorum_moved(quorum.turn(1))


def test_a_voter_that_has_just_started_has_what_is_in_its_log() -> None:
    """Seed 945032 of worlds: it had died within the turn in which it appended that, and asks for what follows."""
    quorum = Quorum()
    content = sealed(0, EPOCH, b"one")
    quorum.cluster.quorum.examine(("c1", 1), lambda offset, upper: content, 0, 1)
    quorum.nodes[2].raft.log.read = lambda offset, size: content
    quorum.nodes[2].raft.end_offset = 1
    quorum.leads(1, 1, start=0)
    QuorumCommitment(quorum.cluster).quorum_moved(quorum.turn(1))


# -- what a leader counts -------------------------------------------------------------------------------------------


class Counting:
    """C1 leads, and has one batch of its epoch that is not committed, up to offset 2."""

    def __init__(self) -> None:
        self.quorum = Quorum()
        self.rule = CountedVoters(self.quorum.cluster)
        self.has(1, EPOCH)
        self.quorum.leads(1, start=0)
        self.role: Leader = self.quorum.nodes[1].raft.role

    def has(self, number: int, epoch: int) -> None:
        content = sealed(0, epoch, b"one", b"two")
        self.quorum.cluster.quorum.examine((f"c{number}", 1), lambda offset, upper: content, 0, 2)

    def counts(self, **ends: int) -> None:
        for name, end in ends.items():
            self.role.others[int(name[1:])] = ReplicaProgress(end)
        self.rule.turned(self.quorum.processes[1], self.quorum.nodes[1])  # type: ignore[arg-type]


def test_a_leader_counts_for_a_voter_what_that_has() -> None:
    counting = Counting()
    counting.counts(c2=0, c3=-1)
    counting.has(2, EPOCH)
    counting.counts(c2=2, c3=0)
    counting.counts(c2=0)
    counting.counts(c2=2)


@pytest.mark.parametrize("other", [None, EPOCH - 1])
def test_a_leader_does_not_count_what_a_voter_lacks_or_has_otherwise(other: int | None) -> None:
    """QC-17: a Fetch after which the voter has to truncate, or a refused AppendEntries, acknowledges nothing."""
    counting = Counting()
    counting.has(2, EPOCH)
    if other is not None:
        counting.has(3, other)
    counting.counts(c2=2, c3=0)
    with pytest.raises(InvariantBroken, match=r"^QC-17: c1 leads .* up to 2 for c3, .* batch 0–1 of epoch 5"):
        counting.counts(c2=2, c3=2)


def test_a_voter_whose_log_begins_at_what_it_is_counted_for_has_a_snapshot() -> None:
    counting = Counting()
    counting.quorum.nodes[2].raft.log.start_offset = 2
    counting.counts(c2=2)


def test_a_new_leader_counts_anew() -> None:
    """What the former role had seen acknowledged is no proof: the voter may have truncated since."""
    counting = Counting()
    counting.has(2, EPOCH)
    counting.counts(c2=2)
    counting.quorum.cluster.quorum.cut(("c2", 1), 0)
    counting.role.epoch = EPOCH + 1
    with pytest.raises(InvariantBroken, match=r"^QC-17: c1 leads quorum epoch 6"):
        counting.counts(c2=2)


def test_what_is_committed_has_been_compared() -> None:
    counting = Counting()
    counting.quorum.cluster.quorum.commit(("c1", 1), 2, EPOCH)
    counting.counts(c2=2)


# -- voters ---------------------------------------------------------------------------------------------------------


def received(now: int, connection: int, frame: bytes) -> None:
    """The input of a node that this test gives; the observer knows it by its name."""


class Written:
    """C1 leads from offset 8 on, knows `committed`, and has the voters 1 and 2 at offset 1."""

    def __init__(self, committed: int) -> None:
        self.quorum = Quorum(1, 2)
        self.rule = QuorumVoters(self.quorum.cluster)
        self.committed = committed
        self.writes(1, 1, 2)
        self.quorum.leads(1)
        self.is_asked_to_add(3)

    def is_asked_to_add(self, voter: int) -> None:
        process = self.quorum.processes[1]
        frame = b"".join(ClientSession("admin").send_only(AddRaftVoterRequest(voter_id=voter), 0))
        process.last_inputs = [(received, (7, frame))]
        self.rule.turned(process, self.quorum.nodes[1])  # type: ignore[arg-type]

    def writes(self, offset: int, *voters: int, cut: int | None = None, counts: tuple[int, ...] = ()) -> None:
        self.rule.traced("voters", {"node": 1, "offset": offset, "voters": list(voters)})
        self.moves(*(counts or voters), cut=cut)

    def moves_to(self, time: int, end: int) -> None:
        """The log's end moves, at this time."""
        self.quorum.processes[1].now = time
        turn = self.quorum.turn(1, before=self.committed)
        self.rule.quorum_moved(turn._replace(now=(end, *turn.now[1:])))

    def moves(self, *counts: int, cut: int | None = None) -> None:
        raft = self.quorum.nodes[1].raft
        raft.voters = VoterSet(tuple(Voter(one, "c", 9093) for one in counts))
        self.rule.quorum_moved(self.quorum.turn(1, before=self.committed, cut=cut))


def test_one_voter_more_after_a_record_of_the_epoch_is_legal() -> None:
    Written(9).writes(10, 1, 2, 3)


def test_a_leader_adds_only_voters_for_whom_a_request_has_arrived() -> None:
    """A voter that was removed needs another request."""
    written = Written(12)
    with pytest.raises(InvariantBroken, match=r"^VOTERS: .* at offset 10, and no AddRaftVoter for \[4\] has arrived"):
        written.writes(10, 1, 2, 4)
    again = Written(12)
    again.writes(10, 1, 2, 3)
    again.writes(11, 1, 2)
    with pytest.raises(InvariantBroken, match=r"^VOTERS: .* at offset 12, and no AddRaftVoter for \[3\] has arrived"):
        again.writes(12, 1, 2, 3)


def test_a_voter_may_be_removed_and_added_again_by_request() -> None:
    written = Written(12)
    written.writes(10, 1, 2, 3)
    written.writes(11, 1, 2)
    written.is_asked_to_add(3)
    written.writes(12, 1, 2, 3)


def test_before_a_record_of_the_epoch_is_committed_voters_stay() -> None:
    with pytest.raises(InvariantBroken, match=r"^VOTERS: c1 .* at offset 10, and has committed nothing of its epoch"):
        Written(8).writes(10, 1, 2, 3)


def test_two_changes_at_once_are_one_too_many() -> None:
    with pytest.raises(InvariantBroken, match=r"^VOTERS: .* which differ from \[1, 2\] by more than one"):
        Written(9).writes(10, 1, 3)


def test_a_change_waits_for_the_one_before() -> None:
    written = Written(9)
    written.writes(10, 1, 2, 3)
    with pytest.raises(InvariantBroken, match=r"^VOTERS: .* \[1, 2, 3\] before, at offset 10, are not committed"):
        written.writes(11, 1, 3)


def test_what_is_committed_in_the_same_turn_before_the_change_counts() -> None:
    """Seed 981750 of worlds: a fetch committed the change before, and the next one was waiting for that."""
    written = Written(9)
    written.writes(10, 1, 2, 3)
    written.rule.traced("high_watermark", {"node": 1, "epoch": EPOCH, "offset": 11})
    written.writes(11, 1, 3)
    with pytest.raises(InvariantBroken, match=r"^VOTERS: .* \[1, 3\] before, at offset 11, are not committed"):
        written.writes(12, 3)


def test_a_truncation_restores_the_voters_before() -> None:
    written = Written(9)
    written.writes(10, 1, 2, 3)
    written.quorum.nodes[1].raft.role = Unattached(EPOCH, None, 0)
    written.moves(1, 2, cut=10)
    with pytest.raises(
        InvariantBroken, match=r"^VOTERS: c1 counts by the voters \[1, 2, 3\], .* offset 1, are \[1, 2\]"
    ):
        written.moves(1, 2, 3)


def test_a_follower_takes_what_it_is_sent() -> None:
    written = Written(0)
    written.quorum.nodes[1].raft.role = Unattached(EPOCH, None, 0)
    written.writes(9, 2, 3)


def says_changed(written: Written, committed: int, error: int = 0, voter: int = -1, arrived: int = 0) -> None:
    """C1, which knows that all below `committed` is, answers somebody who adds a voter."""
    asked = AddRaftVoterRequest(voter_id=voter)
    request = ServerRequest(int(ApiKey.ADD_RAFT_VOTER), 0, asked, "admin", "CONTROLLER", 5, arrived)
    request.answer = Answer(response=AddRaftVoterResponse(error_code=error))
    node = written.quorum.nodes[1]
    node.raft.high_watermark = committed
    written.rule.answered(written.quorum.processes[1], node, request)  # type: ignore[arg-type]


def test_who_says_that_voters_were_changed_has_committed_their_record() -> None:
    written = Written(9)
    written.writes(10, 1, 2, 3)
    says_changed(written, 11)
    says_changed(written, 10, error=int(ErrorCode.REQUEST_TIMED_OUT))
    with pytest.raises(InvariantBroken, match=r"^VOTERS: c1 says .* at offset 10 is not committed, .* below 10$"):
        says_changed(written, 10)


def added(*, fetched: int | None, arrived: int = 5) -> None:
    """C1, whose log ended at 9 at time 4 and at 10 at time 6, has added voter 3, which had fetched so much."""
    written = Written(9)
    for time, end in ((4, 9), (6, 10)):
        written.moves_to(time, end)
    written.quorum.processes[1].now = 8
    if fetched is not None:
        written.quorum.nodes[1].raft.role.others[3] = ReplicaProgress(fetched)
    written.writes(10, 1, 2, 3)
    says_changed(written, 11, voter=3, arrived=arrived)


def test_a_voter_is_added_once_it_has_fetched_what_was_there_when_somebody_asked() -> None:
    """KIP-853: 9 is what it needs. What it lacks of later records it fetches as a voter."""
    added(fetched=9)
    with pytest.raises(InvariantBroken, match=r"^VOTERS: c1 has added voter 3 at offset 10, .* up to 8; .* at 9 when"):
        added(fetched=8)
    with pytest.raises(InvariantBroken, match=r"^VOTERS: .* up to -1"):
        added(fetched=-1)


def test_a_voter_needs_nothing_that_was_cut_before_its_leader_led_again() -> None:
    """In seed 1004522 of worlds the leader had a log up to 39, followed another one for a while, and led again."""
    written = Written(9)
    written.moves_to(2, 39)
    leads, raft = written.quorum.nodes[1].raft.role, written.quorum.nodes[1].raft
    raft.role = Unattached(EPOCH, None, 0)
    written.moves(1, 2, cut=9)
    raft.role = leads
    written.moves_to(4, 9)
    raft.role.others[3] = ReplicaProgress(9)
    written.quorum.processes[1].now = 8
    written.writes(10, 1, 2, 3)
    says_changed(written, 11, voter=3, arrived=5)


def test_a_voter_that_was_asked_for_earlier_needs_less() -> None:
    added(fetched=0, arrived=3)


# -- votes that are refused ---------------------------------------------------------------------------------------


def refuses(
    role: Any, end: tuple[int, int], *, epoch: int = EPOCH, pre_vote: bool = False, granted: bool = False
) -> None:
    """A voter whose log ends at 10, in epoch 4, answers a candidate whose log ends so: last epoch, end offset."""
    asked = PartitionDataRequest(
        replica_epoch=epoch, replica_id=2, last_offset_epoch=end[0], last_offset=end[1], pre_vote=pre_vote
    )
    told = PartitionDataResponse(leader_id=-1, leader_epoch=epoch, vote_granted=granted)
    request = ServerRequest(
        int(ApiKey.VOTE), 2, VoteRequest(topics=[TopicDataRequest("m", [asked])]), "node-2", "CONTROLLER", 5, 0
    )
    request.answer = Answer(response=VoteResponse(topics=[TopicDataResponse("m", [told])]))
    raft = SimpleNamespace(role=role, epoch=EPOCH, log=SimpleNamespace(last_epoch=4), end_offset=10)
    QuorumVotes(ObservedCluster()).answered(
        SimpleNamespace(name="c1", now=NOW),  # type: ignore[arg-type]
        SimpleNamespace(raft=raft),  # type: ignore[arg-type]
        request,
    )


@pytest.mark.parametrize("end", [(4, 10), (4, 11), (5, 3)])
def test_a_vote_refused_without_a_reason_breaks_elect(end: tuple[int, int]) -> None:
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 refuses to vote for node 2 in quorum epoch 5\."):
        refuses(Unattached(EPOCH, None, 0), end)
    with pytest.raises(InvariantBroken, match=r"^ELECT"):
        refuses(Unattached(EPOCH, ReplicaKey(3), 0), end, pre_vote=True)
    refuses(Unattached(EPOCH, None, 0), end, granted=True)


def test_a_leader_that_grants_a_pre_vote_breaks_elect() -> None:
    """KIP-996: nothing is wrong with its epoch, which an election would end."""
    leader = Leader(EPOCH, leader_id=1, epoch_start_offset=8, since=0, majority=2, others={})
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 leads quorum epoch 5, and grants a pre-vote to node 2$"):
        refuses(leader, (4, 10), pre_vote=True, granted=True)
    refuses(leader, (4, 10), pre_vote=True)
    refuses(Unattached(EPOCH, None, 0), (4, 10), pre_vote=True, granted=True)


def test_a_follower_that_hears_its_leader_grants_no_pre_vote() -> None:
    """KIP-996. One that has heard nothing of it in this epoch, or not for the fetch timeout, may."""
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 hears node 3 as the leader of quorum epoch 5, and grants "):
        refuses(Follower(EPOCH, 3, give_up_at=NOW + 1, heard=True), (4, 10), pre_vote=True, granted=True)
    refuses(Follower(EPOCH, 3, give_up_at=NOW + 1, heard=False), (4, 10), pre_vote=True, granted=True)
    refuses(Follower(EPOCH, 3, give_up_at=NOW, heard=True), (4, 10), pre_vote=True, granted=True)


@pytest.mark.parametrize(
    ("role", "end"),
    [
        (Unattached(EPOCH, None, 0), (4, 9)),
        (Unattached(EPOCH, None, 0), (3, 40)),
        (Unattached(EPOCH, ReplicaKey(3), 0), (4, 10)),
        (Unattached(EPOCH, None, 0, leader_id=3), (4, 10)),
        (Unattached(EPOCH + 1, None, 0), (4, 10)),
        (Candidate(EPOCH, ReplicaKey(1), 0, 0, {}, {}), (4, 10)),
    ],
    ids=["longer log", "later epoch", "has voted", "knows a leader", "epoch is over", "stands itself"],
)
def test_a_voter_may_refuse_for_what_it_has_promised_or_knows(role: Any, end: tuple[int, int]) -> None:
    refuses(role, end)


# -- who stands -----------------------------------------------------------------------------------------------------


def following(quorum: Quorum, *, stands: bool, uncommitted: bool = False) -> QuorumTurn:
    """A turn of c3 as a follower."""
    raft = quorum.nodes[3].raft
    raft.role, raft.voters_uncommitted = Follower(EPOCH, 1, 0, votes=stands), uncommitted
    raft.config = SimpleNamespace(node_id=3, directory_id=NO_DIRECTORY)
    return quorum.turn(3)


@pytest.mark.parametrize(
    ("voters", "stands", "said"), [((1, 2, 3), False, "does not stand"), ((1, 2), True, "stands")], ids=["voter", "not"]
)
def test_a_follower_that_does_not_go_by_the_voters_of_its_log_breaks_voters(
    voters: tuple[int, ...], stands: bool, said: str
) -> None:
    quorum = Quorum(*voters)
    with pytest.raises(InvariantBroken, match=rf"^VOTERS: c3 follows in quorum epoch 5 and {said} for election, and"):
        QuorumVoters(quorum.cluster).quorum_moved(following(quorum, stands=stands))


@pytest.mark.parametrize(("voters", "stands"), [((1, 2, 3), True), ((1, 2), False)], ids=["voter", "observer"])
def test_a_follower_stands_if_it_is_a_voter(voters: tuple[int, ...], stands: bool) -> None:
    quorum = Quorum(*voters)
    QuorumVoters(quorum.cluster).quorum_moved(following(quorum, stands=stands))


def test_a_follower_may_stand_while_its_removal_is_not_committed() -> None:
    quorum = Quorum(1, 2)
    QuorumVoters(quorum.cluster).quorum_moved(following(quorum, stands=True, uncommitted=True))


# -- how voters begin in a log ------------------------------------------------------------------------------------


def ends_with(*logged: int, in_snapshot: tuple[int, ...] = (), dynamic: bool = True, committed: int = 9) -> None:
    """A run ends. The logs of c1 to c3 have control records of these kinds, and so do their snapshots."""
    quorum = Quorum()
    batches = [build_batch([Record(key=control_key(one), value=b"")], timestamp=0, control=True) for one in logged]
    data = build_batch([Record(value=b"a topic")], timestamp=0)
    snapshots = SimpleNamespace(
        latest=SnapshotId(5, 1) if in_snapshot else None,
        control_records=lambda snapshot: [ControlRecord(one, b"") for one in in_snapshot],
    )
    for node in quorum.nodes.values():
        node.raft.config = SimpleNamespace(dynamic_voters=dynamic)
        node.raft.high_watermark, node.raft.snapshots = committed, snapshots
        node.raft.log.raw_batches = lambda start, upper: [data, *batches]
    QuorumVoters(quorum.cluster).at_end()


@pytest.mark.parametrize(
    ("kinds", "said"), [((), "has no record of voters"), ((2,), "has no record"), ((6, 5), "has voters without the")]
)
def test_a_log_without_voters_or_without_the_version_before_them_breaks_voters(
    kinds: tuple[int, ...], said: str
) -> None:
    with pytest.raises(InvariantBroken, match=rf"^VOTERS: c1 {said}"):
        ends_with(*kinds)


def test_voters_after_the_version_are_sound_in_the_log_or_in_a_snapshot() -> None:
    ends_with(2, 5, 6, 6)
    ends_with(in_snapshot=(5, 6))
    ends_with(6, in_snapshot=(5, 6))


def test_voters_of_the_configuration_and_an_empty_log_need_no_record() -> None:
    ends_with(dynamic=False)
    ends_with(committed=0)
