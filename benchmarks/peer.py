"""Our brokers beside Apache Kafka's: the same client, the same machine, by turns and warm; ratios.

Each system runs three controllers and three brokers with its default settings, Kafka with the heap and the collector of
its own start script. Both are up all the time, and one is idle while the other is sampled. Java compiles at run time:
each system is sampled until its processor time per unit is steady over three samples, then both take turns
(`parts/alternation.py`). A sample of throughput is 400 MB. Two cores run client, leader and followers.

Every figure has the run-to-run spread of both systems beside it (distance between the quartiles over the median), the
processor time of the three brokers, and how many samples warmed each system up. Faults follow
(`parts/recovery.py`): three of each kind on each system, by turns. Fetches Apache Kafka by Maven the first time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from squall.benchmarks.broker import AS_SHIPPED
from squall.benchmarks.parts.alternation import Sampled, Side, alternated, by_turns, spread
from squall.benchmarks.parts.kafka import VERSION, KafkaCluster
from squall.benchmarks.parts.load import ALONE, MEGA, Bench, Layout, quantile
from squall.benchmarks.parts.measurement import Measurement, Peer
from squall.benchmarks.parts.producing import (
    SMALL_REQUESTS,
    Filling,
    LatencySample,
    Sample,
    SingleRecords,
)
from squall.benchmarks.parts.recovery import KINDS, FaultedCluster, Kind, Recovery, recovered
from squall.harness.loopback.loopback import Cluster

THREE, SIX = Layout(), Layout(partitions=6)
RECORDS: Final = 400_000
"""Of a sample of throughput: 400 MB."""
REQUESTS: Final = 15_000
SINGLE_RECORDS: Final = 500
FAULTS: Final = 3
KAFKA: Final = f"Apache Kafka {VERSION}"


@dataclass(frozen=True)
class Bars:
    """The must and the stretch of our ratio to Kafka."""

    must: float
    stretch: float


@dataclass(frozen=True)
class Filled:
    """A comparison of samples that fill topics."""

    name: str
    unit: str
    layout: Layout
    bars: Bars
    records: int
    speed: Callable[[Sample], float]
    cost: Callable[[Sample], float]
    cost_unit: str
    small: bool = False

    def side(self, bench: Bench) -> Side[Sample]:
        topics, settings = ("requests", SMALL_REQUESTS) if self.small else ("throughput", {})
        filling = Filling(bench, f"{topics}-{self.layout}", self.layout, self.records, settings)
        return Side(filling.take, self.cost)


def _throughput(name: str, layout: Layout) -> Filled:
    return Filled(
        name=f"produce, {name}",
        unit="MB/s",
        layout=layout,
        bars=Bars(0.5, 0.9),
        records=RECORDS,
        speed=lambda one: one.megabytes_per_second,
        cost=lambda one: one.processor_seconds_per_gigabyte,
        cost_unit="s/GB",
    )


def _requests(name: str, layout: Layout) -> Filled:
    return Filled(
        name=f"requests of one record, {name}",
        unit="/s",
        layout=layout,
        bars=Bars(0.2, 0.4),
        records=REQUESTS,
        speed=lambda one: one.records_per_second,
        cost=lambda one: one.processor_microseconds_per_record,
        cost_unit="µs",
        small=True,
    )


FILLED: Final = (
    _throughput("one replica", ALONE),
    _throughput("three replicas, one topic-partition", THREE),
    _throughput("three replicas, six topic-partitions", SIX),
    _requests("one replica", ALONE),
    _requests("three replicas", THREE),
)
SINGLE: Final = (("one replica", ALONE), ("three replicas", THREE))
LATENCY_BARS: Final = Bars(2, 1.2)


def filled_figures(row: Filled, ours: Sampled[Sample], theirs: Sampled[Sample]) -> list[Measurement]:
    """Speed, what it costs, and how both systems were warmed up."""
    costs = [statistics.median(map(row.cost, system.samples)) for system in (ours, theirs)]
    each = "request" if row.small else "GB"
    return [
        *compared(row.name, row.unit, [*map(row.speed, ours.samples)], [*map(row.speed, theirs.samples)], row.bars),
        _beside(f"    processor time of the three brokers, each {each}", row.cost_unit, *costs, higher=False),
        Measurement("    processor time, ours / Kafka", costs[0] / costs[1], "×", higher_is_better=False),
        _warm_ups("ours", ours),
        _warm_ups("Kafka", theirs),
    ]


def latency_figures(name: str, ours: Sampled[LatencySample], theirs: Sampled[LatencySample]) -> list[Measurement]:
    """The quantiles of single records, of all samples together; p50 has bars and a spread."""
    title = f"single records at 100/s, {name}"
    mine, other = ([quantile(one.milliseconds, 0.5) for one in system.samples] for system in (ours, theirs))
    together = [[ms for one in system.samples for ms in one.milliseconds] for system in (ours, theirs)]
    return [
        *compared(f"{title}, p50", "ms", mine, other, LATENCY_BARS, higher=False),
        *(
            _beside(f"{title}, {label}", "ms", *(quantile(some, of) for some in together), higher=False)
            for label, of in (("p99", 0.99), ("p99.9", 0.999))
        ),
        _warm_ups("ours", ours),
        _warm_ups("Kafka", theirs),
    ]


def memory_figures(ours: Bench, theirs: Bench) -> list[Measurement]:
    """Resident memory of the largest broker of each."""
    mine, other = (bench.largest_resident_bytes() / MEGA for bench in (ours, theirs))
    return [_beside("resident memory of the largest broker", "MB", mine, other, higher=False)]


def recovery_figures(kind: str, ours: Sequence[Recovery], theirs: Sequence[Recovery]) -> list[Measurement]:
    """The medians of each part of a recovery."""
    parts: tuple[tuple[str, Callable[[Recovery], float]], ...] = (
        ("failover", lambda one: one.failover),
        ("longest outage", lambda one: one.longest_outage),
        ("recovery", lambda one: one.recovery),
    )
    return [
        _beside(
            f"{kind}, {name}",
            "s",
            statistics.median(map(of, ours)),
            statistics.median(map(of, theirs)),
            higher=False,
            samples=[*map(of, ours)],
        )
        for name, of in parts
    ]


def compared(
    name: str, unit: str, ours: Sequence[float], theirs: Sequence[float], bars: Bars, *, higher: bool = True
) -> list[Measurement]:
    """Our median beside Kafka's, our ratio to it, and the run-to-run spread of both."""
    mine, other = statistics.median(ours), statistics.median(theirs)
    return [
        _beside(name, unit, mine, other, higher=higher, samples=ours),
        Measurement("    ours / Kafka", mine / other, "×", bars.must, bars.stretch, higher),
        Measurement(f"    {KAFKA}", other, unit, higher_is_better=higher, samples=tuple(theirs)),
        _spread("ours", ours),
        _spread("Kafka", theirs),
    ]


def _spread(name: str, samples: Sequence[float]) -> Measurement:
    return Measurement(f"    run-to-run spread, {name}", 100 * spread(samples), "%", higher_is_better=False)


def _warm_ups(name: str, sampled: Sampled[Any]) -> Measurement:
    steady = "" if sampled.steady else ", never steady"
    return Measurement(f"    samples to warm up, {name}{steady}", sampled.warm_ups, "", higher_is_better=False)


def _beside(
    name: str, unit: str, ours: float, theirs: float, *, higher: bool, samples: Sequence[float] = ()
) -> Measurement:
    peer = Peer(KAFKA, theirs)
    return Measurement(name, ours, unit, higher_is_better=higher, samples=tuple(samples), peer=peer)


def _single_records(bench: Bench, layout: Layout) -> Side[LatencySample]:
    return Side(SingleRecords(bench, layout, SINGLE_RECORDS).take, lambda one: one.processor_seconds)


def _recoveries(
    kind: Kind, ours: tuple[Bench, FaultedCluster], theirs: tuple[Bench, FaultedCluster]
) -> list[Measurement]:
    taken = by_turns(lambda: recovered(*ours, kind), lambda: recovered(*theirs, kind), FAULTS)
    return recovery_figures(kind, *taken)


def run() -> Iterator[Measurement]:
    with KafkaCluster() as kafka, Cluster(brokers=3, controllers=3, properties=AS_SHIPPED) as cluster:
        cluster.wait_until_ready()
        ours, theirs = Bench(cluster), Bench(kafka)
        for row in FILLED:
            yield from filled_figures(row, *alternated(row.side(ours), row.side(theirs)))
        yield from memory_figures(ours, theirs)
        for name, layout in SINGLE:
            yield from latency_figures(
                name, *alternated(_single_records(ours, layout), _single_records(theirs, layout))
            )
        for kind in KINDS:
            yield from _recoveries(kind, (ours, cluster), (theirs, kafka))
