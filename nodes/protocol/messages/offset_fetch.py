"""OffsetFetch (API key 9), versions 1 to 9.

The offsets that a group has committed. Version 2 allows all topics (None), 7 adds `require_stable`, 8 several groups at
once, 9 the member of a group of the new protocol.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, int64, message, string


@message()
class OffsetFetchRequestTopic(Message):
    name: str = string(versions="1-7")
    partition_indexes: list[int] = array("int32", versions="1-7")


@message()
class OffsetFetchRequestTopics(Message):
    name: str = string(versions="8+")
    partition_indexes: list[int] = array("int32", versions="8+")


@message()
class OffsetFetchRequestGroup(Message):
    group_id: str = string(versions="8+")
    member_id: str | None = string(default=None, versions="9+", nullable="9+")
    member_epoch: int = int32(default=-1, versions="9+")
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, versions="8+", nullable="8+")


@message(api_key=9, kind="request", versions=(1, 9), flexible=6)
class OffsetFetchRequest(Message):
    group_id: str = string(versions="1-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, versions="1-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, versions="8+")
    require_stable: bool = boolean(versions="7+")


@message()
class OffsetFetchResponsePartition(Message):
    partition_index: int = int32(versions="1-7")
    committed_offset: int = int64(versions="1-7")
    committed_leader_epoch: int = int32(default=-1, versions="5-7")
    metadata: str | None = string(versions="1-7", nullable="1-7")
    error_code: int = int16(versions="1-7")


@message()
class OffsetFetchResponseTopic(Message):
    name: str = string(versions="1-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, versions="1-7")


@message()
class OffsetFetchResponsePartitions(Message):
    partition_index: int = int32(versions="8+")
    committed_offset: int = int64(versions="8+")
    committed_leader_epoch: int = int32(default=-1, versions="8+")
    metadata: str | None = string(versions="8+", nullable="8+")
    error_code: int = int16(versions="8+")


@message()
class OffsetFetchResponseTopics(Message):
    name: str = string(versions="8+")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, versions="8+")


@message()
class OffsetFetchResponseGroup(Message):
    group_id: str = string(versions="8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, versions="8+")
    error_code: int = int16(versions="8+")


@message(api_key=9, kind="response", versions=(1, 9), flexible=6)
class OffsetFetchResponse(Message):
    throttle_time_ms: int = int32(versions="3+")
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, versions="1-7")
    error_code: int = int16(versions="2-7")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, versions="8+")
