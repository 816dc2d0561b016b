"""Metadata (API key 3), versions 0 to 12.

The brokers, and the leader and replicas of each topic-partition.

A request with `topics=None` stands for all topics; in version 0, which has no null, an empty list does. Version 7 adds
leader epochs, 10 topic ids.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, message, string, uuid


@message()
class MetadataRequestTopic(Message):
    topic_id: bytes = uuid(versions="10+")
    name: str | None = string(default=None, nullable="10+")


@message(api_key=3, kind="request", versions=(0, 12), flexible=9)
class MetadataRequest(Message):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean(default=True, versions="4+")
    include_cluster_authorized_operations: bool = boolean(versions="8-10")
    include_topic_authorized_operations: bool = boolean(versions="8+")


@message()
class MetadataResponseBroker(Message):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(default=None, versions="1+", nullable="1+")


@message()
class MetadataResponsePartition(Message):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, versions="7+")
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", versions="5+")


@message()
class MetadataResponseTopic(Message):
    error_code: int = int16()
    name: str | None = string(default=None, nullable="12+")
    topic_id: bytes = uuid(versions="10+")
    is_internal: bool = boolean(versions="1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(default=-2147483648, versions="8+")


@message(api_key=3, kind="response", versions=(0, 12), flexible=9)
class MetadataResponse(Message):
    throttle_time_ms: int = int32(versions="3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(default=None, versions="2+", nullable="2+")
    controller_id: int = int32(default=-1, versions="1+")
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(default=-2147483648, versions="8-10")
