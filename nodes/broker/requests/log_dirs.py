"""DescribeLogDirs and AlterReplicaLogDirs: where this broker keeps its replicas (KIP-113, KIP-827).

A node has one log directory. Kafka's reassignment tool requests it before each plan; with a plan that names
directories, the tool requests that replicas move there. A move into this directory changes nothing, and another
directory does not exist.

The node's core does not know the size of the volume; the response says so (-1).
"""

from __future__ import annotations

from squall.nodes.broker.hosting.config import BrokerConfig
from squall.nodes.broker.hosting.hosted_partition import HostedPartition
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from squall.nodes.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from squall.nodes.protocol.requests.session import ServerRequest


class LogDirsApi:
    """Responds to DescribeLogDirs and AlterReplicaLogDirs."""

    def __init__(self, config: BrokerConfig, replicas: Replicas) -> None:
        self._directory = config.log_dir
        self._replicas = replicas

    def describe(self, now: int, request: ServerRequest) -> None:
        """Report size in bytes and lag in records of each requested replica; of all replicas if none is named."""
        body = request.body
        assert isinstance(body, DescribeLogDirsRequest)
        topics: dict[str, DescribeLogDirsTopic] = {}
        for hosted in self._asked(body):
            topic = topics.setdefault(hosted.topic, DescribeLogDirsTopic(hosted.topic))
            replica = hosted.replica
            lag = max(replica.high_watermark - replica.end_offset, 0)
            topic.partitions.append(DescribeLogDirsPartition(hosted.partition, replica.log.size, lag))
        result = DescribeLogDirsResult(0, self._directory, list(topics.values()))
        request.respond(DescribeLogDirsResponse(results=[result]))

    def _asked(self, body: DescribeLogDirsRequest) -> list[HostedPartition]:
        if body.topics is None:
            return self._replicas.all()
        wanted = [(one.topic, number) for one in body.topics for number in one.partitions]
        found = [self._replicas.by_name(*name) for name in dict.fromkeys(wanted)]
        return [hosted for hosted in found if hosted is not None]

    def alter(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, AlterReplicaLogDirsRequest)
        results = [
            AlterReplicaLogDirTopicResult(
                topic.name,
                [
                    AlterReplicaLogDirPartitionResult(number, int(self._moved(one.path, topic.name, number)))
                    for number in topic.partitions
                ],
            )
            for one in body.dirs
            for topic in one.topics
        ]
        request.respond(AlterReplicaLogDirsResponse(results=results))

    def _moved(self, path: str, topic: str, number: int) -> ErrorCode:
        if path != self._directory:
            return ErrorCode.LOG_DIR_NOT_FOUND
        here = self._replicas.by_name(topic, number) is not None
        return ErrorCode.NONE if here else ErrorCode.REPLICA_NOT_AVAILABLE
