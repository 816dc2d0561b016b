"""What stands beside the client under test: topics, leaders and ISR, markers, and the final read of every record.

It is librdkafka without idempotence, one record at a time, so that it shares no defect with an entry's schedule. Only
moves are begun by Squall's own administrator: librdkafka cannot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from squall.harness.errors import UsageError
from squall.harness.gallery.core.observations import MARKER, Marked, Place, Position, Read, position_of
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.core.waiting import wait_until
from squall.harness.load.tcp import SocketsHere, TcpConnector
from squall.harness.operator import reassigning
from squall.harness.operator.admin_connection import AdminConnection, parse_bootstrap

REQUEST_SECONDS: Final = 20.0
READ_SECONDS: Final = 60.0
RECORDS_A_POLL: Final = 10_000
SOCKET_MS: Final = "3000"
"""A broker may be paused: it does not answer, and another one is to be asked."""
LOOK_SECONDS: Final = 5.0
LOOK_EVERY_S: Final = 0.1


class KafkaObserver:
    """Observes a cluster by its bootstrap addresses."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        common: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._settings = {**common, "allow.auto.create.topics": "false"}
        self._admin = AdminClient({**common, "socket.timeout.ms": SOCKET_MS})

    @property
    def findings(self) -> tuple[str, ...]:
        return ()

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], config: Mapping[str, str]) -> None:
        """Create a topic whose topic-partitions have these replicas, the first of each its leader."""
        assignment = [list(one) for one in replicas]
        topic = NewTopic(name, len(assignment), replica_assignment=assignment, config=dict(config))
        times = {"operation_timeout": REQUEST_SECONDS, "request_timeout": REQUEST_SECONDS}
        try:
            self._admin.create_topics([topic], **times)[name].result(2 * REQUEST_SECONDS)
        except KafkaException as trouble:
            raise NotReproduced(f"topic {name} cannot be created: {trouble}") from None

    def in_sync(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        """The leader of a topic-partition (-1: none) and its ISR, as the brokers' metadata says now."""
        found = self._admin.list_topics(topic, timeout=LOOK_SECONDS).topics[topic].partitions.get(partition)
        return (-1, ()) if found is None else (found.leader, tuple(sorted(found.isrs)))

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Begin to move a topic-partition to these brokers. Raises NotReproduced."""
        try:
            asyncio.run(self._begin_to_move({(topic, partition): replicas}))
        except (UsageError, OSError) as trouble:
            raise NotReproduced(f"{topic}-{partition} cannot be moved to {list(replicas)}: {trouble}") from None

    async def _begin_to_move(self, targets: Mapping[Place, Sequence[int]]) -> None:
        connection = AdminConnection(TcpConnector(SocketsHere()), parse_bootstrap(self._bootstrap))
        try:
            await reassigning.begin(connection, targets)
        finally:
            connection.close()

    def brokers(self) -> tuple[int, ...]:
        return tuple(sorted(self._admin.list_topics(timeout=LOOK_SECONDS).brokers))

    def wait_until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until something holds. Raises NotReproduced."""
        wait_until(holds, what, seconds, (KafkaException,))

    def position(self, group: str, topic: str, partition: int) -> Position:
        """Read a group's committed position. Raises NotReproduced."""
        consumer = Consumer({**self._settings, "group.id": group})
        begun = time.monotonic_ns()
        try:
            (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=REQUEST_SECONDS)
        except KafkaException as trouble:
            raise NotReproduced(f"the position of {group} on {topic}-{partition} cannot be read: {trouble}") from None
        finally:
            consumer.close()
        if found.error is not None:
            raise NotReproduced(f"the position of {group} on {topic}-{partition} cannot be read: {found.error}")
        return Position(position_of(group, topic, partition), "read", begun, time.monotonic_ns(), max(found.offset, -1))

    def read_register(self, name: str) -> Position:
        raise NotReproduced("Kafka has no registers of its own")

    def mark(self, places: Sequence[Place]) -> list[Marked]:
        """Append a marker to each topic-partition: what a final read must reach. Raises NotReproduced."""
        ended: dict[int, tuple[object, int | None, int]] = {}
        settings = {"acks": "all", "linger.ms": "0", "message.timeout.ms": str(int(REQUEST_SECONDS * 1000))}
        producer = Producer({**self._settings, **settings})
        begun = time.monotonic_ns()

        def report(number: int, error: object, message: confluent_kafka.Message) -> None:
            ended[number] = error, message.offset(), time.monotonic_ns()

        for number, (topic, partition) in enumerate(places):
            content = str(MARKER + number).encode()
            producer.produce(topic, content, partition=partition, on_delivery=partial(report, number))
        producer.flush(REQUEST_SECONDS + 1)
        return [
            self._marked(place, number, begun, ended.get(number, ("no report of it", None, 0)))
            for number, place in enumerate(places)
        ]

    @staticmethod
    def _marked(place: Place, number: int, begun: int, fate: tuple[object, int | None, int]) -> Marked:
        error, offset, at = fate
        if error is not None or offset is None:
            raise NotReproduced(f"the marker of {place[0]}-{place[1]} was not acknowledged: {error}")
        return Marked(*place, begun, at, MARKER + number, offset)

    def read_all(self, markers: Sequence[Marked]) -> list[Read]:
        """Read every record of these topic-partitions, up to their markers. Raises NotReproduced."""
        own = {"group.id": "squall-gallery", "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
        consumer = Consumer({**self._settings, **own})
        try:
            beginning = confluent_kafka.OFFSET_BEGINNING
            consumer.assign([TopicPartition(one.topic, one.partition, beginning) for one in markers])
            return list(self._polls(consumer, {(one.topic, one.partition): one.value for one in markers}))
        finally:
            consumer.close()

    @staticmethod
    def _polls(consumer: Consumer, unread: dict[Place, int]) -> Iterator[Read]:
        end = time.monotonic() + READ_SECONDS
        while unread:
            if time.monotonic() > end:
                topic, partition = min(unread)
                raise NotReproduced(
                    f"the final read of {topic}-{partition} did not reach its marker in {READ_SECONDS:g} s"
                )
            begun = time.monotonic_ns()
            messages = [one for one in consumer.consume(RECORDS_A_POLL, timeout=1.0) if one.error() is None]
            at = time.monotonic_ns()
            found: dict[Place, list[tuple[int, int]]] = {}
            for one in messages:
                found.setdefault((one.topic() or "", one.partition() or 0), []).append((one.offset() or 0, _value(one)))
            for place, records in found.items():
                yield Read(*place, begun, at, tuple(records))
                if any(value == unread.get(place) for _, value in records):
                    del unread[place]


def _value(message: confluent_kafka.Message) -> int:
    content = message.value()
    return int((content or b"-1").split()[0])
