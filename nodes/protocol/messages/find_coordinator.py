"""FindCoordinator (API key 10), versions 0 to 6.

Which broker coordinates a group or a transactional id; several keys at once from version 4 on.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int8, int16, int32, message, string


@message(api_key=10, kind="request", versions=(0, 6), flexible=3)
class FindCoordinatorRequest(Message):
    key: str = string(versions="0-3")
    key_type: int = int8(versions="1+")
    coordinator_keys: list[str] = array("string", versions="4+")


@message()
class Coordinator(Message):
    key: str = string(versions="4+")
    node_id: int = int32(versions="4+")
    host: str = string(versions="4+")
    port: int = int32(versions="4+")
    error_code: int = int16(versions="4+")
    error_message: str | None = string(default=None, versions="4+", nullable="4+")


@message(api_key=10, kind="response", versions=(0, 6), flexible=3)
class FindCoordinatorResponse(Message):
    throttle_time_ms: int = int32(versions="1+")
    coordinators: list[Coordinator] = array(Coordinator, versions="4+")
    error_code: int = int16(versions="0-3")
    error_message: str | None = string(default=None, versions="1-3", nullable="1-3")
    node_id: int = int32(versions="0-3")
    host: str = string(versions="0-3")
    port: int = int32(versions="0-3")
