"""QC-16 as the observer asserts it of fetches: a leader of the quorum states what its own log has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.quorum_fetches import QuorumFetches
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    SnapshotId,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.topic_partition import METADATA_TOPIC_ID
from squall.nodes.raft.roles import Follower, Leader

OTHER_TOPIC = bytes(range(16))


def answers(
    part: PartitionData, *, committed: int | None = 6, leads: bool = True, topic_id: bytes = METADATA_TOPIC_ID
) -> None:
    """C1, whose log begins at offset 2, answers a Fetch with this."""
    role: Any = Follower(5, 2, 0)
    if leads:
        role = Leader.__new__(Leader)
        role.high_watermark = committed
    node: Any = SimpleNamespace(raft=SimpleNamespace(role=role, log=SimpleNamespace(start_offset=2)))
    process: Any = SimpleNamespace(name="c1")
    asked = FetchRequest(topics=[FetchTopic(topic_id, "", [FetchPartition(0)])])
    request = ServerRequest(int(ApiKey.FETCH), 17, asked, "node-2", "CONTROLLER", 1, 0)
    request.answer = Answer(response=FetchResponse(responses=[FetchableTopicResponse(topic_id, "", [part])]))
    QuorumFetches(None).answered(process, node, request)  # type: ignore[arg-type]


def part(start: int, committed: int) -> PartitionData:
    return PartitionData(0, high_watermark=committed, log_start_offset=start, records=b"")


def test_the_own_start_and_high_watermark_are_sound() -> None:
    answers(part(2, 6))


@pytest.mark.parametrize(("start", "committed"), [(0, 6), (8, 6), (2, 5), (2, 7), (2, -1)])
def test_others_break_qc_16(start: int, committed: int) -> None:
    told = f"^QC-16: c1 .* with log start {start} and high watermark {committed}; they are 2 and 6$"
    with pytest.raises(InvariantBroken, match=told):
        answers(part(start, committed))


def test_a_leader_that_has_committed_nothing_in_its_epoch_states_no_high_watermark() -> None:
    answers(part(2, -1), committed=None)
    with pytest.raises(InvariantBroken, match="they are 2 and -1"):
        answers(part(2, 6), committed=None)


@pytest.mark.parametrize(
    "told",
    [
        PartitionData(0, int(ErrorCode.FENCED_LEADER_EPOCH), -1, records=b""),
        PartitionData(0, high_watermark=-1, diverging_epoch=EpochEndOffset(1, 4), records=b""),
        PartitionData(0, high_watermark=-1, snapshot_id=SnapshotId(4, 1), records=b""),
    ],
    ids=["refused", "diverging", "snapshot"],
)
def test_who_must_do_something_else_first_is_told_neither(told: PartitionData) -> None:
    answers(told)


def test_other_logs_and_other_replicas_are_not_judged() -> None:
    answers(part(0, 9), topic_id=OTHER_TOPIC)
    answers(part(0, 9), leads=False)
