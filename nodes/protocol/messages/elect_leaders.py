"""ElectLeaders (API key 43), versions 0 to 2.

Elects leaders for topic-partitions, all of them if `topic_partitions` is None: the preferred replica (type 0), or any
live replica where no replica is known to have all committed records (type 1, unclean). Version 0 has only type 0.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int8, int16, int32, message, string


@message()
class TopicPartitions(Message):
    topic: str = string()
    partitions: list[int] = array("int32")


@message(api_key=43, kind="request", versions=(0, 2), flexible=2)
class ElectLeadersRequest(Message):
    election_type: int = int8(versions="1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


@message()
class PartitionResult(Message):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


@message()
class ReplicaElectionResult(Message):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@message(api_key=43, kind="response", versions=(0, 2), flexible=2)
class ElectLeadersResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16(versions="1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
