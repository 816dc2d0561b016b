"""OffsetForLeaderEpoch (API key 23), versions 2 to 4.

Where a leader epoch ends in the leader's log (KIP-320): consumers detect by it whether the log was truncated.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, int64, message, string


@message()
class OffsetForLeaderPartition(Message):
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


@message()
class OffsetForLeaderTopic(Message):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(api_key=23, kind="request", versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest(Message):
    replica_id: int = int32(default=-2, versions="3+")
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@message()
class EpochEndOffset(Message):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@message()
class OffsetForLeaderTopicResult(Message):
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message(api_key=23, kind="response", versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int = int32()
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
