"""ListOffsets and OffsetForLeaderEpoch: look up offsets of a log; its leader responds at once.

A new leader that cannot know its end yet (rule 11) returns an error that the client's version knows: before version 5
there is no OFFSET_NOT_AVAILABLE, and LEADER_NOT_AVAILABLE makes those clients retry.

A topic-partition named twice in one ListOffsets is refused, as in Kafka: each look-up by time may read much of a log.

Each timestamp below zero has a meaning of its own, defined from some version on. In an earlier version, and for any
other negative number, the response is UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from collections import Counter

from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.serving import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

OFFSET_NOT_AVAILABLE_SINCE = 5
_SPECIAL_SINCE = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}


class OffsetsHandler:
    """Responds to ListOffsets and OffsetForLeaderEpoch."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def list_offsets(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, ListOffsetsRequest)
        asked = Counter((topic.name, one.partition_index) for topic in body.topics for one in topic.partitions)
        topics = [
            ListOffsetsTopicResponse(
                topic.name,
                [
                    self._list(topic.name, one, body, request.api_version)
                    if asked[topic.name, one.partition_index] == 1
                    else ListOffsetsPartitionResponse(one.partition_index, int(ErrorCode.INVALID_REQUEST))
                    for one in topic.partitions
                ],
            )
            for topic in body.topics
        ]
        request.respond(ListOffsetsResponse(topics=topics))

    def _list(
        self, topic: str, asked: ListOffsetsPartition, body: ListOffsetsRequest, version: int
    ) -> ListOffsetsPartitionResponse:
        number = asked.partition_index
        if asked.timestamp < 0 and version < _SPECIAL_SINCE.get(asked.timestamp, version + 1):
            return ListOffsetsPartitionResponse(number, int(ErrorCode.UNSUPPORTED_VERSION))
        hosted = self._replicas.by_name(topic, number)
        if hosted is None:
            return ListOffsetsPartitionResponse(number, int(self._replicas.absence(topic, number)))
        found = hosted.replica.list_offset(asked.timestamp, asked.current_leader_epoch, body.replica_id)
        error = found.error
        if error == ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(number, int(error), found.timestamp, found.offset, found.leader_epoch)

    def offset_for_leader_epoch(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, OffsetForLeaderEpochRequest)
        topics = [
            OffsetForLeaderTopicResult(topic.topic, [self._epoch_end(topic.topic, one) for one in topic.partitions])
            for topic in body.topics
        ]
        request.respond(OffsetForLeaderEpochResponse(topics=topics))

    def _epoch_end(self, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        hosted = self._replicas.by_name(topic, asked.partition)
        if hosted is None:
            return EpochEndOffset(int(self._replicas.absence(topic, asked.partition)), asked.partition)
        found = hosted.replica.offset_for_leader_epoch(asked.current_leader_epoch, asked.leader_epoch)
        return EpochEndOffset(int(found.error), asked.partition, found.leader_epoch, found.end_offset)
