"""DescribeTopicPartitions (API key 75), version 0.

Topic-partitions with their eligible leader replicas, in pages: `next_cursor` is the start of the next page.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, message, string, struct, uuid


@message()
class TopicRequest(Message):
    name: str = string()


@message()
class Cursor(Message):
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=75, kind="request", versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest(Message):
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, default=None, nullable="0+")


@message()
class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    eligible_leader_replicas: list[int] | None = array("int32", default=None, nullable="0+")
    last_known_elr: list[int] | None = array("int32", default=None, nullable="0+")
    offline_replicas: list[int] = array("int32")


@message()
class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=-2147483648)


@message(api_key=75, kind="response", versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse(Message):
    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = struct(Cursor, default=None, nullable="0+")
