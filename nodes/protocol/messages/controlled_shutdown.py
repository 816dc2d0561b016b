"""ControlledShutdown (API key 7), version 3: a broker asks a ZooKeeper-era controller to take its leaderships away.

The schema is that of Kafka 3.9, the last release that has it.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, int64, message, string


@message(api_key=7, kind="request", versions=(3, 3), flexible=3)
class ControlledShutdownRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message()
class RemainingPartition(Message):
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=7, kind="response", versions=(3, 3), flexible=3)
class ControlledShutdownResponse(Message):
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
