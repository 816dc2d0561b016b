"""IncrementalAlterConfigs (API key 44), versions 0 to 1.

Sets (operation 0) or unsets (1) single settings of topics (resource type 2) and of the cluster's brokers (4, with an
empty name); where they are lists, appends to them (2) and subtracts from them (3).
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int8, int16, int32, message, string


@message()
class AlterableConfig(Message):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(default=None, nullable="0+")


@message()
class AlterConfigsResource(Message):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=44, kind="request", versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@message()
class AlterConfigsResourceResponse(Message):
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=44, kind="response", versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
