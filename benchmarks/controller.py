"""The quorum controller at scale: three controllers, thirty stub brokers, as many topic-partitions as are asked for.

Three controllers run as processes on loopback with Kafka's default timings; the brokers are stubs (`_stub_brokers`),
because two million topic-partitions of three replicas are six million logs. They live in this process: one decodes and
applies what is committed, the others count bytes. `--partitions` says how many topic-partitions; ten thousand by
default, in topics of a thousand.

Measured: creating them; memory of each controller in steady state; a broker that leaves by controlled shutdown, until
what that moves is committed on a majority (its heartbeat is answered) and until it is applied (by the stub that
applies); and SIGKILL of the active controller, until the next one has committed something (a block of producer ids).
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import psutil

from squall.benchmarks._stub_brokers import Asker, Stub, until
from squall.benchmarks.measurement import Measurement
from squall.harness.loopback import Cluster
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

PARTITIONS = 10_000
PARTITIONS_OF_A_TOPIC = 1_000
BROKERS, CONTROLLERS, REPLICAS = 30, 3, 3
RUNS = 3
MEGA = 1_000_000
AS_SHIPPED = {
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
}
"""Kafka's defaults, where the loopback cluster has others."""


@dataclass
class Figures:
    """What was measured, in seconds; memory in bytes, of each controller."""

    partitions: int
    create_s: float = 0.0
    resident: list[int] = field(default_factory=list)
    committed_s: list[float] = field(default_factory=list)
    applied_s: list[float] = field(default_factory=list)
    failover_s: list[float] = field(default_factory=list)


class Scene:
    """The cluster with its stubs, while it lasts."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        addresses = [("127.0.0.1", port) for port in cluster.controller_ports.values()]
        self.stubs = [Stub(broker, addresses, applies=broker == 1) for broker in range(1, BROKERS + 1)]
        self.asker = Asker(addresses, "bench")
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await asyncio.gather(*(stub.register() for stub in self.stubs))
        for stub in self.stubs:
            self.tasks += [asyncio.create_task(stub.follow()), asyncio.create_task(stub.beat())]
        applier = self.applier
        await until(
            "all stubs unfenced",
            lambda: len(applier.brokers) == BROKERS and not any(one.fenced for one in applier.brokers.values()),
        )

    @property
    def applier(self):  # type: ignore[no-untyped-def]
        image = self.stubs[0].image
        assert image is not None
        return image

    async def create(self, partitions: int) -> float:
        began = time.monotonic()
        for number in range(-(-partitions // PARTITIONS_OF_A_TOPIC)):
            count = min(PARTITIONS_OF_A_TOPIC, partitions - number * PARTITIONS_OF_A_TOPIC)
            topic = CreatableTopic(name=f"topic-{number}", num_partitions=count, replication_factor=REPLICAS)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
            await self.asker.until(lambda request=request: request, _created)  # type: ignore[misc]
        return time.monotonic() - began

    async def shut_down(self, stub: Stub) -> tuple[float, float]:
        """How long until committed, and until applied."""
        began = time.monotonic()
        await stub.leave()
        committed = time.monotonic() - began
        await until("applied", lambda: self.applier.brokers[stub.broker].fenced)
        return committed, time.monotonic() - began

    async def fail_over(self) -> float:
        """Kill the active controller; how long until something new is committed. It is started again afterwards."""
        await self._commit_something()
        active = self._active()
        self.cluster.nodes[active].kill()
        began = time.monotonic()
        await self._commit_something()
        seconds = time.monotonic() - began
        self.cluster.nodes[active].start()
        return seconds

    def _active(self) -> int:
        """The controller that the asker is connected to, because it answered."""
        return list(self.cluster.controller_ports)[self.asker.at]

    async def _commit_something(self) -> None:
        stub = self.stubs[0]
        request = AllocateProducerIdsRequest(broker_id=stub.broker, broker_epoch=stub.epoch)
        await self.asker.until(lambda: request, _allocated)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for stub in self.stubs:
            stub.close()
        self.asker.close()


def _created(answer: object) -> bool:
    codes = [topic.error_code for topic in cast(CreateTopicsResponse, answer).topics]
    return all(code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) for code in codes)


def _allocated(answer: object) -> bool:
    return cast(AllocateProducerIdsResponse, answer).error_code == ErrorCode.NONE


async def measure(cluster: Cluster, partitions: int, runs: int) -> Figures:
    """Everything, on one cluster; `runs` brokers leave, and `runs` active controllers are killed."""
    scene = Scene(cluster)
    figures = Figures(partitions)
    try:
        await scene.start()
        figures.create_s = await scene.create(partitions)
        await until("all applied", lambda: sum(len(t.partitions) for t in scene.applier.topics.values()) == partitions)
        figures.resident = [psutil.Process(node.pid).memory_info().rss for node in cluster.controllers]
        for stub in scene.stubs[-runs:]:
            committed, applied = await scene.shut_down(stub)
            figures.committed_s.append(committed)
            figures.applied_s.append(applied)
        for _ in range(runs):
            figures.failover_s.append(await scene.fail_over())
            await asyncio.sleep(2.0)  # the killed one starts, and replays what there is
    finally:
        await scene.close()
    return figures


def measurements(figures: Figures) -> list[Measurement]:
    size = f"{figures.partitions:,}".replace(",", " ")
    return [
        Measurement(f"create {size} topic-partitions", figures.create_s, "s", higher_is_better=False),
        Measurement(
            "resident memory of the largest controller", max(figures.resident) / MEGA, "MB",
            must=550, higher_is_better=False, samples=tuple(one / MEGA for one in figures.resident),
        ),
        _median("controlled shutdown of a broker, committed", figures.committed_s, 1.5),
        _median("controlled shutdown of a broker, applied", figures.applied_s, 3.0),
        _median("SIGKILL of the active controller to the next commit", figures.failover_s, 2.5),
        Measurement("    the longest of these", max(figures.failover_s), "s", higher_is_better=False),
    ]  # fmt: skip


def _median(name: str, seconds: Sequence[float], must: float) -> Measurement:
    return Measurement(name, statistics.median(seconds), "s", must=must, higher_is_better=False, samples=tuple(seconds))


def run(partitions: int = PARTITIONS, runs: int = RUNS) -> list[Measurement]:
    """Measure; `runs` brokers leave and as many active controllers are killed."""
    with Cluster(brokers=0, controllers=CONTROLLERS, properties=AS_SHIPPED) as cluster:
        return measurements(asyncio.run(measure(cluster, partitions, runs)))
