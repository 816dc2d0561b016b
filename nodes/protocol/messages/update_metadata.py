"""UpdateMetadata (API key 6), versions 7 to 8: a ZooKeeper-era controller gives every broker the cluster's metadata.

The schema is that of Kafka 3.9, the last release that has it.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int8, int16, int32, int64, message, string, uuid

LEADER_DURING_DELETE = -2
"""The leader of a topic-partition that is being deleted."""


@message()
class UpdateMetadataPartitionState(Message):
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    zk_version: int = int32()
    replicas: list[int] = array("int32")
    offline_replicas: list[int] = array("int32")


@message()
class UpdateMetadataTopicState(Message):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


@message()
class UpdateMetadataEndpoint(Message):
    port: int = int32()
    host: str = string()
    listener: str = string()
    security_protocol: int = int16()


@message()
class UpdateMetadataBroker(Message):
    id: int = int32()
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint)
    rack: str | None = string(default=None, nullable="0+")


@message(api_key=6, kind="request", versions=(7, 8), flexible=6)
class UpdateMetadataRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(versions="8+")
    type: int = int8(versions="8+", tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, shared=True)
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


@message(api_key=6, kind="response", versions=(7, 8), flexible=6)
class UpdateMetadataResponse(Message):
    error_code: int = int16()
