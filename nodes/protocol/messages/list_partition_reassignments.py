"""ListPartitionReassignments (API key 46), version 0.

Lists topic-partitions being moved, among all of them if `topics` is None: their replicas, those being added, those
being removed.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, message, string


@message()
class ListPartitionReassignmentsTopics(Message):
    name: str = string()
    partition_indexes: list[int] = array("int32")


@message(api_key=46, kind="request", versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, default=None, nullable="0+"
    )


@message()
class OngoingPartitionReassignment(Message):
    partition_index: int = int32()
    replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32")
    removing_replicas: list[int] = array("int32")


@message()
class OngoingTopicReassignment(Message):
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(api_key=46, kind="response", versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
