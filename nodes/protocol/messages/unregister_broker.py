"""UnregisterBroker (API key 64), version 0: removes the registration of a broker that will not come back (KIP-631)."""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, int16, int32, message, string


@message(api_key=64, kind="request", versions=(0, 0), flexible=0)
class UnregisterBrokerRequest(Message):
    broker_id: int = int32()


@message(api_key=64, kind="response", versions=(0, 0), flexible=0)
class UnregisterBrokerResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
