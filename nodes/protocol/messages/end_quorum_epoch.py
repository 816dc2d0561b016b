"""EndQuorumEpoch (API key 54), versions 0 to 1.

A leader of the metadata quorum resigns and names its successors, the best first (KIP-595).
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, message, string, uint16, uuid


@message()
class ReplicaInfo(Message):
    candidate_id: int = int32(versions="1+")
    candidate_directory_id: bytes = uuid(versions="1+")


@message()
class PartitionDataRequest(Message):
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, versions="1+")
    preferred_successors: list[int] = array("int32", versions="0")


@message()
class TopicDataRequest(Message):
    topic_name: str = string()
    partitions: list[PartitionDataRequest] = array(PartitionDataRequest)


@message()
class LeaderEndpoint(Message):
    name: str = string(versions="1+")
    host: str = string(versions="1+")
    port: int = uint16(versions="1+")


@message(api_key=54, kind="request", versions=(0, 1), flexible=1)
class EndQuorumEpochRequest(Message):
    cluster_id: str | None = string(default=None, nullable="0+")
    topics: list[TopicDataRequest] = array(TopicDataRequest)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, versions="1+")


@message()
class PartitionDataResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


@message()
class TopicDataResponse(Message):
    topic_name: str = string()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


@message()
class NodeEndpoint(Message):
    node_id: int = int32(versions="1+")
    host: str = string(versions="1+")
    port: int = uint16(versions="1+")


@message(api_key=54, kind="response", versions=(0, 1), flexible=1)
class EndQuorumEpochResponse(Message):
    error_code: int = int16()
    topics: list[TopicDataResponse] = array(TopicDataResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="1+", tag=0)
