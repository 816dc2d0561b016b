"""DP-15: what a broker looks up in a log is what its log has.

A client that starts at a time, or that checks after a leader change whether its position still holds (KIP-320), goes by
one answer, and has nothing to compare it with. A wrong one skips records or reads them twice. Brokers answer from
indexes, which are cut, rebuilt and loaded apart from the records. So the observer reads the log from its start, at the
moment of the answer, and compares:

* ListOffsets for a consumer: the latest offset is no lower than the high watermark (`listed_end.py` has that it is no
  higher), the earliest is the log's start; that of a time is the first record below the high watermark which is not
  older, with its timestamp. No offset at all is answered only if no committed record fits: the high watermark of a new
  leader lags behind what its predecessor has shown, and it says OFFSET_NOT_AVAILABLE then (KIP-207)
* OffsetForLeaderEpoch: no record of the epoch asked for, or an earlier one, is at or after the end that is answered,
  and no record of a later one before it

Source: the protocols of ListOffsets and OffsetForLeaderEpoch, rules 11 and 18. Legal: errors; for a time after all
records no offset. What nobody asked for is not judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import READ_BYTES, Batch, InvariantBroken, batches_of
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from squall.nodes.protocol.record_times import record_times
from squall.nodes.protocol.records import BatchHeader
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.replication.serving import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

NOWHERE = (-1, -1)
"""Timestamp and offset of no record."""


class LookedUpOffsets(Rule):
    """See the module."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if node.broker is None or request.answer is None or request.api_key not in _JUDGED:
            return
        response, replicas = request.answer.response, node.broker.replicas
        if isinstance(request.body, ListOffsetsRequest) and isinstance(response, ListOffsetsResponse):
            if request.body.replica_id < 0:
                _check_listed(process.name, replicas, request.body, response, self._committed_end)
        elif isinstance(request.body, OffsetForLeaderEpochRequest):
            assert isinstance(response, OffsetForLeaderEpochResponse)
            _check_ends(process.name, replicas, request.body, response)

    def _committed_end(self, replica: TopicPartitionReplica) -> int:
        """Return up to where the records of the newest leader's log are committed, whatever it knows; else 0."""
        log = self.cluster.watch(replica.topic, replica.topic_id, replica.partition).log
        return log.end if replica.leader_epoch == log.newest_epoch else 0


_JUDGED = (ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH)


def _check_listed(
    name: str,
    replicas: Replicas,
    asked: ListOffsetsRequest,
    told: ListOffsetsResponse,
    committed_end: Callable[[TopicPartitionReplica], int],
) -> None:
    timestamps = {
        (topic.name, one.partition_index): one.timestamp for topic in asked.topics for one in topic.partitions
    }
    for topic in told.topics:
        for one in topic.partitions:
            hosted = replicas.by_name(topic.name, one.partition_index)
            timestamp = timestamps.get((topic.name, one.partition_index))
            if hosted is not None and one.error_code == 0 and timestamp is not None:
                _check_offset(name, hosted.replica, timestamp, one, committed_end(hosted.replica))


def _check_offset(
    name: str, replica: TopicPartitionReplica, timestamp: int, told: ListOffsetsPartitionResponse, committed_end: int
) -> None:
    if timestamp == LATEST_TIMESTAMP:
        expected = (-1, max(replica.high_watermark, told.offset))
    elif timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        expected = (-1, replica.log.start_offset)
    elif timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        expected = _first_from(replica, timestamp, replica.high_watermark)
        if (told.timestamp, told.offset) == expected == NOWHERE:
            expected = _first_from(replica, timestamp, committed_end)
    else:
        return
    if (told.timestamp, told.offset) != expected:
        raise InvariantBroken(
            "DP-15",
            f"{name}: asked for the offset of time {timestamp} in {replica.topic}-{replica.partition}, it answers "
            f"offset {told.offset} of time {told.timestamp}; its log has offset {expected[1]} of time {expected[0]}, "
            f"and what is committed ends at {max(replica.high_watermark, committed_end)}",
        )


def _first_from(replica: TopicPartitionReplica, timestamp: int, end: int) -> tuple[int, int]:
    """Return timestamp and offset of the first record below `end` that is not older; of the newest time for -3."""
    start = replica.log.start_offset
    records = [one for _, content in _batches(replica) for one in _times(content) if one[1] >= start]
    wanted = max((time for time, _ in records), default=-1) if timestamp == MAX_TIMESTAMP else timestamp
    if wanted < 0:
        return NOWHERE
    return next((one for one in records if one[0] >= wanted and one[1] < end), NOWHERE)


def _check_ends(
    name: str, replicas: Replicas, asked: OffsetForLeaderEpochRequest, told: OffsetForLeaderEpochResponse
) -> None:
    epochs = {(topic.topic, one.partition): one.leader_epoch for topic in asked.topics for one in topic.partitions}
    for topic in told.topics:
        for one in topic.partitions:
            hosted = replicas.by_name(topic.topic, one.partition)
            epoch = epochs.get((topic.topic, one.partition))
            if hosted is not None and one.error_code == 0 and epoch is not None:
                _check_end(name, hosted.replica, epoch, one)


def _check_end(name: str, replica: TopicPartitionReplica, epoch: int, told: EpochEndOffset) -> None:
    batches = [batch for batch, _ in _batches(replica)]
    later = next((one.base for one in batches if one.epoch > epoch), replica.end_offset)
    later = max(later, replica.log.start_offset)
    last = max((one.epoch for one in batches if one.epoch <= epoch), default=-1)
    if told.leader_epoch < 0 and (last < 0 or epoch > replica.leader_epoch):
        return
    if told.end_offset != later or not last <= told.leader_epoch <= epoch:
        raise InvariantBroken(
            "DP-15",
            f"{name}: asked where leader epoch {epoch} of {replica.topic}-{replica.partition} ends, it answers epoch "
            f"{told.leader_epoch}, offset {told.end_offset}; its log has records of epoch {last}, and a later epoch "
            f"begins at {later}",
        )


def _times(batch: memoryview) -> Iterator[tuple[int, int]]:
    """Yield timestamp and offset of each record; with append time all have that of the batch."""
    header = BatchHeader.read(batch)
    if not header.is_log_append_time:
        yield from record_times(batch)
    else:
        yield from ((header.max_timestamp, offset) for offset in range(header.base_offset, header.next_offset))


def _batches(replica: TopicPartitionReplica) -> Iterator[tuple[Batch, memoryview]]:
    """Yield every batch of a log, with its content. The first one may begin before the log does."""
    return batches_of(
        lambda offset, upper: replica.read(offset, READ_BYTES, upper, at_least_one=True),
        replica.log.start_offset,
        replica.end_offset,
    )
