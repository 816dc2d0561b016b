"""The worked examples of the source documents, as they tell them (D2, D4 and D5 of docs/requirements.md)."""

from __future__ import annotations

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.raft.quorum_state import QuorumState
from tests.nodes.raft.alone import Node, Voting, answer_of

NONE = ErrorCode.NONE


def test_golden_c_at_epoch_2_beats_b_at_epoch_1() -> None:
    """D5's vote between epochs 2 and 1: C's last record is of a newer epoch, and that counts before any length."""
    voting = Voting([1, 1, 1])
    assert voting.ask(2, 3, 1, 2) == (NONE, False)
    assert voting.ask(3, 3, 2, 3) == (NONE, True)
    assert Voting([1, 1, 2]).ask(2, 3, 1, 9) == (NONE, False)


def test_golden_d5_a_fetch_from_epoch_2_offset_7_is_told_that_epoch_2_ends_at_6() -> None:
    leader = Node(1, [1, 1, 1, 2, 2, 2, 3], QuorumState(epoch=3)).win()
    answer = answer_of(leader.fetched_by(2, 7, 2))
    assert (answer.error, answer.diverging, len(answer.records)) == (ErrorCode.NONE, (2, 6), 0)


def test_golden_d4_a_follower_told_epoch_2_ends_at_6_truncates_and_asks() -> None:
    follower = Node(2, [1, 1, 1, 2, 2, 2, 2, 2]).follow(3, 4)
    assert follower.next_fetch()[1] == (2, 8)
    follower = Node(2, [1, 1, 1, 2, 2, 2, 2, 2]).follow(3, 4)
    follower.told_divergence(2, 6)
    assert follower.replica.end_offset == 6
    assert follower.next_fetch()[1] == (2, 6)


def test_golden_d5_b_has_caught_up_with_a_in_epoch_1_so_3_is_committed() -> None:
    """A opened epoch 1 at offset 0 and has three records in it; its majority is itself and B."""
    leader = Node(1, []).win()
    assert leader.replica.epoch == 1
    leader.replica.append(leader.now, [[b"x", b"y"]])
    leader.replica.flush(leader.now)
    assert leader.replica.high_watermark == 0
    leader.fetched_by(2, 3, 1)
    assert leader.replica.high_watermark == 3
