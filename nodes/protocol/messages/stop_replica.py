"""StopReplica (API key 5), versions 3 to 4: a ZooKeeper-era controller takes replicas out of service, or deletes them.

The schema is that of Kafka 3.9, the last release that has it.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, int64, message, string

EPOCH_DURING_DELETE = -2
"""The leader epoch of a topic-partition that is being deleted: greater than any other."""


@message()
class StopReplicaPartitionState(Message):
    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


@message()
class StopReplicaTopicState(Message):
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


@message(api_key=5, kind="request", versions=(3, 4), flexible=2)
class StopReplicaRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean(versions="4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState)


@message()
class StopReplicaPartitionError(Message):
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@message(api_key=5, kind="response", versions=(3, 4), flexible=2)
class StopReplicaResponse(Message):
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
