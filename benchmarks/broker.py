"""Megabytes per second through three brokers and librdkafka, acks=all; latency of single records at 100/s.

Three controllers and three brokers run as processes on loopback with Kafka's default timings; the load comes from this
process through confluent-kafka (librdkafka), idempotent, acks=all, default batching: 1 KB records of random bytes
on topic-partitions with three replicas, two of them needed. So client, leader and both followers share the machine;
the bars were set for two cores.

Counted is the payload alone, from the first record handed to the client to the last acknowledgement. That nothing was
lost on the way is checked against the high watermarks, so that no callback per record slows the client down. One run
warms up; the median of the others counts. Processor time per gigabyte depends less on what else the machine does, and
is reported beside.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import psutil
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from squall.benchmarks.measurement import Measurement
from squall.harness.loopback import Cluster

RECORD_BYTES = 1000
RECORDS = 40_000
RUNS = 7
PRODUCES_PER_SECOND = 100
LATENCY_RUNS = 3
LATENCY_RECORDS = 300
TIMEOUT_S = 120.0
REPLICAS = 3
CRITICAL = 2
"""librdkafka's log level: that the brokers are gone at the end is no news."""
MEGA, GIGA = 1_000_000, 1_000_000_000
AS_SHIPPED = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "replica.fetch.backoff.ms": "1000",
    "replica.lag.time.max.ms": "30000",
}
"""Kafka's defaults, where the loopback cluster has others."""


@dataclass(frozen=True)
class Sample:
    """One run: megabytes per second, and processor seconds of all brokers per gigabyte of payload."""

    megabytes_per_second: float
    processor_seconds_per_gigabyte: float


class Bench:
    """A cluster to measure, and what every measurement of it needs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": cluster.bootstrap,
            "log_level": CRITICAL,
        }
        self.admin = AdminClient(self.client)
        self.value = os.urandom(RECORD_BYTES)
        self.brokers = [psutil.Process(node.pid) for node in cluster.brokers if node.pid is not None]

    def create_topic(self, name: str, partitions: int) -> None:
        """Create it and wait until every topic-partition has all its replicas in sync."""
        new = NewTopic(name, partitions, REPLICAS, config={"min.insync.replicas": "2"})
        self.admin.create_topics([new])[name].result(TIMEOUT_S)

        def in_sync() -> bool:
            found = self.admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions
            return len(found) == partitions and all(len(one.isrs) == REPLICAS for one in found.values())

        self.cluster.wait_for(f"{name} in sync", in_sync)

    def producer(self, settings: Mapping[str, str | int | float | bool] = MappingProxyType({})) -> Producer:
        return Producer({**self.client, "acks": "all", "enable.idempotence": True, **settings})

    def end_offsets(self, topic: str, partitions: int) -> int:
        """The sum of the high watermarks."""
        consumer = Consumer({**self.client, "group.id": "benchmark"})
        try:
            places = [TopicPartition(topic, number) for number in range(partitions)]
            return sum(consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)[1] for place in places)
        finally:
            consumer.close()

    def processor_seconds(self) -> float:
        times = [process.cpu_times() for process in self.brokers]
        return sum(one.user + one.system for one in times)


def throughput(bench: Bench, partitions: int, records: int = RECORDS, runs: int = RUNS) -> list[Sample]:
    """Fill the topic-partitions evenly; one sample per run, without the first."""
    topic = f"throughput-{partitions}"
    bench.create_topic(topic, partitions)
    producer = bench.producer()
    samples = [one_run(bench, producer, topic, partitions, records) for _ in range(runs + 1)]
    written, expected = bench.end_offsets(topic, partitions), records * (runs + 1)
    assert written == expected, f"{expected} records were acknowledged, the high watermarks say {written}"
    bench.admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    return samples[1:]


def one_run(bench: Bench, producer: Producer, topic: str, partitions: int, records: int) -> Sample:
    processor = bench.processor_seconds()
    began = time.perf_counter()
    for number in range(records):
        hand_over(producer, topic, number % partitions, bench.value)
    left = producer.flush(TIMEOUT_S)
    seconds = time.perf_counter() - began
    assert left == 0, f"{left} records were not acknowledged within {TIMEOUT_S:.0f} s\n{bench.cluster.logs()}"
    payload = records * RECORD_BYTES
    return Sample(payload / MEGA / seconds, (bench.processor_seconds() - processor) / (payload / GIGA))


def hand_over(producer: Producer, topic: str, partition: int, value: bytes) -> None:
    """Give one record to the client, waiting while its queue is full."""
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            return
        except BufferError:
            producer.poll(0.01)


def latencies(bench: Bench, records: int = LATENCY_RECORDS, runs: int = LATENCY_RUNS) -> list[list[float]]:
    """Milliseconds from handing a record over to its acknowledgement, one at a time; a list per run."""
    topic = "latency"
    bench.create_topic(topic, 1)
    producer = bench.producer({"linger.ms": 0})
    measured = [latency_run(producer, topic, bench.value, records) for _ in range(runs + 1)]
    return measured[1:]


def latency_run(producer: Producer, topic: str, value: bytes, records: int) -> list[float]:
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)

    measured = []
    due = time.perf_counter()
    for _ in range(records):
        due += 1 / PRODUCES_PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        producer.produce(topic, value, partition=0, on_delivery=delivered)
        producer.flush(TIMEOUT_S)
        measured.append((time.perf_counter() - began) * 1000)
    assert not errors, f"records were refused: {errors[0]}"
    return measured


def quantile(values: Sequence[float], of: float) -> float:
    """The smallest value that at least this share of all reaches."""
    return sorted(values)[max(0, -int(-of * len(values) // 1) - 1)]


def median_of(name: str, unit: str, values: Sequence[float], **bars: object) -> Measurement:
    return Measurement(name, statistics.median(values), unit, samples=tuple(values), **bars)  # type: ignore[arg-type]


def throughput_figures(bench: Bench, partitions: int, label: str, must: float, stretch: float) -> list[Measurement]:
    samples = throughput(bench, partitions)
    speed = [sample.megabytes_per_second for sample in samples]
    cost = [sample.processor_seconds_per_gigabyte for sample in samples]
    return [
        median_of(f"produce to {label}", "MB/s", speed, must=must, stretch=stretch),
        median_of("    processor time of the three brokers", "s/GB", cost, higher_is_better=False),
    ]


def latency_figures(bench: Bench) -> list[Measurement]:
    runs = latencies(bench)
    bars: tuple[tuple[str, float, float, float], ...] = (("p50", 0.5, 3, 1.5), ("p99", 0.99, 20, 6))
    return [
        median_of(
            f"single records at {PRODUCES_PER_SECOND}/s, {name}",
            "ms",
            [quantile(run, of) for run in runs],
            must=must,
            stretch=stretch,
            higher_is_better=False,
        )
        for name, of, must, stretch in bars
    ]


def run() -> list[Measurement]:
    """Measure everything on one cluster."""
    parts: tuple[Callable[[Bench], list[Measurement]], ...] = (
        lambda bench: throughput_figures(bench, 1, "one topic-partition", must=25, stretch=50),
        lambda bench: throughput_figures(bench, 6, "six topic-partitions", must=40, stretch=80),
        latency_figures,
    )
    with Cluster(brokers=3, controllers=3, properties=AS_SHIPPED) as cluster:
        cluster.wait_until_ready()
        bench = Bench(cluster)
        return [figure for part in parts for figure in part(bench)]
