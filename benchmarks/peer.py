"""Our brokers beside Apache Kafka's: the same client, the same machine, one after the other; ratios.

Each system runs three controllers and three brokers with its default settings, Kafka in heaps of 512 MB. Java compiles
at run time, so both systems get four runs to warm up, and the median of the five after them counts. For each system two
cores run client, leader and followers. Fetches Apache Kafka by Maven the first time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from squall.benchmarks.broker import AS_SHIPPED
from squall.benchmarks.parts.kafka import VERSION, KafkaCluster
from squall.benchmarks.parts.load import ALONE, Bench, Layout, quantile
from squall.benchmarks.parts.measurement import Measurement, Peer
from squall.benchmarks.parts.producing import latencies, small_requests, throughput
from squall.harness.loopback.loopback import Cluster

WARM_UPS = 4
COUNTED = 5
THREE, SIX = Layout(), Layout(partitions=6)


@dataclass(frozen=True)
class Comparison:
    """One comparison: the measurement on each system, and the bars of our ratio to Kafka."""

    name: str
    unit: str
    measure: Callable[[Bench], list[float]]
    must: float
    stretch: float
    higher_is_better: bool = True


def _speed(layout: Layout) -> Callable[[Bench], list[float]]:
    return lambda bench: [one.megabytes_per_second for one in throughput(bench, layout, runs=WARM_UPS + COUNTED)]


def _requests(layout: Layout) -> Callable[[Bench], list[float]]:
    return lambda bench: [one.records_per_second for one in small_requests(bench, layout, runs=WARM_UPS + COUNTED)]


def _median_latency(layout: Layout) -> Callable[[Bench], list[float]]:
    return lambda bench: [quantile(run, 0.5) for run in latencies(bench, layout, runs=WARM_UPS + COUNTED)]


ROWS = (
    Comparison("produce, one replica", "MB/s", _speed(ALONE), 0.5, 0.9),
    Comparison("produce, three replicas, one topic-partition", "MB/s", _speed(THREE), 0.5, 0.9),
    Comparison("produce, three replicas, six topic-partitions", "MB/s", _speed(SIX), 0.5, 0.9),
    Comparison("requests of one record, one replica", "/s", _requests(ALONE), 0.2, 0.4),
    Comparison("requests of one record, three replicas", "/s", _requests(THREE), 0.2, 0.4),
    Comparison(
        "single records at 100/s, one replica, p50", "ms", _median_latency(ALONE), 2, 1.2, higher_is_better=False
    ),
    Comparison(
        "single records at 100/s, three replicas, p50", "ms", _median_latency(THREE), 2, 1.2, higher_is_better=False
    ),
)


def measured(bench: Bench) -> list[list[float]]:
    """Every row's samples on one system, warm-ups left out."""
    return [row.measure(bench)[WARM_UPS:] for row in ROWS]


def figures(row: Comparison, ours: list[float], theirs: list[float]) -> list[Measurement]:
    """Our median beside Kafka's, and our ratio to it."""
    mine, other = statistics.median(ours), statistics.median(theirs)
    kafka, higher = Peer(f"Apache Kafka {VERSION}", other), row.higher_is_better
    return [
        Measurement(row.name, mine, row.unit, higher_is_better=higher, samples=tuple(ours), peer=kafka),
        Measurement("    ours / Kafka", mine / other, "×", row.must, row.stretch, higher),
        Measurement(f"    {kafka.name}", other, row.unit, higher_is_better=higher, samples=tuple(theirs)),
    ]


def run() -> list[Measurement]:
    with KafkaCluster() as kafka:
        theirs = measured(Bench(kafka))
    with Cluster(brokers=3, controllers=3, properties=AS_SHIPPED) as cluster:
        cluster.wait_until_ready()
        ours = measured(Bench(cluster))
    return [figure for row, mine, other in zip(ROWS, ours, theirs, strict=True) for figure in figures(row, mine, other)]
