"""The common part of every measurement of a cluster: topics in sync, clients, and the usage of its processes.

The cluster may be ours or another system: anything with addresses to connect to and processes to inspect. One run warms
up, the others count; this module sets no bars.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from squall.benchmarks.parts.measurement import Measurement

RECORD_BYTES = 1000
TIMEOUT_S = 120.0
CRITICAL = 2
"""librdkafka's log level: lost connections at the end of the brokers are expected."""
LEADER_CHANGES = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
"""A client that meets one of these asks again for the leader."""
MEGA, GIGA = 1_000_000, 1_000_000_000
Setting = str | int | float | bool


class MeasuredCluster(Protocol):
    """Brokers that run as processes on this machine."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def broker_pids(self) -> Sequence[int]: ...

    def wait_for(self, what: str, find: Callable[[], object]) -> object: ...

    def logs(self) -> str: ...


@dataclass(frozen=True)
class Layout:
    """The layout of a topic: `partitions` topic-partitions of `replicas` replicas, `needed` of them in sync."""

    partitions: int = 1
    replicas: int = 3
    needed: int = 2

    def __str__(self) -> str:
        return f"{self.partitions}x{self.replicas}"


ALONE = Layout(replicas=1, needed=1)


class Bench:
    """A cluster to measure, and the tools that every measurement of it needs."""

    def __init__(self, cluster: MeasuredCluster) -> None:
        self.cluster = cluster
        self.client: dict[str, Setting] = {"bootstrap.servers": cluster.bootstrap, "log_level": CRITICAL}
        self.admin = AdminClient(self.client)
        self.value = os.urandom(RECORD_BYTES)
        self.brokers = [psutil.Process(pid) for pid in cluster.broker_pids]

    def create_topic(self, name: str, layout: Layout, config: Mapping[str, str] = MappingProxyType({})) -> None:
        """Create a topic and wait until every topic-partition has all its replicas in sync."""
        settings = {"min.insync.replicas": str(layout.needed), **config}
        new = NewTopic(name, layout.partitions, layout.replicas, config=settings)
        self.admin.create_topics([new])[name].result(TIMEOUT_S)

        def in_sync() -> bool:
            found = self.admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions
            in_sync = [one for one in found.values() if len(one.isrs) == layout.replicas and one.leader >= 0]
            return len(in_sync) == layout.partitions

        self.cluster.wait_for(f"{name} in sync", in_sync)

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(TIMEOUT_S)

    def producer(self, settings: Mapping[str, Setting] = MappingProxyType({})) -> Producer:
        return Producer({**self.client, "acks": "all", "enable.idempotence": True, **settings})

    def consumer(self, settings: Mapping[str, Setting] = MappingProxyType({})) -> Consumer:
        """A consumer with manual assignment that commits no offsets."""
        return Consumer({**self.client, "group.id": "benchmark", "enable.auto.commit": False, **settings})

    def end_offsets(self, topic: str, partitions: int) -> int:
        """The sum of the high watermarks."""
        consumer = self.consumer()
        try:
            return sum(self._end_offset(consumer, TopicPartition(topic, number)) for number in range(partitions))
        finally:
            consumer.close()

    def _end_offset(self, consumer: Consumer, place: TopicPartition) -> int:
        """A topic-partition's high watermark, once the client has found a leader that may just have changed."""
        found: list[int] = []

        def look() -> bool:
            try:
                found.append(consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)[1])
            except KafkaException as refused:
                if refused.args[0].code() not in LEADER_CHANGES:
                    raise
            return bool(found)

        self.cluster.wait_for(f"{place.topic}-{place.partition} has a leader", look)
        return found[0]

    def processor_seconds(self) -> float:
        """Processor seconds that all brokers together have used so far."""
        times = [process.cpu_times() for process in self.brokers]
        return sum(one.user + one.system for one in times)

    def largest_resident_bytes(self) -> int:
        return max(process.memory_info().rss for process in self.brokers)

    def flush(self, producer: Producer) -> None:
        left = producer.flush(TIMEOUT_S)
        assert left == 0, f"{left} records were not acknowledged within {TIMEOUT_S:.0f} s\n{self.cluster.logs()}"


def hand_over(producer: Producer, topic: str, partition: int, value: bytes) -> None:
    """Hand one record to the client, waiting while its queue is full."""
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            return
        except BufferError:
            producer.poll(0.01)


class Deliveries:
    """Collects the client's reports of refused records."""

    def __init__(self) -> None:
        self.errors: list[KafkaError] = []

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)

    def check(self) -> None:
        assert not self.errors, f"records were refused: {self.errors[0]}"


def quantile(values: Sequence[float], of: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    return sorted(values)[max(0, -int(-of * len(values) // 1) - 1)]


def median_of(name: str, unit: str, values: Sequence[float], **bars: object) -> Measurement:
    return Measurement(name, statistics.median(values), unit, samples=tuple(values), **bars)  # type: ignore[arg-type]
