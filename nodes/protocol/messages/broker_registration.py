"""BrokerRegistration (API key 62), versions 0 to 4.

A broker joins the cluster with its listeners, incarnation id and features. The response carries its broker epoch.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, int64, message, string, uint16, uuid


@message()
class Listener(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@message()
class Feature(Message):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=62, kind="request", versions=(0, 4), flexible=0)
class BrokerRegistrationRequest(Message):
    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(default=None, nullable="0+")
    is_migrating_zk_broker: bool = boolean(versions="1+")
    log_dirs: list[bytes] = array("uuid", versions="2+")
    previous_broker_epoch: int = int64(default=-1, versions="3+")


@message(api_key=62, kind="response", versions=(0, 4), flexible=0)
class BrokerRegistrationResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
