"""Measure how fast records are written: megabytes and requests per second, and the latency of single records.

The client is librdkafka, idempotent, acks=all. Only the payload counts, from the first record handed to the client to
the last acknowledgement. The high watermarks are compared with the number of records, to detect losses without a
callback per record, which would slow the client down.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import Producer

from squall.benchmarks.parts.load import GIGA, MEGA, RECORD_BYTES, Bench, Deliveries, Layout, Setting, hand_over

RECORDS = 40_000
RUNS = 7
REQUESTS = 15_000
REQUEST_RUNS = 5
PRODUCES_PER_SECOND = 100
LATENCY_RUNS = 5
LATENCY_RECORDS = 300
SMALL_REQUESTS: Mapping[str, Setting] = MappingProxyType(
    {"linger.ms": 0, "batch.num.messages": 1, "max.in.flight.requests.per.connection": 5}
)
"""Every record is a separate request."""
DELETED_SOON: Mapping[str, str] = MappingProxyType({"file.delete.delay.ms": "1000"})
"""Apache Kafka keeps the files of a deleted topic for a minute otherwise."""


@dataclass(frozen=True)
class Sample:
    """One run: megabytes and records per second, and processor seconds of all brokers per gigabyte of payload."""

    megabytes_per_second: float
    records_per_second: float
    processor_seconds_per_gigabyte: float

    @property
    def processor_microseconds_per_record(self) -> float:
        return self.processor_seconds_per_gigabyte * RECORD_BYTES * 1e6 / GIGA


def throughput(bench: Bench, layout: Layout, records: int = RECORDS, runs: int = RUNS) -> list[Sample]:
    """Fill the topic-partitions evenly with the client's own batching; one sample per run, without the first."""
    return _filled(bench, f"throughput-{layout}", layout, bench.producer(), records, runs)


def small_requests(bench: Bench, layout: Layout, requests: int = REQUESTS, runs: int = REQUEST_RUNS) -> list[Sample]:
    """Send every record as a separate request, at most five in flight; one sample per run, without the first."""
    return _filled(bench, f"requests-{layout}", layout, bench.producer(SMALL_REQUESTS), requests, runs)


class Filling:
    """Samples on topics of their own: each is created, known to the client, filled, checked, and deleted.

    So no sample writes behind the ones before it, and what it wrote is gone before the disk must take it. The topics'
    names begin with `name`.
    """

    def __init__(self, bench: Bench, name: str, layout: Layout, records: int, settings: Mapping[str, Setting]) -> None:
        self._bench = bench
        self._name = name
        self._layout = layout
        self._records = records
        self._producer = bench.producer(settings)
        self._taken = 0

    def take(self) -> Sample:
        self._taken += 1
        topic, partitions = f"{self._name}-{self._taken}", self._layout.partitions
        self._bench.create_topic(topic, self._layout, DELETED_SOON)
        for partition in range(partitions):
            hand_over(self._producer, topic, partition, self._bench.value)
        self._bench.flush(self._producer)
        sample = _one_run(self._bench, self._producer, topic, partitions, self._records)
        written, expected = self._bench.end_offsets(topic, partitions), self._records + partitions
        assert written == expected, f"{expected} records were acknowledged, the high watermarks say {written}"
        self._bench.delete_topic(topic)
        return sample


@dataclass(frozen=True)
class LatencySample:
    """Milliseconds of single records, and the processor seconds of all brokers meanwhile."""

    milliseconds: tuple[float, ...]
    processor_seconds: float


class SingleRecords:
    """Samples of single records, a hundred a second, on one topic."""

    def __init__(self, bench: Bench, layout: Layout, records: int) -> None:
        self._bench = bench
        self._topic = f"single-{layout}"
        self._records = records
        self._producer = bench.producer({"linger.ms": 0})
        bench.create_topic(self._topic, layout, DELETED_SOON)

    def take(self) -> LatencySample:
        processor = self._bench.processor_seconds()
        measured = _latency_run(self._bench, self._producer, self._topic, self._records)
        return LatencySample(tuple(measured), self._bench.processor_seconds() - processor)


def _filled(bench: Bench, topic: str, layout: Layout, producer: Producer, records: int, runs: int) -> list[Sample]:
    bench.create_topic(topic, layout)
    samples = [_one_run(bench, producer, topic, layout.partitions, records) for _ in range(runs + 1)]
    written, expected = bench.end_offsets(topic, layout.partitions), records * (runs + 1)
    assert written == expected, f"{expected} records were acknowledged, the high watermarks say {written}"
    bench.delete_topic(topic)
    return samples[1:]


def _one_run(bench: Bench, producer: Producer, topic: str, partitions: int, records: int) -> Sample:
    processor = bench.processor_seconds()
    began = time.perf_counter()
    for number in range(records):
        hand_over(producer, topic, number % partitions, bench.value)
    bench.flush(producer)
    seconds = time.perf_counter() - began
    payload = records * RECORD_BYTES
    used = bench.processor_seconds() - processor
    return Sample(payload / MEGA / seconds, records / seconds, used / (payload / GIGA))


def latencies(
    bench: Bench, layout: Layout, records: int = LATENCY_RECORDS, runs: int = LATENCY_RUNS
) -> list[list[float]]:
    """Milliseconds from handing over a record to its acknowledgement, one record at a time; a list per run."""
    topic = f"latency-{layout}"
    bench.create_topic(topic, layout)
    producer = bench.producer({"linger.ms": 0})
    measured = [_latency_run(bench, producer, topic, records) for _ in range(runs + 1)]
    bench.delete_topic(topic)
    return measured[1:]


def _latency_run(bench: Bench, producer: Producer, topic: str, records: int) -> list[float]:
    deliveries = Deliveries()
    measured = []
    due = time.perf_counter()
    for _ in range(records):
        due += 1 / PRODUCES_PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        producer.produce(topic, bench.value, partition=0, on_delivery=deliveries.delivered)
        bench.flush(producer)
        measured.append((time.perf_counter() - began) * 1000)
    deliveries.check()
    return measured
