"""DP-15 as the observer asserts it of look-ups: what a broker answers is what its log has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.looked_up_offsets import LookedUpOffsets
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message

LATEST, EARLIEST, LARGEST = -1, -2, -3


class Broker:
    """A broker with batches of two records each: offsets 0 and 1 in leader epoch 1, 2 and 3 in 3, 4 and 5 in 4.

    Their times are 100, 110, 300, 200, 400 and 410. All but the last batch is committed.
    """

    def __init__(self, start: int = 0, *, high_watermark: int = 4, newest_epoch: int = 4) -> None:
        batches = [
            batch_at(base, epoch, *times)
            for base, epoch, times in ((0, 1, (100, 110)), (2, 3, (300, 200)), (4, 4, (400, 410)))
        ]
        log = SimpleNamespace(start_offset=start)

        def read(offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> bytes:
            return b"".join(batches[offset // 2 :])

        replica = SimpleNamespace(
            topic="t",
            topic_id=b"id",
            partition=0,
            log=log,
            read=read,
            end_offset=6,
            high_watermark=high_watermark,
            leader_epoch=4,
        )
        seen = SimpleNamespace(log=SimpleNamespace(end=4, newest_epoch=newest_epoch))
        self.cluster: Any = SimpleNamespace(watch=lambda topic, topic_id, partition: seen)
        hosted = SimpleNamespace(replica=replica)
        replicas = SimpleNamespace(by_name=lambda topic, number: hosted if number == 0 else None)
        self.node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=replicas))
        self.process: Any = SimpleNamespace(name="b1")

    def lists(self, timestamp: int, time: int, offset: int, *, error: int = 0, replica_id: int = -1) -> None:
        asked = ListOffsetsRequest(replica_id, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])])
        told = ListOffsetsPartitionResponse(0, error, time, offset)
        response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [told])])
        self._answers(ApiKey.LIST_OFFSETS, asked, response)

    def ends(self, epoch: int, answered: int, offset: int) -> None:
        part = OffsetForLeaderPartition(0, leader_epoch=epoch)
        asked = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", [part])])
        told = EpochEndOffset(0, 0, answered, offset)
        response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("t", [told])])
        self._answers(ApiKey.OFFSET_FOR_LEADER_EPOCH, asked, response)

    def _answers(self, key: ApiKey, asked: Message, response: Message) -> None:
        request = ServerRequest(int(key), 4, asked, "client", "PLAINTEXT", 1, 0)
        request.answer = Answer(response=response)
        LookedUpOffsets(self.cluster).answered(self.process, self.node, request)


def batch_at(base: int, epoch: int, *times: int) -> bytes:
    batch = bytearray(build_batch([Record(timestamp=time, value=b"v") for time in times]))
    batch[:8] = base.to_bytes(8, "big")
    batch[12:16] = epoch.to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize(
    ("timestamp", "time", "offset"),
    [(LATEST, -1, 4), (EARLIEST, -1, 0), (0, 100, 0), (110, 110, 1), (111, 300, 2), (200, 300, 2), (300, 300, 2)],
)
def test_what_a_scan_finds_is_legal(timestamp: int, time: int, offset: int) -> None:
    Broker().lists(timestamp, time, offset)


@pytest.mark.parametrize(
    ("timestamp", "time", "offset"),
    [(LATEST, -1, 3), (LATEST, -1, 0), (EARLIEST, -1, 2), (111, 200, 3), (111, 110, 1), (100, 110, 1), (300, -1, -1)],
)
def test_another_offset_breaks_dp_15(timestamp: int, time: int, offset: int) -> None:
    with pytest.raises(InvariantBroken, match=rf"^DP-15: b1: asked for the offset of time {timestamp} in t-0, it "):
        Broker().lists(timestamp, time, offset)


def test_a_time_after_all_visible_records_has_no_offset() -> None:
    """The records of 400 and 410 are there, and not committed."""
    Broker().lists(301, -1, -1)
    Broker().lists(LARGEST, -1, -1)
    with pytest.raises(InvariantBroken, match=r"answers offset 4 of time 400; its log has offset -1 .* ends at 4$"):
        Broker().lists(301, 400, 4)


def test_a_new_leader_that_hides_what_its_predecessor_has_shown_breaks_dp_15() -> None:
    """KIP-207: it has to answer OFFSET_NOT_AVAILABLE until its high watermark has caught up."""
    with pytest.raises(InvariantBroken, match=r"answers offset -1 of time -1; its log has offset 2 of time 300, .* 4$"):
        Broker(high_watermark=2).lists(200, -1, -1)
    Broker(high_watermark=2).lists(200, -1, -1, error=int(ErrorCode.OFFSET_NOT_AVAILABLE))


def test_a_leader_that_was_deposed_knows_of_no_later_commits() -> None:
    Broker(high_watermark=2, newest_epoch=5).lists(200, -1, -1)


def test_a_log_that_begins_within_a_batch_has_the_records_from_there_on() -> None:
    Broker(start=1).lists(0, 110, 1)
    Broker(start=1).lists(EARLIEST, -1, 1)


def test_errors_and_followers_are_not_judged() -> None:
    Broker().lists(LATEST, -1, -1, error=int(ErrorCode.OFFSET_NOT_AVAILABLE))
    Broker().lists(LATEST, -1, 6, replica_id=2)


@pytest.mark.parametrize(("epoch", "answered", "offset"), [(1, 1, 2), (2, 1, 2), (2, 2, 2), (3, 3, 4), (4, 4, 6)])
def test_an_epoch_ends_where_a_later_one_begins(epoch: int, answered: int, offset: int) -> None:
    """Epoch 2 may be known although it has no records."""
    Broker().ends(epoch, answered, offset)


@pytest.mark.parametrize(
    ("epoch", "answered", "offset"), [(1, 1, 4), (2, 3, 4), (3, 1, 2), (3, 1, 4), (3, -1, -1), (4, 4, 5)]
)
def test_another_end_of_an_epoch_breaks_dp_15(epoch: int, answered: int, offset: int) -> None:
    with pytest.raises(InvariantBroken, match=rf"^DP-15: b1: asked where leader epoch {epoch} of t-0 ends, "):
        Broker().ends(epoch, answered, offset)


def test_an_epoch_before_all_records_or_after_the_leaders_may_be_unknown() -> None:
    Broker().ends(0, -1, -1)
    Broker().ends(5, -1, -1)


def test_an_epoch_that_ended_before_the_logs_start_ends_there() -> None:
    """Seed 970112 of worlds: the start lies within a batch of the next epoch."""
    Broker(start=3).ends(2, 2, 3)
