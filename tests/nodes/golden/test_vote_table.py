"""The twelve rows of the vote truth table: who gets a vote, and in which epoch the voter is then (QC-07, rule 33)."""

from __future__ import annotations

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.raft.quorum_state import QuorumState, ReplicaKey
from tests.nodes.raft.alone import Voting

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
