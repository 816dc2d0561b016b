"""AlterReplicaLogDirs (API key 34), versions 1 to 2. Moves replicas of one broker between its log directories."""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, message, string


@message()
class AlterReplicaLogDirTopic(Message):
    name: str = string()
    partitions: list[int] = array("int32")


@message()
class AlterReplicaLogDir(Message):
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@message(api_key=34, kind="request", versions=(1, 2), flexible=2)
class AlterReplicaLogDirsRequest(Message):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@message()
class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()


@message()
class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@message(api_key=34, kind="response", versions=(1, 2), flexible=2)
class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
