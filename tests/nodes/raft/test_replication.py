"""Divergence, truncation and the high watermark, on the documents' own examples (QC-15, QC-16, rules 13, 35, 36)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft import messages
from squall.nodes.raft.messages import Hint
from squall.nodes.raft.metadata_log import MetadataLog
from squall.nodes.raft.quorum_state import QuorumState
from tests.nodes.raft.alone import Node, answer_of, config

SECOND = 1_000_000


# -- divergence ------------------------------------------------------------------------------------------------


def test_a_follower_that_lacks_the_epoch_cuts_to_the_end_of_the_next_lower_one() -> None:
    """KIP-279: it knows epochs 1 and 3, the leader has 1, 2 and 4."""
    follower = Node(2, [1, 1, 3, 3, 3]).follow(3, 5)
    follower.told_divergence(2, 9)
    assert follower.replica.end_offset == 2
    assert follower.next_fetch()[1] == (1, 2)


def test_an_epoch_the_leader_never_saw_is_answered_with_the_next_lower_one() -> None:
    leader = Node(1, [1, 1, 4], QuorumState(epoch=4)).win()
    assert answer_of(leader.fetched_by(2, 6, 3)).diverging == (1, 2)


def test_a_log_with_nothing_in_common_is_cut_to_nothing() -> None:
    leader = Node(1, [3, 3], QuorumState(epoch=3)).win()
    diverging = answer_of(leader.fetched_by(2, 2, 1)).diverging
    assert diverging is not None
    follower = Node(2, [1, 1]).follow(3, 5)
    follower.told_divergence(*diverging)
    assert follower.replica.end_offset == 0


def test_a_diverged_fetch_does_not_count_as_progress() -> None:
    leader = Node(1, [1, 1, 1], QuorumState(epoch=1)).win()
    leader.fetched_by(2, 9, 1)
    leader.replica.flush(leader.now)
    assert leader.replica.high_watermark == 0


def test_committed_records_are_never_cut() -> None:
    """Rule 36: whoever asks for it is not believed, and the refusal is reported."""
    follower = Node(2, [1, 1, 1, 1]).follow(3, 4)
    follower.told(b"", high_watermark=3)
    assert follower.replica.high_watermark == 3
    follower.told_divergence(1, 2)
    assert follower.replica.end_offset == 4
    [line] = follower.replica.snapshots.notices
    assert "below its high watermark 3" in line


# -- the high watermark ----------------------------------------------------------------------------------------


def test_a_majority_on_records_of_older_epochs_commits_nothing() -> None:
    """Figure 8: the old records count only once a record of the new epoch is on a majority too."""
    leader = Node(1, [1, 2, 2], QuorumState(epoch=3)).win()
    assert leader.replica.epoch_start_offset == 3
    leader.fetched_by(2, 3, 2)
    assert leader.replica.high_watermark == 0
    leader.fetched_by(2, 4, leader.replica.epoch)
    assert leader.replica.high_watermark == 4


def test_the_leader_counts_itself_only_after_its_flush() -> None:
    """X14."""
    leader = Node(1, []).win()
    leader.fetched_by(2, 1, 1)
    leader.replica.append(leader.now, [[b"x"]])
    leader.fetched_by(2, 2, 1)
    assert leader.replica.high_watermark == 1
    leader.replica.flush(leader.now)
    assert leader.replica.high_watermark == 2


def test_a_follower_s_next_fetch_is_its_acknowledgement() -> None:
    """QC-17: to have sent it the records counts for nothing; it has what lies below the offset that it fetches from."""
    leader = Node(1, []).win()
    leader.replica.append(leader.now, [[b"x"]])
    leader.replica.flush(leader.now)
    sent = answer_of(leader.fetched_by(2, 1, 1))
    assert len(sent.records) > 0
    assert leader.replica.high_watermark == 1
    leader.fetched_by(2, 2, 1)
    assert leader.replica.high_watermark == 2


def test_a_voter_that_falls_back_does_not_lower_the_high_watermark() -> None:
    leader = Node(1, []).win()
    leader.replica.append(leader.now, [[b"x"]])
    leader.replica.flush(leader.now)
    leader.fetched_by(2, 2, 1)
    assert leader.replica.high_watermark == 2
    leader.fetched_by(2, 0, 0)
    assert leader.replica.high_watermark == 2


def test_a_follower_knows_no_more_committed_than_it_has() -> None:
    follower = Node(2, [1, 1]).follow(3, 4)
    follower.told(b"", high_watermark=9)
    assert follower.replica.high_watermark == 2


def test_a_fetch_offset_is_durable_by_the_time_it_may_leave() -> None:
    """QC-20: what the next fetch claims survives a power loss right after `flush`."""
    leader = Node(1, []).win()
    leader.replica.append(leader.now, [[b"x"] * 10])
    records = answer_of(leader.fetched_by(2, 0, 0)).records
    follower = Node(2, []).follow(3, 1)
    follower.told(bytes(records), high_watermark=-1)
    _, (epoch, offset) = follower.next_fetch()
    assert (epoch, offset) == (1, 11)
    follower.disk.lose_power()
    survived = MetadataLog(config(2), disk=follower.disk, now_ms=0, trace=NullTrace())
    assert survived.end_offset == 11


# -- serving fetches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(2, ErrorCode.FENCED_LEADER_EPOCH), (9, ErrorCode.UNKNOWN_LEADER_EPOCH), (4, ErrorCode.NONE)],
)
def test_the_fetch_epoch_must_be_the_leaders(epoch: int, expected: ErrorCode) -> None:
    leader = Node(1, [1], QuorumState(epoch=3)).win()
    answer = answer_of(leader.fetched_by(2, 0, 0, epoch))
    assert (answer.error, answer.hint) == (expected, Hint(4, 1))


def test_a_follower_points_to_the_leader() -> None:
    follower = Node(2, [1]).follow(3, 4)
    answer = answer_of(follower.fetched_by(101, 0, 0))
    assert (answer.error, answer.hint) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, Hint(4, 3))


def test_a_fetch_at_the_end_waits_for_records() -> None:
    leader = Node(1, []).win()
    assert answer_of(leader.fetched_by(2, 1, 1)).high_watermark == 1, "the high watermark is news the first time"
    parked = leader.fetched_by(2, 1, 1)
    assert parked.answer is None
    leader.replica.append(leader.now, [[b"x"]])
    answer = answer_of(parked)
    assert len(answer.records) > 0


def test_a_waiting_fetch_is_answered_when_the_high_watermark_moves() -> None:
    leader = Node(1, []).win()
    leader.replica.append(leader.now, [[b"x"]])
    leader.replica.flush(leader.now)
    observer = leader.fetched_by(101, 2, 1)
    assert observer.answer is None, "no high watermark of this epoch is known yet, so there is no news"
    leader.fetched_by(2, 2, 1)
    assert answer_of(observer).high_watermark == 2


def test_a_waiting_fetch_is_answered_empty_after_half_a_second() -> None:
    leader = Node(1, []).win()
    parked = leader.fetched_by(101, 1, 1)
    leader.replica.tick(leader.now + 499_000)
    assert parked.answer is None
    assert leader.replica.deadline() <= leader.now + 500_000
    leader.replica.tick(leader.now + 500_000)
    assert answer_of(parked).records == b""


def test_waiting_fetches_fail_when_the_leadership_is_lost() -> None:
    leader = Node(1, []).win()
    parked = leader.fetched_by(101, 1, 1)
    leader.replica.resign(leader.now)
    assert answer_of(parked).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_whose_connection_is_gone_is_dropped() -> None:
    leader = Node(1, []).win()
    parked = leader.fetched_by(101, 1, 1)
    parked.closed = True
    leader.replica.append(leader.now, [[b"x"]])
    assert parked.answer is None


def test_wrong_clusters_and_other_partitions_are_refused() -> None:
    leader = Node(1, []).win()
    body = messages.fetch(config(2), 1, 0, 0)
    body.cluster_id = "other"
    request = ServerRequest(ApiKey.FETCH, 17, body, "test", "CONTROLLER", 2, 0)
    leader.replica.handle_fetch(0, request)
    assert answer_of(request).error == ErrorCode.INCONSISTENT_CLUSTER_ID
    body = messages.fetch(config(2), 1, 0, 0)
    body.topics[0].topic_id = bytes(16)
    request = ServerRequest(ApiKey.FETCH, 17, body, "test", "CONTROLLER", 2, 0)
    leader.replica.handle_fetch(0, request)
    assert answer_of(request).error == ErrorCode.INVALID_REQUEST


# -- DescribeQuorum --------------------------------------------------------------------------------------------


def describe(node: Node) -> Any:
    body = DescribeQuorumRequest(
        topics=[TopicDataRequest(topic_name="__cluster_metadata", partitions=[PartitionDataRequest()])]
    )
    request = ServerRequest(ApiKey.DESCRIBE_QUORUM, 2, body, "test", "CONTROLLER", 1, node.now)
    node.replica.handle_describe_quorum(node.now, request)
    assert request.answer is not None
    return request.answer.response.topics[0].partitions[0]  # type: ignore[union-attr]


def test_the_leader_describes_voters_and_observers() -> None:
    leader = Node(1, []).win()
    leader.fetched_by(2, 1, 1)
    leader.fetched_by(101, 0, 0)
    described = describe(leader)
    assert (described.leader_id, described.leader_epoch, described.high_watermark) == (1, 1, 1)
    assert [(one.replica_id, one.log_end_offset) for one in described.current_voters] == [(1, 1), (2, 1), (3, -1)]
    assert [(one.replica_id, one.log_end_offset) for one in described.observers] == [(101, 0)]


def test_others_name_the_leader_instead() -> None:
    described = describe(Node(2, [1]).follow(3, 4))
    assert (described.error_code, described.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 3)
