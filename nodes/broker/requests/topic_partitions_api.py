"""DescribeTopicPartitions (KIP-966): report the image's topic-partitions, with their ELR, in pages.

Unlike Metadata it names the eligible leader replicas and never returns more than a page: a client with a million
topic-partitions requests the next page from `next_cursor`. Topics are ordered by name, so that a cursor means the same
to every broker; topics before the cursor are left out. No requested topics means all topics.
"""

from __future__ import annotations

from squall.nodes.metadata.image import MetadataImage, PartitionRegistration, Topic
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from squall.nodes.protocol.requests.session import ServerRequest

MAX_PARTITIONS = 2000
"""Kafka's `max.request.partition.size.limit`: the largest page, even if a request allows more."""
NO_LEADER = -1


class TopicPartitionsApi:
    """Responds to DescribeTopicPartitions."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def describe(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, DescribeTopicPartitionsRequest)
        request.respond(self.page(body))

    def page(self, body: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        """The topic-partitions from the cursor on, as many as fit into a page."""
        start = body.cursor or Cursor()
        room = min(max(1, body.response_partition_limit), MAX_PARTITIONS)
        response = DescribeTopicPartitionsResponse()
        for name in self._names(body):
            if name < start.topic_name:
                continue
            first = start.partition_index if name == start.topic_name else 0
            if not room:
                response.next_cursor = Cursor(topic_name=name, partition_index=first)
                break
            topic = self._image.topic(name)
            if topic is None:
                response.topics.append(
                    DescribeTopicPartitionsResponseTopic(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), name)
                )
                continue
            numbers = [number for number in sorted(topic.partitions) if number >= first]
            response.topics.append(self._topic(topic, numbers[:room]))
            if len(numbers) > room:
                response.next_cursor = Cursor(topic_name=name, partition_index=numbers[room])
                break
            room -= len(numbers)
        return response

    def _names(self, body: DescribeTopicPartitionsRequest) -> list[str]:
        if not body.topics:
            return sorted(topic.name for topic in self._image.topics.values())
        return sorted(dict.fromkeys(asked.name for asked in body.topics))

    def _topic(self, topic: Topic, numbers: list[int]) -> DescribeTopicPartitionsResponseTopic:
        partitions = [self._partition(number, topic.partitions[number]) for number in numbers]
        return DescribeTopicPartitionsResponseTopic(0, topic.name, topic.id, False, partitions)

    def _partition(self, number: int, registration: PartitionRegistration) -> DescribeTopicPartitionsResponsePartition:
        led = self._is_alive(registration.leader)
        return DescribeTopicPartitionsResponsePartition(
            error_code=0 if led else int(ErrorCode.LEADER_NOT_AVAILABLE),
            partition_index=number,
            leader_id=registration.leader if led else NO_LEADER,
            leader_epoch=registration.leader_epoch,
            replica_nodes=list(registration.replicas),
            isr_nodes=list(registration.isr),
            eligible_leader_replicas=list(registration.elr),
            last_known_elr=list(registration.last_known_elr),
            offline_replicas=[replica for replica in registration.replicas if not self._is_alive(replica)],
        )

    def _is_alive(self, broker_id: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is not None and not broker.fenced
