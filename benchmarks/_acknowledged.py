"""Acknowledged operations per second of load workers against three brokers of ours, everything on this machine.

The workers are those of a run: processes of their own that generate, send through librdkafka (idempotent, acks=all) and
record every operation. They are offered more than anybody could take, so that what is acknowledged is what the whole
chain carries: generator, client, leader, two followers, and back into the history.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from squall.benchmarks._load import Bench, Layout
from squall.harness.load import LoadWorkers, start_local_workers
from squall.harness.loopback import Cluster

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


def acknowledged_per_second() -> tuple[float, ...]:
    """One figure for each of several stretches of one load."""
    with Cluster(brokers=3, controllers=3) as cluster, tempfile.TemporaryDirectory() as directory:
        cluster.wait_until_ready()
        Bench(cluster).create_topic(TOPIC, LAYOUT)
        addresses = [address.rpartition(":") for address in cluster.bootstrap.split(",")]
        bootstrap = [(host, int(port)) for host, _, port in addresses]
        return asyncio.run(_measured(bootstrap, Path(directory)))


async def _measured(bootstrap: list[tuple[str, int]], directory: Path) -> tuple[float, ...]:
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
        await workers.open()
        await workers.load()
        await asyncio.sleep(WARM_SECONDS)
        looks = [_look(workers)]
        for _ in range(WINDOWS):
            await asyncio.sleep(WINDOW_SECONDS)
            looks.append(_look(workers))
        await workers.stop()
        await workers.close()
    finally:
        await workers.end()
    return tuple(
        sum(_rate(one, other) for one, other in zip(before, after, strict=True)) for before, after in pairwise(looks)
    )


def _look(workers: LoadWorkers) -> list[tuple[int, int]]:
    """What each worker said last: when that was, and how many sends were acknowledged by then."""
    assert all("counts" in one for one in workers.latest), "a load worker has not reported yet"
    return [(int(one["now"]), int(one["counts"].get("send.ok", 0))) for one in workers.latest]


def _rate(before: tuple[int, int], after: tuple[int, int]) -> float:
    assert after[0] > before[0], "a load worker has not reported for a whole window"
    return (after[1] - before[1]) / (after[0] - before[0]) * 1e9
