"""DescribeConfigs (API key 32), versions 1 to 4.

The configuration of topics (resource type 2) and brokers (4). `configuration_keys=None` stands for all keys.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int8, int16, int32, message, string


@message()
class DescribeConfigsResource(Message):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array("string", nullable="0+")


@message(api_key=32, kind="request", versions=(1, 4), flexible=4)
class DescribeConfigsRequest(Message):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(versions="3+")


@message()
class DescribeConfigsSynonym(Message):
    name: str = string()
    value: str | None = string(default=None, nullable="0+")
    source: int = int8()


@message()
class DescribeConfigsResourceResult(Message):
    name: str = string()
    value: str | None = string(default=None, nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8(versions="3+")
    documentation: str | None = string(default=None, versions="3+", nullable="3+")


@message()
class DescribeConfigsResult(Message):
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(api_key=32, kind="response", versions=(1, 4), flexible=4)
class DescribeConfigsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
