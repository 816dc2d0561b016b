"""Vote (API key 52), versions 0 to 2.

A candidate of the metadata quorum requests a vote (KIP-595). Version 1 adds directory ids (KIP-853), version 2
pre-votes (KIP-996).
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, int64, message, string, uint16, uuid


@message()
class PartitionDataRequest(Message):
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: bytes = uuid(versions="1+")
    voter_directory_id: bytes = uuid(versions="1+")
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean(versions="2+")


@message()
class TopicDataRequest(Message):
    topic_name: str = string()
    partitions: list[PartitionDataRequest] = array(PartitionDataRequest)


@message(api_key=52, kind="request", versions=(0, 2), flexible=0)
class VoteRequest(Message):
    cluster_id: str | None = string(default=None, nullable="0+")
    voter_id: int = int32(default=-1, versions="1+")
    topics: list[TopicDataRequest] = array(TopicDataRequest)


@message()
class PartitionDataResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


@message()
class TopicDataResponse(Message):
    topic_name: str = string()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


@message()
class NodeEndpoint(Message):
    node_id: int = int32(versions="1+")
    host: str = string(versions="1+")
    port: int = uint16(versions="1+")


@message(api_key=52, kind="response", versions=(0, 2), flexible=0)
class VoteResponse(Message):
    error_code: int = int16()
    topics: list[TopicDataResponse] = array(TopicDataResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="1+", tag=0)
