"""The broker through librdkafka, against its bars: throughput, requests, latency, memory.

Three controllers and three brokers run as processes on loopback with Kafka's default timings; the load comes from this
process through confluent-kafka (librdkafka), idempotent, acks=all, 1 KB records of random bytes. So client, leader and
followers share the machine; the bars were set for two cores. With three replicas, `min.insync.replicas` is two; with
one, followers do not take part.

One run warms up; the median of the others counts. Processor time per gigabyte or request depends less on other load of
the machine, and is reported too. `squall bench peer` measures Apache Kafka with the same client on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from squall.benchmarks.parts.fetching import consumed, fetched, filled_topic
from squall.benchmarks.parts.load import ALONE, MEGA, Bench, Layout, median_of, quantile
from squall.benchmarks.parts.measurement import Measurement
from squall.benchmarks.parts.producing import PRODUCES_PER_SECOND, latencies, small_requests, throughput
from squall.harness.loopback.loopback import Cluster
from squall.nodes.protocol.compiler import encode
from squall.nodes.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

AS_SHIPPED = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "replica.fetch.backoff.ms": "1000",
    "replica.lag.time.max.ms": "30000",
}
"""Kafka's defaults, where the loopback cluster has other values."""
GIGABYTE_RECORDS = 125_000
"""Records per run; with the warm-up, eight runs are a gigabyte."""
METADATA_VERSION = 12
METADATA_TOPICS, METADATA_PARTITIONS = 100, 6
METADATA_RUNS = 30


def produce_figures(
    bench: Bench, layout: Layout, label: str, must: float, stretch: float, records: int = 40_000
) -> list[Measurement]:
    samples = throughput(bench, layout, records)
    speed = [sample.megabytes_per_second for sample in samples]
    cost = [sample.processor_seconds_per_gigabyte for sample in samples]
    return [
        median_of(f"produce, {label}", "MB/s", speed, must=must, stretch=stretch),
        median_of("    processor time of the three brokers", "s/GB", cost, higher_is_better=False),
    ]


def memory_figures(bench: Bench) -> list[Measurement]:
    """Resident memory of the largest broker, directly after the gigabyte."""
    megabytes = bench.largest_resident_bytes() / MEGA
    return [
        Measurement("    resident memory after 1 GB", megabytes, "MB", must=150, stretch=80, higher_is_better=False)
    ]


def request_figures(bench: Bench, layout: Layout, label: str, must: float, stretch: float) -> list[Measurement]:
    samples = small_requests(bench, layout)
    speed = [sample.records_per_second for sample in samples]
    cost = [sample.processor_microseconds_per_record for sample in samples]
    bars = {"must": 100, "stretch": 40} if layout.replicas == 1 else {}
    return [
        median_of(f"requests of one record, {label}", "/s", speed, must=must, stretch=stretch),
        median_of("    processor time of the brokers, each", "µs", cost, higher_is_better=False, **bars),
    ]


def fetch_figures(bench: Bench) -> list[Measurement]:
    filled_topic(bench, "filled")
    figures = [
        median_of("consume, one consumer, 1 KB records", "MB/s", consumed(bench, "filled"), must=120, stretch=180),
        median_of("fetch, raw responses of 1 MB", "MB/s", fetched(bench, "filled"), must=700, stretch=1500),
    ]
    bench.delete_topic("filled")
    return figures


def latency_figures(
    bench: Bench, layout: Layout, label: str, p50: tuple[float, float], p99: tuple[float, float]
) -> list[Measurement]:
    """`p50` and `p99` are each the must and the stretch, in milliseconds."""
    runs = latencies(bench, layout)
    return [
        median_of(
            f"single records at {PRODUCES_PER_SECOND}/s, {label}, {name}",
            "ms",
            [quantile(run, of) for run in runs],
            must=must,
            stretch=stretch,
            higher_is_better=False,
        )
        for name, of, (must, stretch) in (("p50", 0.5, p50), ("p99", 0.99, p99))
    ]


def metadata_figures(runs: int = METADATA_RUNS) -> list[Measurement]:
    """Time to encode a Metadata response of a hundred topics."""
    response = metadata_response()
    milliseconds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        encode(response, METADATA_VERSION)
        milliseconds.append((time.perf_counter() - began) * 1000)
    name = f"encode Metadata of {METADATA_TOPICS} topics x {METADATA_PARTITIONS}"
    return [median_of(name, "ms", milliseconds[1:], must=2, stretch=1, higher_is_better=False)]


def metadata_response() -> MetadataResponse:
    def partition(number: int) -> MetadataResponsePartition:
        return MetadataResponsePartition(
            partition_index=number, leader_id=1, leader_epoch=7, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )

    return MetadataResponse(
        brokers=[MetadataResponseBroker(node, "127.0.0.1", 9092, None) for node in (1, 2, 3)],
        cluster_id="c" * 22,
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=f"topic-{topic}",
                topic_id=topic.to_bytes(16, "big"),
                partitions=[partition(number) for number in range(METADATA_PARTITIONS)],
            )
            for topic in range(1, METADATA_TOPICS + 1)
        ],
    )


def run() -> Iterator[Measurement]:
    """Measure everything on one cluster. Memory comes first, before any other load."""
    one, six = Layout(), Layout(partitions=6)
    parts: tuple[Callable[[Bench], list[Measurement]], ...] = (
        lambda bench: produce_figures(bench, ALONE, "one replica", 100, 180, GIGABYTE_RECORDS),
        memory_figures,
        lambda bench: produce_figures(bench, one, "three replicas, one topic-partition", 25, 50),
        lambda bench: produce_figures(bench, six, "three replicas, six topic-partitions", 40, 80),
        lambda bench: request_figures(bench, ALONE, "one replica", 8000, 20_000),
        lambda bench: request_figures(bench, one, "three replicas", 2500, 6000),
        fetch_figures,
        lambda bench: latency_figures(bench, ALONE, "one replica", (1.5, 0.9), (10, 4)),
        lambda bench: latency_figures(bench, one, "three replicas", (3, 1.5), (20, 6)),
        lambda bench: metadata_figures(),
    )
    with Cluster(brokers=3, controllers=3, properties=AS_SHIPPED) as cluster:
        cluster.wait_until_ready()
        bench = Bench(cluster)
        for part in parts:
            yield from part(bench)
