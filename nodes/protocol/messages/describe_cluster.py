"""DescribeCluster (API key 60), versions 0 to 2.

Id, controller and brokers of the cluster. Version 1 distinguishes brokers (endpoint type 1) from controllers (2),
version 2 includes fenced brokers on request.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int8, int16, int32, message, string


@message(api_key=60, kind="request", versions=(0, 2), flexible=0)
class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(default=1, versions="1+")
    include_fenced_brokers: bool = boolean(versions="2+")


@message()
class DescribeClusterBroker(Message):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(default=None, nullable="0+")
    is_fenced: bool = boolean(versions="2+")


@message(api_key=60, kind="response", versions=(0, 2), flexible=0)
class DescribeClusterResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    endpoint_type: int = int8(default=1, versions="1+")
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
