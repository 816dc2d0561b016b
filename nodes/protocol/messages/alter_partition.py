"""AlterPartition (API key 56), versions 2 to 3.

A leader asks the controller to commit an ISR (KIP-497). Version 3 names each member with its broker epoch (KIP-903).
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int8, int16, int32, int64, message, uuid


@message()
class BrokerState(Message):
    broker_id: int = int32(versions="3+")
    broker_epoch: int = int64(default=-1, versions="3+")


@message()
class PartitionDataRequest(Message):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, versions="3+")
    new_isr: list[int] = array("int32", versions="2")
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


@message()
class TopicDataRequest(Message):
    topic_id: bytes = uuid()
    partitions: list[PartitionDataRequest] = array(PartitionDataRequest)


@message(api_key=56, kind="request", versions=(2, 3), flexible=2)
class AlterPartitionRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicDataRequest] = array(TopicDataRequest)


@message()
class PartitionDataResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


@message()
class TopicDataResponse(Message):
    topic_id: bytes = uuid()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


@message(api_key=56, kind="response", versions=(2, 3), flexible=2)
class AlterPartitionResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicDataResponse] = array(TopicDataResponse)
