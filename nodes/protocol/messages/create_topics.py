"""CreateTopics (API key 19), versions 2 to 7.

Creates topics, with counts or with explicit assignments. The controller responds after commit. `num_partitions` and
`replication_factor` of -1 stand for the cluster's defaults. Version 5 adds the configuration to the response, 7 the
topic's id.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int8, int16, int32, message, string, uuid


@message()
class CreatableReplicaAssignment(Message):
    partition_index: int = int32()
    broker_ids: list[int] = array("int32")


@message()
class CreatableTopicConfig(Message):
    name: str = string()
    value: str | None = string(default=None, nullable="0+")


@message()
class CreatableTopic(Message):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(api_key=19, kind="request", versions=(2, 7), flexible=5)
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


@message()
class CreatableTopicConfigs(Message):
    name: str = string(versions="5+")
    value: str | None = string(default=None, versions="5+", nullable="5+")
    read_only: bool = boolean(versions="5+")
    config_source: int = int8(default=-1, versions="5+")
    is_sensitive: bool = boolean(versions="5+")


@message()
class CreatableTopicResult(Message):
    name: str = string()
    topic_id: bytes = uuid(versions="7+")
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    topic_config_error_code: int = int16(versions="5+", tag=0)
    num_partitions: int = int32(default=-1, versions="5+")
    replication_factor: int = int16(default=-1, versions="5+")
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, versions="5+", nullable="5+")


@message(api_key=19, kind="response", versions=(2, 7), flexible=5)
class CreateTopicsResponse(Message):
    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
