"""What stands beside the client under test: topics, leaders and ISR, markers, and the final read of every record.

It is librdkafka without idempotence, one record at a time, so that it shares no defect with an entry's schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from squall.harness.gallery.trouble import NotReproduced

REQUEST_SECONDS: Final = 20.0
READ_SECONDS: Final = 60.0
LOOK_EVERY_S: Final = 0.1
MARKER: Final = 1 << 62
"""The values of markers begin here."""


@dataclass(frozen=True)
class Read:
    """Records of one poll: offset and value of each, and when it was."""

    topic: str
    partition: int
    invoked: int
    completed: int
    records: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Marked:
    """An acknowledged marker."""

    topic: str
    partition: int
    invoked: int
    completed: int
    value: int
    offset: int


class Observer:
    """Observes a cluster by its bootstrap addresses."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "log_level": 0, "allow.auto.create.topics": "false"}
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create_topic(self, name: str, assignment: list[list[int]], config: Mapping[str, str]) -> None:
        """Create a topic whose topic-partitions have these replicas, the first of each its leader."""
        topic = NewTopic(name, len(assignment), replica_assignment=assignment, config=dict(config))
        try:
            self._admin.create_topics([topic], operation_timeout=REQUEST_SECONDS)[name].result(REQUEST_SECONDS)
        except KafkaException as trouble:
            raise NotReproduced(f"topic {name} cannot be created: {trouble}") from None

    def in_sync(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        """The leader of a topic-partition (-1: none) and its ISR, as the cluster tells it now."""
        found = self._admin.list_topics(topic, timeout=REQUEST_SECONDS).topics[topic].partitions.get(partition)
        return (-1, ()) if found is None else (found.leader, tuple(sorted(found.isrs)))

    def brokers(self) -> tuple[int, ...]:
        return tuple(sorted(self._admin.list_topics(timeout=REQUEST_SECONDS).brokers))

    def wait_until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until something holds. Raises NotReproduced."""
        end = time.monotonic() + seconds
        while True:
            trouble = ""
            try:
                if holds():
                    return
            except KafkaException as failed:
                trouble = f": {failed}"
            if time.monotonic() > end:
                raise NotReproduced(f"{what}: not so after {seconds:g} s{trouble}")
            time.sleep(LOOK_EVERY_S)

    def mark(self, topic: str, partition: int, number: int) -> Marked:
        """Append a marker: what a final read must reach. Raises NotReproduced."""
        ended: list[tuple[object, int | None]] = []
        producer = Producer({**self._settings, "acks": "all", "message.timeout.ms": str(int(REQUEST_SECONDS * 1000))})
        begun = time.monotonic_ns()
        producer.produce(
            topic,
            str(MARKER + number).encode(),
            partition=partition,
            on_delivery=lambda e, m: ended.append((e, m.offset())),
        )
        producer.flush(REQUEST_SECONDS + 1)
        if not ended or ended[0][0] is not None:
            raise NotReproduced(
                f"the marker of {topic}-{partition} was not acknowledged: {ended[0][0] if ended else ''}"
            )
        offset = ended[0][1]
        assert offset is not None, "an acknowledgement names the offset"
        return Marked(topic, partition, begun, time.monotonic_ns(), MARKER + number, offset)

    def read_all(self, topic: str, partition: int, marker: int) -> list[Read]:
        """Read every record, up to the marker with this value. Raises NotReproduced."""
        consumer = Consumer(
            {
                **self._settings,
                "group.id": "squall-gallery",
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
            return list(self._polls(consumer, topic, partition, marker))
        finally:
            consumer.close()

    def _polls(self, consumer: Consumer, topic: str, partition: int, marker: int) -> list[Read]:
        reads: list[Read] = []
        end = time.monotonic() + READ_SECONDS
        while time.monotonic() < end:
            begun = time.monotonic_ns()
            messages = consumer.consume(1000, timeout=1.0)
            records = tuple((one.offset() or 0, _value(one)) for one in messages if one.error() is None)
            if records:
                reads.append(Read(topic, partition, begun, time.monotonic_ns(), records))
            if any(value == marker for _, value in records):
                return reads
        raise NotReproduced(f"the final read of {topic}-{partition} did not reach its marker in {READ_SECONDS:g} s")


def _value(message: confluent_kafka.Message) -> int:
    content = message.value()
    return int((content or b"-1").split()[0])
