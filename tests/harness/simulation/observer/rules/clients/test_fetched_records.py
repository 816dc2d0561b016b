"""DP-14 and DP-13 as the observer asserts them of fetches: what a broker answers is what its log has there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.fetched_records import FetchedRecords, check_sizes
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
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.topic_partition import METADATA_TOPIC_ID
from tests.harness.simulation.observer.observed import batch

TOPIC_ID = bytes(range(16))
SESSION = 77
BATCHES = [batch(2, 1, 20, 21), batch(4, 3, 30, 31), batch(6, 3, 40, 41)]
"""Offsets 2 and 3 are of leader epoch 1, all others of 3."""


def fetch(
    offset: int,
    *batches: bytes,
    start: int = 2,
    high_watermark: int = 6,
    error: int = 0,
    after_epoch: int = -1,
    follower: bool = False,
    diverging: tuple[int, int] | None = None,
    leader: tuple[int, int] = (-1, -1),
    in_session: bool = False,
    most: tuple[int, int] = (10_000, 10_000),
    topic_id: bytes = TOPIC_ID,
) -> None:
    """A broker whose log has offsets 2 to 7, the first four of them committed, answers a fetch.

    `most` are the bytes that it may send, in all and of the topic-partition.
    """

    def read(offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> bytes:
        return b"".join(BATCHES[(offset - 2) // 2 :])

    replica = SimpleNamespace(
        topic="t",
        partition=0,
        log=SimpleNamespace(start_offset=2),
        read=read,
        end_offset=8,
        high_watermark=6,
        leader=1,
        leader_epoch=5,
    )
    replicas = SimpleNamespace(by_name=lambda *_: None, by_id=lambda *_: SimpleNamespace(replica=replica))
    topic, position = FetchTopic(topic_id, ""), FetchPartition(0, -1, offset, after_epoch, partition_max_bytes=most[1])
    sessions = {SESSION: SimpleNamespace(watches={0: SimpleNamespace(topic=topic, wanted=position)})}
    fetching = SimpleNamespace(sessions=SimpleNamespace(find=sessions.get))
    broker, config = SimpleNamespace(replicas=replicas, fetching=fetching), SimpleNamespace(fetch_max_bytes=20_000)
    node: Any = SimpleNamespace(broker=broker, config=config)
    process: Any = SimpleNamespace(name="b1")
    asked = FetchRequest(
        replica_state=ReplicaState(2 if follower else -1, 1),
        max_bytes=most[0],
        topics=[] if in_session else [FetchTopic(topic_id, "", [position])],
    )
    part = PartitionData(0, error, high_watermark, log_start_offset=start, records=b"".join(batches))
    part.current_leader = LeaderIdAndEpoch(*leader)
    if diverging is not None:
        part.diverging_epoch = EpochEndOffset(*diverging)
    request = ServerRequest(int(ApiKey.FETCH), 17, asked, "client", "PLAINTEXT", 1, 0)
    told = [FetchableTopicResponse(topic_id, "", [part])]
    request.answer = Answer(response=FetchResponse(session_id=SESSION if in_session else 0, responses=told))
    FetchedRecords(None).answered(process, node, request)  # type: ignore[arg-type]


def test_records_from_the_position_on_are_sound() -> None:
    fetch(2, *BATCHES[:2])
    fetch(6, BATCHES[2], follower=True)
    fetch(2)


def test_a_fetch_from_within_a_batch_gets_all_of_it() -> None:
    fetch(3, BATCHES[0])


@pytest.mark.parametrize(("start", "high_watermark"), [(1, 6), (2, 5), (2, 8)])
def test_other_offsets_than_the_replicas_break_dp_14(start: int, high_watermark: int) -> None:
    with pytest.raises(InvariantBroken, match=rf"^DP-14: .* log start {start} and high watermark {high_watermark}; "):
        fetch(2, start=start, high_watermark=high_watermark)


@pytest.mark.parametrize("offset", [1, 9])
def test_a_position_outside_of_the_log_is_an_error(offset: int) -> None:
    with pytest.raises(InvariantBroken, match=rf"^DP-14: b1 answers a fetch of t-0 from {offset} without an error"):
        fetch(offset)
    fetch(offset, error=ErrorCode.OFFSET_OUT_OF_RANGE)


def test_records_of_another_place_break_dp_14() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-14: .* from 2, .* with a batch of the offsets 4 to 5"):
        fetch(2, BATCHES[1])
    with pytest.raises(InvariantBroken, match=r"^DP-14: .* 2 to 3 after one that ends before 4"):
        fetch(2, BATCHES[0], BATCHES[0])


def test_what_a_session_holds_is_judged_as_well_as_what_a_fetch_names() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-14: .* from 2, .* with a batch of the offsets 4 to 5"):
        fetch(2, BATCHES[1], in_session=True)
    fetch(2, BATCHES[0], in_session=True)


def test_a_refusal_states_what_the_replica_has_or_nothing() -> None:
    error = ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(InvariantBroken, match=r"^DP-14: b1 refuses .* as \(7, 2, -1, -1\); they are \(6, 2, 1, 5\)"):
        fetch(2, error=error, high_watermark=7)
    with pytest.raises(InvariantBroken, match=r"^DP-14: .* as \(6, 2, 3, 5\)"):
        fetch(2, error=error, leader=(3, 5))
    fetch(2, error=error, start=-1, high_watermark=-1)
    fetch(2, error=error, leader=(1, 5))


def test_a_consumer_reads_below_the_high_watermark_a_follower_to_the_end() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-14: .* up to 6, with a batch of the offsets 6 to 7"):
        fetch(4, *BATCHES[1:])
    fetch(4, *BATCHES[1:], follower=True)


def test_a_follower_that_went_another_way_must_hear_of_it() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-13: b1 lets a follower of t-0 go on from 6 .* is of epoch 3"):
        fetch(6, follower=True, after_epoch=2)
    fetch(6, follower=True, after_epoch=2, diverging=(1, 4))
    with pytest.raises(InvariantBroken, match=r"^DP-13: b1 lets a follower of t-0 go on from 4 .* is of epoch 1"):
        fetch(4, follower=True, after_epoch=2)
    fetch(4, follower=True, after_epoch=2, diverging=(1, 4))
    fetch(4, follower=True, after_epoch=3)
    fetch(4, follower=True, after_epoch=5)
    fetch(6, follower=True, after_epoch=3)


@pytest.mark.parametrize(("after_epoch", "diverging"), [(3, (1, 4)), (2, (1, 6)), (2, (3, 4))])
def test_it_is_told_to_cut_where_the_logs_part(after_epoch: int, diverging: tuple[int, int]) -> None:
    """Wrong: the logs agree; a record of a later epoch would stay; the epoch in the answer is a later one."""
    with pytest.raises(InvariantBroken, match=r"^DP-13: b1 tells a follower of t-0, which goes on from 6 "):
        fetch(6, follower=True, after_epoch=after_epoch, diverging=diverging)


def test_who_is_told_to_truncate_gets_no_records() -> None:
    fetch(6, follower=True, after_epoch=2, diverging=(1, 4))
    with pytest.raises(InvariantBroken, match=r"^DP-13: b1 tells a follower of t-0 to truncate, and sends it [0-9]+ b"):
        fetch(6, BATCHES[2], follower=True, after_epoch=2, diverging=(1, 4))


SIZE = len(BATCHES[0])


@pytest.mark.parametrize("most", [(2 * SIZE, 2 * SIZE), (3 * SIZE, 2 * SIZE), (10_000, 10_000)])
def test_as_many_bytes_as_are_allowed_may_be_sent(most: tuple[int, int]) -> None:
    fetch(2, *BATCHES[:2], most=most)


@pytest.mark.parametrize("most", [(0, 0), (10_000, 1), (1, 10_000), (-1, -1)])
def test_one_batch_alone_may_be_larger_than_is_allowed(most: tuple[int, int]) -> None:
    """KIP-74: or who fetches would never go on."""
    fetch(2, BATCHES[0], most=most)


def test_more_bytes_than_are_allowed_break_dp_14() -> None:
    with pytest.raises(InvariantBroken, match=rf"^DP-14: b1 answers .* at most {SIZE} bytes of partition 0 with"):
        fetch(2, *BATCHES[:2], most=(10_000, SIZE))
    with pytest.raises(InvariantBroken, match=rf"^DP-14: b1 answers a fetch of at most {SIZE} bytes with {2 * SIZE}$"):
        fetch(2, *BATCHES[:2], most=(SIZE, 10_000))


def test_a_fetch_of_the_quorum_is_not_bounded_by_the_brokers_setting() -> None:
    """`worlds` seed 1025747: `fetch.max.bytes` was smaller than what a voter had missed."""
    fetch(2, *BATCHES[:2], most=(SIZE, 10_000), topic_id=METADATA_TOPIC_ID)


def test_only_one_topic_partition_has_a_batch_that_is_too_large() -> None:
    parts = [PartitionData(number, records=BATCHES[0]) for number in (0, 1)]
    asked = {("", TOPIC_ID, number): FetchPartition(number, partition_max_bytes=1) for number in (0, 1)}
    told = FetchResponse(responses=[FetchableTopicResponse(TOPIC_ID, "", parts)])
    with pytest.raises(InvariantBroken, match=r"^DP-14: b1 answers a fetch of at most 1 bytes of partition 1 with"):
        check_sizes("b1", 10_000, told, asked)
    parts[1].records = b""
    check_sizes("b1", 10_000, told, asked)
