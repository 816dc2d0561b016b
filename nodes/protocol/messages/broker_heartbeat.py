"""BrokerHeartbeat (API key 63), versions 0 to 1.

A broker reports that it is alive, how far it has replayed the metadata log, and whether it wants to be fenced or shut
down.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, int64, message


@message(api_key=63, kind="request", versions=(0, 1), flexible=0)
class BrokerHeartbeatRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array("uuid", versions="1+", tag=0)


@message(api_key=63, kind="response", versions=(0, 1), flexible=0)
class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()
