"""BeginQuorumEpoch (API key 53), versions 0 to 1.

A new leader of the metadata quorum announces itself to the voters (KIP-595). Version 1 adds directory ids and endpoints
(KIP-853).
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, message, string, uint16, uuid


@message()
class PartitionDataRequest(Message):
    partition_index: int = int32()
    voter_directory_id: bytes = uuid(versions="1+")
    leader_id: int = int32()
    leader_epoch: int = int32()


@message()
class TopicDataRequest(Message):
    topic_name: str = string()
    partitions: list[PartitionDataRequest] = array(PartitionDataRequest)


@message()
class LeaderEndpoint(Message):
    name: str = string(versions="1+")
    host: str = string(versions="1+")
    port: int = uint16(versions="1+")


@message(api_key=53, kind="request", versions=(0, 1), flexible=1)
class BeginQuorumEpochRequest(Message):
    cluster_id: str | None = string(default=None, nullable="0+")
    voter_id: int = int32(default=-1, versions="1+")
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


@message(api_key=53, kind="response", versions=(0, 1), flexible=1)
class BeginQuorumEpochResponse(Message):
    error_code: int = int16()
    topics: list[TopicDataResponse] = array(TopicDataResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="1+", tag=0)
