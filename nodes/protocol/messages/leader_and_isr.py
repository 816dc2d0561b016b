"""LeaderAndIsr (API key 4), versions 5 to 7: a ZooKeeper-era controller gives a broker its topic-partitions.

The schema is that of Kafka 3.9, the last release that has it. Older versions name no topic ids.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int8, int16, int32, int64, message, string, uuid

UNKNOWN, INCREMENTAL, FULL = 0, 1, 2
"""Types of a request: neither is said, some topic-partitions of the broker, all of them."""


@message()
class LeaderAndIsrPartitionState(Message):
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    partition_epoch: int = int32()
    replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32")
    removing_replicas: list[int] = array("int32")
    is_new: bool = boolean()
    leader_recovery_state: int = int8(versions="6+")


@message()
class LeaderAndIsrTopicState(Message):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


@message()
class LeaderAndIsrLiveLeader(Message):
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@message(api_key=4, kind="request", versions=(5, 7), flexible=4)
class LeaderAndIsrRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(versions="7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    type: int = int8()
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState)
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


@message()
class LeaderAndIsrPartitionError(Message):
    partition_index: int = int32()
    error_code: int = int16()


@message()
class LeaderAndIsrTopicError(Message):
    topic_id: bytes = uuid()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


@message(api_key=4, kind="response", versions=(5, 7), flexible=4)
class LeaderAndIsrResponse(Message):
    error_code: int = int16()
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError)
