"""AlterPartitionReassignments (API key 45), versions 0 to 1.

Starts to move topic-partitions to other replicas, or, with `replicas=None`, cancels such a move (RA-01, RA-08).
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, message, string


@message()
class ReassignablePartition(Message):
    partition_index: int = int32()
    replicas: list[int] | None = array("int32", default=None, nullable="0+")


@message()
class ReassignableTopic(Message):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@message(api_key=45, kind="request", versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean(default=True, versions="1+")
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@message()
class ReassignablePartitionResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


@message()
class ReassignableTopicResponse(Message):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(api_key=45, kind="response", versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean(default=True, versions="1+")
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
