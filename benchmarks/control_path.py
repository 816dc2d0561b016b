"""The control path under a flood of data: heartbeats and AlterPartition of a broker with 500 produce requests.

Three controllers and four brokers run as processes on loopback. Broker 1 leads the flooded topic, with 500 requests
outstanding at any time, acks=all, three replicas, so that its request channel is full. It also leads topic-partitions
with steady writes whose other replica is on broker 4, which is stopped and continued again and again, so that their ISR
shrinks and expands all the time.

Measured is the time that broker 1 waits, from its request to the active controller to the response, by its metrics
(`squall_controller_request_time_ms`). This includes all waits: in the broker's own thread, for a processor, at the
controller, for its disk and for other nodes' disks. To have enough samples, heartbeats come every 20 ms instead of
every two seconds, and broker 4 counts as lagging after a quarter of a second instead of thirty: of 300 values the 99th
percentile is exceeded by others, of twenty it would be the largest, which is reported too. Quantiles cover the last
1024 heartbeats, fewer than a run with a flood has. The steady writes are slow, since broker 4 rejoins the ISR only when
it fetches from the very end of the log, and each of its fetches waits behind 500 requests. Broker 4 first stops some
time into the flood: new processes touch their memory once, and get the pages that they then keep.

Of three hundred values four decide the 99th percentile, and a virtual machine that stalls for 50 ms delays as many at
once. So each flood is measured on three clusters, one after the other, and its figure is the median of theirs; the
longest stall of a process that only sleeps is reported too.

Small requests share one disk with the controllers' logs. Large ones are half a gigabyte a second, stored three times,
and any fsync on that disk waits for them. They are measured twice; the bar holds for controllers with a separate disk,
here one in memory, the only other one that every machine has.

Client and seven processes share the machine. The same is measured first without load, for comparison. The controllers'
metrics show that no broker was fenced and no other controller became active. The other load of the machine is reported
in cores: on two cores the figures are those of a quiet machine if it is close to zero.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import psutil
from confluent_kafka.admin import NewTopic

from squall.benchmarks.parts.load import TIMEOUT_S, Bench
from squall.benchmarks.parts.measurement import Measurement
from squall.benchmarks.parts.saturation import Flood
from squall.benchmarks.parts.sleeper import longest_stall_ms
from squall.harness.loopback.loopback import Cluster
from squall.harness.loopback.scraping import Metrics

OUTSTANDING = 500
FLOODED, RESTLESS, STOPPED = 1, "restless", 4
RESTLESS_PARTITIONS = 20
LARGE = 100_000
MEMORY = "/dev/shm"
DURATION_S = 120.0
WARM_UP_S = 5.0
ROUNDS = 3
STOP_S, GO_S = 0.7, 0.8
TRICKLE_S = 0.4
BAR_MS = 50.0
PROPERTIES = {
    "broker.heartbeat.interval.ms": "20",
    "broker.session.timeout.ms": "9000",
    "replica.lag.time.max.ms": "250",
    "replica.fetch.wait.max.ms": "200",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "log.retention.check.interval.ms": "1000",
}
BOUNDED = {"segment.bytes": str(1 << 28), "retention.bytes": str(1 << 30)}
"""Bounds that keep two minutes of large requests from filling the disk."""
TIMES = "squall_controller_request_time_ms"


@dataclass(frozen=True)
class Processors:
    """Processor seconds, up to a time or between two."""

    at: float
    machine: float
    ours: float
    broker: float

    @classmethod
    def used_by(cls, cluster: Cluster) -> Processors:
        """Sample what the machine, the cluster with this process, and the flooded broker have used so far."""
        machine = psutil.cpu_times()
        nodes = {number: _seconds(psutil.Process(node.pid)) for number, node in cluster.nodes.items()}
        ours = sum(nodes.values()) + _seconds(psutil.Process())
        return cls(time.monotonic(), sum(machine) - machine.idle - machine.iowait, ours, nodes[FLOODED])

    def since(self, before: Processors) -> Processors:
        return Processors(
            self.at - before.at, self.machine - before.machine, self.ours - before.ours, self.broker - before.broker
        )


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@dataclass(frozen=True)
class Felt:
    """One broker's times of the control path, in milliseconds, and its requests meanwhile."""

    heartbeats: int
    heartbeat_p50: float
    heartbeat_p99: float
    heartbeat_longest: float
    alterations: int
    alteration_p50: float
    alteration_p99: float
    alteration_longest: float
    requests_per_second: float
    fences: int
    elections: int
    broker_cores: float = 0.0
    """Processor time of the broker, in cores."""
    other_cores: float = 0.0
    """Processor time of processes outside this benchmark, in cores."""
    machine_stall: float = 0.0
    """The longest stall of a process that only sleeps, in milliseconds."""


def measured(
    record_bytes: int,
    *,
    outstanding: int = OUTSTANDING,
    duration_s: float = DURATION_S,
    controller_logs: Path | None = None,
) -> Felt:
    """Measure one run on a separate cluster. Without a flood if `outstanding` is 0."""
    with Cluster(brokers=4, controllers=3, properties=PROPERTIES, controller_logs=controller_logs) as cluster:
        cluster.wait_until_ready(TIMEOUT_S)
        bench = Bench(cluster)
        _create_topics(bench)
        before = _controllers(cluster)
        with _flooding(cluster, record_bytes, outstanding) as answered:
            time.sleep(WARM_UP_S)
            with _restless(cluster), _trickle(bench):
                began, answered_before = Processors.used_by(cluster), answered()
                stall_ms = longest_stall_ms(duration_s)
                rate = (answered() - answered_before) / duration_s
                used = Processors.used_by(cluster).since(began)
                metrics = cluster.metrics(FLOODED)
        after = _controllers(cluster)
        return replace(_felt(metrics, rate, before, after, used), machine_stall=stall_ms)


def _create_topics(bench: Bench) -> None:
    flooded = NewTopic("flooded", 1, replica_assignment=[[FLOODED, 2, 3]], config=BOUNDED)
    restless = NewTopic(RESTLESS, RESTLESS_PARTITIONS, replica_assignment=[[FLOODED, STOPPED]] * RESTLESS_PARTITIONS)
    for future in bench.admin.create_topics([flooded, restless]).values():
        future.result(TIMEOUT_S)

    def led() -> bool:
        found = bench.admin.list_topics(timeout=TIMEOUT_S).topics
        return all(one.leader == FLOODED for name in ("flooded", RESTLESS) for one in found[name].partitions.values())

    bench.cluster.wait_for("leaders", led)


@contextmanager
def _flooding(cluster: Cluster, record_bytes: int, outstanding: int) -> Iterator[Callable[[], int]]:
    """Run a flood as a context, if any is wanted; yields a function that counts the responses so far."""
    if not outstanding:
        yield lambda: 0
        return
    port = cluster.ports[FLOODED]
    with Flood("127.0.0.1", port, "flooded", outstanding=outstanding, record_bytes=record_bytes) as flood:
        yield lambda: flood.answered
    assert not flood.errors, f"requests were refused: {flood.errors[0]}\n{cluster.logs()}"
    assert flood.answered, f"no request was answered\n{cluster.logs()}"


@contextmanager
def _restless(cluster: Cluster) -> Iterator[None]:
    """Stop and continue broker 4 repeatedly."""
    ended = Event()

    def stop_and_go() -> None:
        while not ended.wait(GO_S):
            cluster.pause(STOPPED)
            ended.wait(STOP_S)
            cluster.resume(STOPPED)

    thread = Thread(target=stop_and_go, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _trickle(bench: Bench) -> Iterator[None]:
    """Write a few records a second to each restless topic-partition, so that a stopped follower falls behind."""
    ended = Event()
    producer = bench.producer({"enable.idempotence": False, "acks": "1"})

    def write() -> None:
        while not ended.wait(TRICKLE_S):
            for partition in range(RESTLESS_PARTITIONS):
                producer.produce(RESTLESS, b"drop", partition=partition)
            producer.poll(0)

    thread = Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        bench.flush(producer)


def _controllers(cluster: Cluster) -> tuple[int, int]:
    """Sessions that timed out, and the number of times a controller became active, as counted by all controllers."""
    found = [cluster.metrics(node.node_id) for node in cluster.controllers]
    fences = sum(one.value("kafka_controller_timed_out_broker_heartbeat_count") for one in found)
    elections = max(one.value("kafka_controller_new_active_controllers_count") for one in found)
    return int(fences), int(elections)


def _felt(metrics: Metrics, requests: float, before: tuple[int, int], after: tuple[int, int], used: Processors) -> Felt:
    def times(request: str, quantile: str) -> float:
        return metrics.value(TIMES, request=request, quantile=quantile)

    return Felt(
        heartbeats=int(metrics.value(f"{TIMES}_count", request="BrokerHeartbeat")),
        heartbeat_p50=times("BrokerHeartbeat", "0.5"),
        heartbeat_p99=times("BrokerHeartbeat", "0.99"),
        heartbeat_longest=times("BrokerHeartbeat", "1"),
        alterations=int(metrics.value(f"{TIMES}_count", request="AlterPartition")),
        alteration_p50=times("AlterPartition", "0.5"),
        alteration_p99=times("AlterPartition", "0.99"),
        alteration_longest=times("AlterPartition", "1"),
        requests_per_second=requests,
        fences=after[0] - before[0],
        elections=after[1] - before[1],
        broker_cores=used.broker / used.at,
        other_cores=max(0.0, used.machine - used.ours) / used.at,
    )


def figures(label: str, rounds: Sequence[Felt], *, bar_ms: float | None = BAR_MS) -> list[Measurement]:
    """Medians of the rounds; for counts that must be zero and for maxima, the greatest value of all rounds."""

    def median(name: str, unit: str, samples: Iterable[float], must: float | None = None) -> Measurement:
        found = tuple(samples)
        return Measurement(name, statistics.median(found), unit, must=must, higher_is_better=False, samples=found)

    def greatest(name: str, unit: str, samples: Iterable[float], must: float | None = None) -> Measurement:
        found = tuple(samples)
        return Measurement(name, max(found), unit, must=must, higher_is_better=False, samples=found)

    heartbeats, alterations = sum(one.heartbeats for one in rounds), sum(one.alterations for one in rounds)
    answered = [one.requests_per_second for one in rounds]
    return [
        Measurement(f"produce requests answered, {label}", statistics.median(answered), "/s", samples=tuple(answered)),
        median(f"    heartbeats ({heartbeats}), p50", "ms", (one.heartbeat_p50 for one in rounds)),
        median("    heartbeats, p99", "ms", (one.heartbeat_p99 for one in rounds), bar_ms),
        greatest("    heartbeats, the longest", "ms", (one.heartbeat_longest for one in rounds)),
        median(f"    AlterPartition ({alterations}), p50", "ms", (one.alteration_p50 for one in rounds)),
        median("    AlterPartition, p99", "ms", (one.alteration_p99 for one in rounds), bar_ms),
        greatest("    AlterPartition, the longest", "ms", (one.alteration_longest for one in rounds)),
        greatest("    brokers fenced", "", (one.fences for one in rounds), must=0),
        greatest("    elections", "", (one.elections for one in rounds), must=0),
        median("    processor time of the flooded broker", "cores", (one.broker_cores for one in rounds)),
        median("    of others than cluster and client", "cores", (one.other_cores for one in rounds)),
        greatest("    the machine stood still", "ms", (one.machine_stall for one in rounds)),
    ]


def run() -> Iterator[Measurement]:
    """Measure without load, with small requests, and with large ones, with and without a disk for the controllers."""
    yield from figures("no load", [measured(0, outstanding=0)])
    yield from figures(f"{OUTSTANDING} outstanding of 1 KB", [measured(1000) for _ in range(ROUNDS)])
    large = f"{OUTSTANDING} outstanding of 100 KB"
    with TemporaryDirectory(prefix="squall-controllers-", dir=MEMORY) as logs:
        rounds = [measured(LARGE, controller_logs=Path(logs) / str(number)) for number in range(ROUNDS)]
    yield from figures(f"{large}, controllers' logs in memory", rounds)
    yield from figures(f"{large}, one disk for all", [measured(LARGE)], bar_ms=None)
