"""How late thousands of observers of the metadata log hear of a commit (HX-14).

Three controllers as processes on loopback, and observers in this process: 1 000, then 5 000 connections, each with a
fetch under way, as brokers have. A record is committed again and again; noted is when each observer hears that it is
committed, from the moment at which the write was sent. The leader sends each observer two responses for a record: the
record, and that it is committed. The observers' own work is part of the figures, on the same processors.

The source claims that thousands of brokers can follow, without a figure. The rules: the last observer hears of a change
within a heartbeat (2 s at 1 000) and within a broker's session (9 s at 5 000), so that no broker is fenced because
metadata is late; and the fan-out costs an observer at most half as much again where there are five times as many, so
that it is linear in their number.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from squall.benchmarks.controller import AS_SHIPPED, NO_SNAPSHOTS
from squall.benchmarks.experiments.parts.observers import Observers
from squall.benchmarks.experiments.parts.picture import by_name, svg
from squall.benchmarks.experiments.quorum_size import percentile
from squall.benchmarks.parts.controller_processes import Controllers
from squall.benchmarks.parts.measurement import Measurement
from squall.benchmarks.parts.stub_brokers import ControllerConnection, Stub, until
from squall.harness.loopback.loopback import Cluster
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.schema import Message
from squall.results.charts.chart import Axis, Chart, Series

SIZES, SIZES_SHORT = (1_000, 5_000), (20, 100)
MUSTS = {1_000: 2.0, 5_000: 9.0}
"""Seconds: Kafka's `broker.heartbeat.interval.ms` and `broker.session.timeout.ms`."""
STEEPEST = 1.5
"""How many times as much an observer may cost where there are more; 1 is linear."""
ROUNDS, ROUNDS_SHORT = 10, 3
QUIET = {
    "metadata.max.idle.interval.ms": "0",
    "broker.session.timeout.ms": "600000",
    "controller.quorum.fetch.timeout.ms": "60000",
    "controller.quorum.request.timeout.ms": "60000",
}
"""Nothing is written but what is measured, and a machine that is busy with observers elects no other leader."""
SHARES = tuple(share / 100 for share in range(1, 101))


@dataclass
class FanOut:
    """Seconds of each commit: until its writer was answered, and until each observer had heard."""

    observers: int
    answered: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    resident: int = 0


class Scene:
    """Controllers, one registered broker that writes, observers."""

    def __init__(self, cluster: Cluster) -> None:
        self.controllers = Controllers(cluster)
        self.stub = Stub(1, self.controllers.addresses, applies=False)
        self.connection = ControllerConnection(self.controllers.addresses, "bench")
        self.observers: Observers | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.controllers.are_up()
        await self.stub.register()
        self._tasks = [asyncio.create_task(self.stub.follow()), asyncio.create_task(self.stub.beat())]
        await until("the stub follows", lambda: self.stub.high_watermark > self.stub.epoch)
        await self.commit()

    async def commit(self) -> None:
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=self.stub.epoch)
        await self.connection.until(lambda: request, _allocated)

    async def measure(self, number: int, rounds: int) -> FanOut:
        """Bring so many observers, then commit, and wait for all of them each time."""
        found = FanOut(number)
        if self.observers is None:
            stub = self.stub
            await until("all is committed", lambda: stub.high_watermark == stub.next_offset)
            self.observers = Observers(self.controllers.addresses[self.connection.at], (0, *stub.position))
        observers = self.observers
        await observers.join(number)
        loop = asyncio.get_running_loop()
        for _ in range(rounds + 1):
            await until("observers know the same", lambda: observers.are_even)
            observers.await_commit()
            began = loop.time()
            await self.commit()
            found.answered.append(loop.time() - began)
            await until("observers have heard", lambda: observers.have_heard, 120.0, every_s=0.01)
            found.lags += observers.lags
            found.last.append(max(observers.lags))
        del found.answered[0], found.last[0], found.lags[:number]  # warm-up
        found.resident = max(self.controllers.resident())
        return found

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.observers is not None:
            self.observers.close()
        self.stub.close()
        self.connection.close()


def _allocated(answer: Message) -> bool:
    assert isinstance(answer, AllocateProducerIdsResponse)
    return answer.error_code == ErrorCode.NONE


async def measured(cluster: Cluster, sizes: Sequence[int], rounds: int) -> list[FanOut]:
    scene = Scene(cluster)
    try:
        await scene.start()
        return [await scene.measure(number, rounds) for number in sizes]
    finally:
        await scene.close()


def run(short: bool = False) -> Iterator[Measurement]:
    """Measure all sizes on one cluster."""
    with Cluster(brokers=0, controllers=3, properties={**AS_SHIPPED, **NO_SNAPSHOTS, **QUIET}) as cluster:
        sizes, rounds = (SIZES_SHORT, ROUNDS_SHORT) if short else (SIZES, ROUNDS)
        found = asyncio.run(measured(cluster, sizes, rounds))
    for one in found:
        yield from figures(one)
    fewer, more = found
    yield growth(fewer, more)


def figures(found: FanOut) -> Iterator[Measurement]:
    """The figures of one number of observers."""
    of = f"{found.observers} observers"
    yield Measurement(f"{of}: a commit is answered", statistics.median(found.answered), "s",
                      samples=tuple(found.answered))  # fmt: skip
    yield Measurement(f"{of}: heard by half of them", statistics.median(found.lags), "s", samples=tuple(found.lags))
    yield Measurement(f"{of}: heard by 99 of 100", percentile(found.lags, 0.99), "s")
    yield Measurement(
        f"{of}: heard by the last", statistics.median(found.last), "s", must=MUSTS.get(found.observers, 2.0),
        higher_is_better=False, samples=tuple(found.last),
        reference="thousands of brokers follow (source); heartbeat 2 s, session 9 s (Kafka)",
    )  # fmt: skip
    yield Measurement(f"{of}: memory of the leader", found.resident / 1e6, "MB")


def growth(fewer: FanOut, more: FanOut) -> Measurement:
    """Compare the time for each observer; fixed costs make the larger number look cheaper, never dearer."""
    before, after = (statistics.median(one.last) / one.observers for one in (fewer, more))
    return Measurement(
        f"fan-out, time for each of {more.observers} observers to that of {fewer.observers}", after / before, "times",
        must=STEEPEST, higher_is_better=False, reference="1: linear (expected)",
    )  # fmt: skip


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: the share of observers that has heard, by time."""
    series = []
    for name, one in by_name(measurements).items():
        if name.endswith("heard by half of them"):
            lags = [percentile(one.samples, share) for share in SHARES]
            series.append(Series(name.split(":")[0], lags, [100 * share for share in SHARES]))
    x = Axis("after the write was sent", unit="s")
    chart = Chart("Observers that have heard of a commit", x, Axis("observers", unit="%"), tuple(series), height=320)
    return {"brokers": svg(chart)}
