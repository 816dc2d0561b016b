"""Measure acknowledged operations per second of load workers against three of our brokers, all on this machine.

The workers are those of a run: separate processes that generate, send through librdkafka (idempotent, acks=all) and
record every operation. The offered load exceeds any capacity, so that the acknowledged rate is that of the whole chain:
generator, client, leader, two followers, and back into the history. The cluster has Kafka's default timings.

Why no more is in flight: librdkafka has one batch of an idempotent producer in flight per topic-partition (its limit of
five in flight counts records), and while others have waited for longer than `linger.ms` behind it, its thread polls the
socket instead of waiting. With 60 per producer and topic-partition a worker hands all of them over within those 10 ms,
and they make one batch; with 200 it does not, and such threads, three per worker, take the processors from the brokers
that they wait for.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from squall.benchmarks.broker import AS_SHIPPED
from squall.benchmarks.parts.load import Bench, Layout
from squall.harness.load.load import LoadWorkers, start_local_workers
from squall.harness.loopback.loopback import Cluster

TOPIC = "interpreter"
LAYOUT = Layout(partitions=6)
WORKERS = 2
WORKLOAD: Mapping[str, Any] = {
    "name": "log",
    "client": "confluent",
    "producers": 2,
    "consumers": 0,
    "rate": 60_000.0,
    "in_flight": 60,
    "record_size": 100,
}
WARM_SECONDS = 4.0
WINDOW_SECONDS = 3.0
WINDOWS = 5


@dataclass(frozen=True)
class Window:
    """An interval of the load: acknowledged sends per second, and processor time per send of workers and brokers."""

    per_second: float
    workers_microseconds: float
    brokers_microseconds: float


@dataclass(frozen=True)
class Look:
    """A sample of the load's counters.

    `acknowledged` holds, for each worker, the time of its last report and the number of sends acknowledged by then; the
    other fields are the processor seconds that workers and brokers had used at that time.
    """

    acknowledged: tuple[tuple[int, int], ...]
    workers_seconds: float
    brokers_seconds: float

    def until(self, later: Look) -> Window:
        """The interval between two samples."""
        pairs = list(zip(self.acknowledged, later.acknowledged, strict=True))
        count = sum(after[1] - before[1] for before, after in pairs)
        assert count > 0, "nothing was acknowledged in a whole window"
        return Window(
            sum(_rate(before, after) for before, after in pairs),
            (later.workers_seconds - self.workers_seconds) / count * 1e6,
            (later.brokers_seconds - self.brokers_seconds) / count * 1e6,
        )


def acknowledged() -> list[Window]:
    """Measure several intervals of one load."""
    with (
        Cluster(brokers=3, controllers=3, properties=AS_SHIPPED) as cluster,
        tempfile.TemporaryDirectory() as directory,
    ):
        cluster.wait_until_ready()
        bench = Bench(cluster)
        bench.create_topic(TOPIC, LAYOUT)
        addresses = [address.rpartition(":") for address in cluster.bootstrap.split(",")]
        bootstrap = [(host, int(port)) for host, _, port in addresses]
        return asyncio.run(_measured(bootstrap, Path(directory), bench.brokers))


async def _measured(
    bootstrap: list[tuple[str, int]], directory: Path, brokers: Sequence[psutil.Process]
) -> list[Window]:
    workers = await start_local_workers(
        WORKERS,
        prefix=[],
        directory=directory,
        run_id="benchmark",
        workload=WORKLOAD,
        topics={TOPIC: LAYOUT.partitions},
        bootstrap=bootstrap,
    )
    try:
        processes = [psutil.Process(int(ready["pid"])) for ready in await workers.open()]
        await workers.load()
        await asyncio.sleep(WARM_SECONDS)
        looks = [_look(workers, processes, brokers)]
        for _ in range(WINDOWS):
            await asyncio.sleep(WINDOW_SECONDS)
            looks.append(_look(workers, processes, brokers))
        await workers.stop()
        await workers.close()
    finally:
        await workers.end()
    return [before.until(after) for before, after in pairwise(looks)]


def _look(workers: LoadWorkers, processes: Sequence[psutil.Process], brokers: Sequence[psutil.Process]) -> Look:
    assert all("counts" in one for one in workers.latest), "a load worker has not reported yet"
    said = tuple((int(one["now"]), int(one["counts"].get("send.ok", 0))) for one in workers.latest)
    return Look(said, _processor_seconds(processes), _processor_seconds(brokers))


def _processor_seconds(processes: Sequence[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (one.cpu_times() for one in processes))


def _rate(before: tuple[int, int], after: tuple[int, int]) -> float:
    assert after[0] > before[0], "a load worker has not reported for a whole window"
    return (after[1] - before[1]) / (after[0] - before[0]) * 1e9
