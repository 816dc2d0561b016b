"""DescribeQuorum (API key 55), versions 0 to 2.

Leader, epoch, voters and observers of the metadata quorum, with the log end offset of each.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, int64, message, string, uint16, uuid


@message()
class PartitionDataRequest(Message):
    partition_index: int = int32()


@message()
class TopicDataRequest(Message):
    topic_name: str = string()
    partitions: list[PartitionDataRequest] = array(PartitionDataRequest)


@message(api_key=55, kind="request", versions=(0, 2), flexible=0)
class DescribeQuorumRequest(Message):
    topics: list[TopicDataRequest] = array(TopicDataRequest)


@message()
class ReplicaState(Message):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid(versions="2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(default=-1, versions="1+")
    last_caught_up_timestamp: int = int64(default=-1, versions="1+")


@message()
class PartitionDataResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, versions="2+", nullable="2+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@message()
class TopicDataResponse(Message):
    topic_name: str = string()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


@message()
class Listener(Message):
    name: str = string(versions="2+")
    host: str = string(versions="2+")
    port: int = uint16(versions="2+")


@message()
class Node(Message):
    node_id: int = int32(versions="2+")
    listeners: list[Listener] = array(Listener, versions="2+")


@message(api_key=55, kind="response", versions=(0, 2), flexible=0)
class DescribeQuorumResponse(Message):
    error_code: int = int16()
    error_message: str | None = string(default=None, versions="2+", nullable="2+")
    topics: list[TopicDataResponse] = array(TopicDataResponse)
    nodes: list[Node] = array(Node, versions="2+")
