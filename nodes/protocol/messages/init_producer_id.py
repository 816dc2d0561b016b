"""InitProducerId (API key 22), versions 0 to 4.

A producer id and epoch for an idempotent producer.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, int16, int32, int64, message, string


@message(api_key=22, kind="request", versions=(0, 4), flexible=2)
class InitProducerIdRequest(Message):
    transactional_id: str | None = string(default=None, nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(default=-1, versions="3+")
    producer_epoch: int = int16(default=-1, versions="3+")


@message(api_key=22, kind="response", versions=(0, 4), flexible=2)
class InitProducerIdResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
