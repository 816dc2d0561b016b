"""ListOffsets (API key 2), versions 1 to 11.

The offset of a timestamp, of the log's start (-2) or end (-1), or of the largest timestamp (-3, from version 7). Where
logs are tiered: of the start of the local log (-4, from version 8), of the last tiered record (-5, from version 9), of
the first record not yet tiered (-6, from version 11: KIP-1023).

Version 4 adds leader epochs on both sides, 10 the time that the client will wait (KIP-1075).
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int8, int16, int32, int64, message, string


@message()
class ListOffsetsPartition(Message):
    partition_index: int = int32()
    current_leader_epoch: int = int32(default=-1, versions="4+")
    timestamp: int = int64()


@message()
class ListOffsetsTopic(Message):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(api_key=2, kind="request", versions=(1, 11), flexible=6)
class ListOffsetsRequest(Message):
    replica_id: int = int32()
    isolation_level: int = int8(versions="2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(versions="10+")


@message()
class ListOffsetsPartitionResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(default=-1, versions="4+")


@message()
class ListOffsetsTopicResponse(Message):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(api_key=2, kind="response", versions=(1, 11), flexible=6)
class ListOffsetsResponse(Message):
    throttle_time_ms: int = int32(versions="2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
