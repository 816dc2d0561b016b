"""AllocateProducerIds (API key 67), version 0.

A broker asks the controller for a block of producer ids.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, int16, int32, int64, message


@message(api_key=67, kind="request", versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(api_key=67, kind="response", versions=(0, 0), flexible=0)
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
