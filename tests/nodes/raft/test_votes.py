"""Who gets a vote: the truth table, the promise that survives a power loss, and the refusals (QC-04..08, rule 33)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from squall.harness.simulation.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.vote import VoteResponse
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.session import ServerRequest
from squall.nodes.raft import messages
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.errors import InvariantViolation
from squall.nodes.raft.metadata_log import MetadataLog
from squall.nodes.raft.quorum_state import CorruptQuorumState, QuorumState, QuorumStateStore, ReplicaKey
from squall.nodes.raft.replica import RaftReplica

VOTERS = tuple(Voter(number, f"host{number}", 9093) for number in (1, 2, 3))


class Clock:
    def now_ms(self) -> int:
        return 1_000


def config(node_id: int = 1) -> RaftConfig:
    return RaftConfig(node_id, "cluster", node_id.to_bytes(16, "big"), VOTERS)


class Voting:
    """Node 1 with a log of given batches' epochs and a given quorum state, asked for its vote."""

    def __init__(self, epochs: list[int], state: QuorumState | None = None) -> None:
        self.disk = SimDisk(Random(0))
        log = MetadataLog(config(), disk=self.disk, now_ms=0, trace=NullTrace())
        for epoch in epochs:
            log.append([b"record"], epoch, 0)
        log.flush()
        if state is not None:
            QuorumStateStore(self.disk, config().directory).write(state)
        self.start()

    def start(self) -> None:
        self.replica = RaftReplica(config(), disk=self.disk, clock=Clock(), rng=Random(1), trace=NullTrace(), now=0)

    def ask(self, candidate: int, epoch: int, last_epoch: int, end_offset: int, **changes: Any) -> tuple[int, bool]:
        """The error and whether the vote was granted."""
        body = messages.vote(config(candidate), epoch, 1, last_epoch, end_offset)
        for name, value in changes.items():
            target = body if hasattr(body, name) else body.topics[0].partitions[0]
            setattr(target, name, value)
        response = self.send(ApiKey.VOTE, 1, body)
        assert isinstance(response, VoteResponse)
        if response.error_code:
            return response.error_code, False
        data = response.topics[0].partitions[0]
        return data.error_code, data.vote_granted

    def send(self, key: ApiKey, version: int, body: Message) -> Message:
        request = ServerRequest(key, version, body, "test", "CONTROLLER", 1, 0)
        handlers = {
            ApiKey.VOTE: self.replica.handle_vote,
            ApiKey.BEGIN_QUORUM_EPOCH: self.replica.handle_begin_quorum_epoch,
        }
        handlers[key](0, request)
        assert request.answer is not None and request.answer.response is not None
        return request.answer.response


NONE, FENCED, INVALID = ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST
FREE = QuorumState(epoch=5)
VOTED_2 = QuorumState(epoch=5, voted=ReplicaKey(2, (2).to_bytes(16, "big")))
FOLLOWING = QuorumState(epoch=5, leader_id=3)
LED = QuorumState(epoch=5, leader_id=1)


@pytest.mark.parametrize(
    ("state", "candidate", "epoch", "last", "answer", "epoch_after"),
    [
        # The voter's own log ends at offset 3 in epoch 4.
        pytest.param(FREE, 2, 4, (3, 9), (FENCED, False), 5, id="a lower epoch is fenced"),
        pytest.param(FREE, 2, 5, (4, 3), (NONE, True), 5, id="an equal log is enough"),
        pytest.param(FREE, 2, 5, (4, 2), (NONE, False), 5, id="a shorter log of the same epoch is not"),
        pytest.param(FREE, 2, 5, (3, 9), (NONE, False), 5, id="a longer log of an older epoch is not"),
        pytest.param(FREE, 2, 5, (5, 1), (INVALID, False), 5, id="a log of the candidate's epoch cannot be"),
        pytest.param(FREE, 2, 6, (5, 1), (NONE, True), 6, id="a shorter log of a newer epoch is enough"),
        pytest.param(FREE, 2, 7, (3, 9), (NONE, False), 7, id="a higher epoch is adopted though the vote is refused"),
        pytest.param(VOTED_2, 3, 5, (4, 9), (NONE, False), 5, id="one vote per epoch"),
        pytest.param(VOTED_2, 2, 5, (4, 3), (NONE, True), 5, id="the same candidate is granted again"),
        pytest.param(VOTED_2, 3, 6, (4, 3), (NONE, True), 6, id="a new epoch has a new vote"),
        pytest.param(FOLLOWING, 2, 5, (4, 9), (NONE, False), 5, id="no vote while a leader of the epoch is known"),
        pytest.param(LED, 2, 5, (4, 9), (NONE, False), 5, id="no vote in an epoch this node has led"),
    ],
)
def test_the_vote_truth_table(
    state: QuorumState,
    candidate: int,
    epoch: int,
    last: tuple[int, int],
    answer: tuple[int, bool],
    epoch_after: int,
) -> None:
    voting = Voting([1, 4, 4], state)
    assert voting.ask(candidate, epoch, *last) == answer
    assert voting.replica.epoch == epoch_after


def test_golden_c_at_epoch_2_beats_b_at_epoch_1() -> None:
    """D5's example: B's log is longer, C's last record is of a newer epoch; A has epoch 1 and votes for C only."""
    voting = Voting([1, 1, 1])
    assert voting.ask(2, 3, 1, 2) == (NONE, False)
    assert voting.ask(3, 3, 2, 3) == (NONE, True)
    assert Voting([1, 1, 2]).ask(2, 3, 1, 9) == (NONE, False)


def test_a_vote_is_kept_over_a_power_loss() -> None:
    """QC-08: granted, power lost before anything else; the rival is refused in the same epoch."""
    voting = Voting([1])
    assert voting.ask(2, 5, 1, 1) == (NONE, True)
    voting.disk.lose_power()
    voting.start()
    assert voting.ask(3, 5, 1, 9) == (NONE, False)
    assert voting.ask(2, 5, 1, 1) == (NONE, True)


def test_a_vote_is_for_one_directory_of_a_candidate() -> None:
    voting = Voting([1])
    assert voting.ask(2, 5, 1, 1) == (NONE, True)
    assert voting.ask(2, 5, 1, 1, replica_directory_id=b"another one here") == (NONE, False)


def test_the_epoch_is_the_larger_of_file_and_log() -> None:
    """QC-04, X24."""
    assert Voting([1, 7], QuorumState(epoch=5, voted=ReplicaKey(2))).replica.epoch == 7
    assert Voting([1, 2], QuorumState(epoch=5)).replica.epoch == 5
    assert Voting([]).replica.epoch == 0


def test_a_vote_of_an_older_epoch_than_the_log_does_not_bind() -> None:
    voting = Voting([1, 7], QuorumState(epoch=5, voted=ReplicaKey(2)))
    assert voting.ask(3, 8, 7, 2) == (NONE, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": 9}, ErrorCode.INVALID_VOTER_KEY),
        ({"voter_directory_id": b"not my directory"}, ErrorCode.INVALID_VOTER_KEY),
        ({"last_offset": -1}, INVALID),
        ({"last_offset_epoch": -1}, INVALID),
        ({"partition_index": 1}, INVALID),
        ({"topics": []}, INVALID),
        ({"replica_id": 1}, INVALID),
    ],
)
def test_malformed_or_misdirected_requests_are_refused_and_change_nothing(
    changes: dict[str, Any], expected: ErrorCode
) -> None:
    voting = Voting([1])
    assert voting.ask(2, 5, 1, 1, **changes) == (expected, False)
    assert voting.replica.epoch == 1


def test_two_leaders_in_one_epoch_stop_the_node() -> None:
    """Rule 37."""
    voting = Voting([1], FOLLOWING)
    with pytest.raises(InvariantViolation, match="two leaders"):
        voting.send(ApiKey.BEGIN_QUORUM_EPOCH, 1, messages.begin_quorum_epoch(config(2), 5, 1))


def test_a_quorum_state_that_cannot_be_read_is_an_error_and_not_a_fresh_start() -> None:
    disk = SimDisk(Random(0))
    store = QuorumStateStore(disk, config().directory)
    store.write(QuorumState(epoch=5))
    disk.open(f"{config().directory}/quorum-state").truncate(10)
    with pytest.raises(CorruptQuorumState, match="quorum-state"):
        QuorumStateStore(disk, config().directory).read()


@pytest.mark.parametrize(
    "state", [QuorumState(), FREE, VOTED_2, FOLLOWING, QuorumState(7, 2, ReplicaKey(2, bytes(16)))]
)
def test_quorum_state_survives_its_file(state: QuorumState) -> None:
    disk = SimDisk(Random(0))
    QuorumStateStore(disk, "meta").write(state)
    disk.lose_power()
    assert QuorumStateStore(disk, "meta").read() == state


def test_at_any_moment_of_power_loss_the_file_holds_the_old_or_the_new_state() -> None:
    for seed in range(50):
        for calls in range(8):
            disk = SimDisk(Random(seed))
            store = QuorumStateStore(disk, "meta")
            store.write(FREE)
            disk.crash_after = calls
            try:
                store.write(VOTED_2)
            except BaseException as crash:
                assert type(crash).__name__ == "CrashNow"
            disk.crash_after = None
            disk.lose_power()
            assert QuorumStateStore(disk, "meta").read() in (FREE, VOTED_2), f"seed {seed}, call {calls}"
