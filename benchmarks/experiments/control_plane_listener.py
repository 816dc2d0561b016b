"""A controller's requests to a broker under a flood of produce requests, with and without a listener of their own.

KIP-291, P20. Two broker processes on loopback, a real ZooKeeper server, and a stub controller
(`parts/stub_controller.py`) that moves the leader of the only topic-partition. A process of its own
(`parts/flood.py`) keeps so many produce requests of a kilobyte outstanding at the leader. Three arms: the queue that
the controller shares with clients, the listener of KIP-291 (`control.plane.listener.name`), and the design that KIP-291
rejected, in which a controller's requests overtake others in the queue (`request.queue.order=controller-first`).

Every 20 ms one UpdateMetadata is sent to the leader, and the time to its response taken: the control latency. Windows
of the arms take turns. Then the leader moves 20 times under 500 outstanding requests with acks=1. A record is *stale*
if its leader acknowledged it after the controller had begun to make another broker the leader; the other broker's log
is the one that stays, so a stale record is lost. Whether it is lost is read from the log at the end. Records that a
leader acknowledged before, and that no follower had fetched, are lost as well: that is acks=1, and no listener changes
it; they are counted apart. With acks=all nothing may be lost.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from squall.benchmarks.experiments.parts.flood import MARK, Acknowledged, FloodOptions
from squall.benchmarks.experiments.parts.picture import by_name, svg
from squall.benchmarks.experiments.parts.stub_controller import Move, StubController
from squall.benchmarks.experiments.parts.zookeeper_client import Client
from squall.benchmarks.parts.load import quantile
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.loopback.ensemble import Ensemble
from squall.harness.loopback.loopback import Cluster
from squall.nodes.node.metrics.metric_names import CONTROL_QUEUE, DATA_QUEUE, LOG_END
from squall.results.charts.chart import Axis, Chart, Series

SHARED, LISTENER, REJECTED = "shared queue", "own listener", "rejected design"
ARMS: Mapping[str, Mapping[str, str]] = {
    SHARED: {},
    LISTENER: {"control.plane.listener.name": "CONTROLLER"},
    REJECTED: {"request.queue.order": "controller-first"},
}
SETTINGS = {"turn.requests.max": "2", "replica.lag.time.max.ms": "30000"}
"""Of all arms. A broker looks for a controller's requests between turns; a turn of the default is up to 16 requests."""
TOPIC, RECORD_SIZE = "flood", 1000
FIRST, SECOND = 1, 2
OUTSTANDING, OUTSTANDING_SHORT = (0, 20, 100, 200, 500, 1000), (0, 200)
FULL, BEYOND = 500, 1000
"""As many as a queue holds, and more."""
ROUNDS, ROUNDS_SHORT = 3, 1
WARM_UP_S, WINDOW_S, WINDOW_SHORT_S = 1.0, 4.0, 1.0
PROBE_EVERY_S = 0.02
MOVES, MOVES_SHORT, MOVES_OF_ALL = 20, 2, 4
MOVE_EVERY_S = 0.6
MS = 1000.0
PATIENCE_S = 60.0
PUBLISHED = "no figure is published; the rule is the prototype's"
FASTER, SERVICES, SLOWEST_MS = 50.0, 10.0, 10.0
THROUGHPUT_KEPT = 0.95
STALE_AT_LEAST, STALE_AT_MOST = 100.0, 10.0


@dataclass
class Window:
    """One arm under so many outstanding requests."""

    latencies: list[float] = field(default_factory=list)
    """Milliseconds of the probes."""
    rates: list[float] = field(default_factory=list)
    """Acknowledged requests a second, of each round."""
    queued: list[float] = field(default_factory=list)
    """RequestQueueSize, at the end of each round."""
    control_queued: list[float] = field(default_factory=list)

    @property
    def service_ms(self) -> float:
        return MS / statistics.median(self.rates)


@dataclass
class Losses:
    """The moves of one arm, and what was acknowledged meanwhile and is not in the log at the end."""

    moves: list[Move]
    stale: list[int]
    """Lost records that were acknowledged by a leader after its end had begun, by move."""
    lost: int
    acknowledged: int


class Arm:
    """One running cluster with its controller."""

    def __init__(self, name: str, ensemble: Ensemble, cluster: Cluster, folder: Path) -> None:
        self.name = name
        self.windows: dict[int, Window] = {}
        self.cluster = cluster
        self._outcome = folder / f"{name.replace(' ', '-')}.acknowledged"
        self._client = Client(ensemble.addresses)
        self.controller = StubController(self._client, (FIRST, SECOND), TOPIC)
        self.leader = FIRST

    async def start(self) -> None:
        await self.controller.take_office()
        self.cluster.start()
        await self.controller.meet(ARMS[self.name].get("control.plane.listener.name", "PLAINTEXT"))

    async def flood(self, outstanding: int, acks: int) -> asyncio.subprocess.Process:
        """Begin a flood, and let it run for a moment."""
        options = FloodOptions(
            self.cluster.ports, self.leader, TOPIC, outstanding, acks, RECORD_SIZE, str(self._outcome)
        )
        process = await asyncio.create_subprocess_exec(
            *options.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        assert line == b"open\n", f"the flood has not begun:\n{self.cluster.logs()}"
        await asyncio.sleep(WARM_UP_S)
        return process

    async def end(self, process: asyncio.subprocess.Process) -> Acknowledged:
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), PATIENCE_S)
        assert process.returncode == 0
        return Acknowledged.load(self._outcome)

    async def look(self, outstanding: int, seconds: float) -> None:
        """Take the control latency for some seconds, and the throughput."""
        window = self.windows.setdefault(outstanding, Window())
        process = await self.flood(outstanding, 1) if outstanding else None
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            next_at = time.monotonic() + PROBE_EVERY_S
            window.latencies.append(await self.controller.probe(self.leader) * MS)
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
        ended = time.monotonic()
        if process is None:
            return
        metrics = await asyncio.to_thread(self.cluster.metrics, self.leader)
        window.queued.append(metrics.value(DATA_QUEUE.name))
        window.control_queued.append(metrics.value(CONTROL_QUEUE.name))
        times = (await self.end(process)).times
        window.rates.append((bisect_right(times, ended) - bisect_right(times, began)) / (ended - began))

    async def move(self, times: int, acks: int) -> Losses:
        """Move the leader under a full flood; count what is lost."""
        process = await self.flood(FULL, acks)
        moves = []
        for _ in range(times):
            self.leader = SECOND if self.leader == FIRST else FIRST
            moves.append(await self.controller.move(self.leader))
            await asyncio.sleep(MOVE_EVERY_S)
        acknowledged = await self.end(process)
        kept = await asyncio.to_thread(self._kept, min(acknowledged.offsets))
        return losses(moves, acknowledged, kept)

    def _kept(self, first: int) -> set[int]:
        """Return the numbers of the records in the leader's log, from an offset on, once all of it is committed."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            place = TopicPartition(TOPIC, 0, first)
            end = self.cluster.wait_for("the log is committed", lambda: self._committed(consumer, place), PATIENCE_S)
            consumer.assign([place])
            found: set[int] = set()
            at = first
            while at < end:
                messages = consumer.consume(5000, 1.0)
                for message in messages:
                    assert message.error() is None, message.error()
                    value = message.value()
                    assert isinstance(value, bytes)
                    found.add(int.from_bytes(value[: len(MARK)], "big"))
                    at = int(message.offset() or 0) + 1
            return found
        finally:
            consumer.close()

    def _committed(self, consumer: Consumer, place: TopicPartition) -> int | None:
        """Return the high watermark if it is the end of the leader's log."""
        _, high_watermark = consumer.get_watermark_offsets(place, PATIENCE_S)
        end = self.cluster.metrics(self.leader).value(LOG_END.name, topic=TOPIC, partition="0")
        return int(high_watermark) if high_watermark == end else None

    def close(self) -> None:
        self.controller.close()
        self._client.close()
        self.cluster.close()


def losses(moves: Sequence[Move], acknowledged: Acknowledged, kept: set[int]) -> Losses:
    """Count lost records: all, and by move those that are stale."""
    begun = [one.sent_at for one in moves]
    stale, lost = [0] * len(moves), 0
    for number, broker, at in zip(acknowledged.numbers, acknowledged.brokers, acknowledged.times, strict=True):
        if number in kept:
            continue
        lost += 1
        last = bisect_right(begun, at) - 1
        if last >= 0 and moves[last].leader != broker:
            stale[last] += 1
    return Losses(list(moves), stale, lost, len(acknowledged.numbers))


async def measured(arms: Sequence[Arm], *, short: bool) -> tuple[dict[str, Losses], dict[str, Losses]]:
    """Measure all arms in turns; return the losses with acks=1 and with acks=all, by arm."""
    for arm in arms:
        await arm.start()
    seconds = WINDOW_SHORT_S if short else WINDOW_S
    for outstanding in OUTSTANDING_SHORT if short else OUTSTANDING:
        for number in range(ROUNDS_SHORT if short else ROUNDS):
            for arm in arms if number % 2 else reversed(arms):
                await arm.look(outstanding, seconds)
    moved = [arm for arm in arms if arm.name != REJECTED]
    one = {arm.name: await arm.move(MOVES_SHORT if short else MOVES, 1) for arm in moved}
    every = {arm.name: await arm.move(MOVES_SHORT if short else MOVES_OF_ALL, -1) for arm in moved}
    return one, every


def run(short: bool = False) -> Iterator[Measurement]:
    """Measure all arms."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        arms = []
        for name, settings in ARMS.items():
            ensemble = stack.enter_context(Ensemble())
            ensemble.wait_until_ready()
            cluster = Cluster(brokers=2, zookeeper=ensemble.connect, properties={**SETTINGS, **settings}, start=False)
            stack.callback(cluster.close)
            arms.append((name, ensemble, cluster))
        found, one, every = asyncio.run(_measure(arms, Path(folder), short=short))
    yield from figures(found)
    yield from comparisons(found)
    yield from lost_records(one, every)


async def _measure(
    made: Sequence[tuple[str, Ensemble, Cluster]], folder: Path, *, short: bool
) -> tuple[dict[str, dict[int, Window]], dict[str, Losses], dict[str, Losses]]:
    arms = [Arm(name, ensemble, cluster, folder) for name, ensemble, cluster in made]
    try:
        one, every = await measured(arms, short=short)
    finally:
        for arm in arms:
            arm.close()
    return {arm.name: arm.windows for arm in arms}, one, every


# -- figures -----------------------------------------------------------------------------------------------------------


def name_of(arm: str, outstanding: int) -> str:
    return f"{arm}, {outstanding} outstanding"


def figures(found: Mapping[str, Mapping[int, Window]]) -> Iterator[Measurement]:
    """Return the latencies and the throughput of every arm."""
    for arm, windows in found.items():
        for outstanding, window in windows.items():
            name, latencies = name_of(arm, outstanding), window.latencies
            yield Measurement(
                f"{name}: control latency, p50", statistics.median(latencies), "ms", higher_is_better=False,
                samples=tuple(latencies),
            )  # fmt: skip
            yield Measurement(f"{name}: p99", quantile(latencies, 0.99), "ms", higher_is_better=False)
            if window.rates:
                yield Measurement(
                    f"{name}: throughput", statistics.median(window.rates), "requests/s", samples=tuple(window.rates)
                )
                yield Measurement(f"{name}: RequestQueueSize", statistics.median(window.queued), "requests")
                yield Measurement(f"{name}: ControlPlaneRequestQueueSize", max(window.control_queued), "requests")


def comparisons(found: Mapping[str, Mapping[int, Window]]) -> Iterator[Measurement]:
    """Compare the arms; the rules hold where the outstanding requests fill a queue."""
    for outstanding in found[SHARED]:
        shared, own = found[SHARED][outstanding], found[LISTENER][outstanding]
        if not outstanding:
            continue
        full = outstanding == FULL
        p50 = statistics.median(shared.latencies)
        yield Measurement(
            f"{outstanding} outstanding: p50, shared queue to own listener", p50 / statistics.median(own.latencies),
            "times", must=FASTER if full else None, reference=PUBLISHED,
        )  # fmt: skip
        if full:
            yield Measurement(
                "    p50 of the shared queue, to outstanding requests times service",
                p50 / (outstanding * shared.service_ms),
                "times", within=(0.7, 1.3), reference="1 (Little's law)",
            )  # fmt: skip
            yield Measurement(
                "    p99 with own listener", quantile(own.latencies, 0.99), "ms",
                must=max(SLOWEST_MS, SERVICES * own.service_ms), higher_is_better=False,
            )  # fmt: skip
            yield Measurement(
                "    throughput, own listener to shared queue",
                statistics.median(own.rates) / statistics.median(shared.rates), "times", must=THROUGHPUT_KEPT,
            )  # fmt: skip
        if outstanding == BEYOND:
            rejected = statistics.median(found[REJECTED][outstanding].latencies)
            yield Measurement(
                f"{outstanding} outstanding: p50, rejected design to own listener",
                rejected / statistics.median(own.latencies), "times", must=FASTER / 2,
                reference="a full queue blocks it (CL-23)",
            )  # fmt: skip


def lost_records(one: Mapping[str, Losses], every: Mapping[str, Losses]) -> Iterator[Measurement]:
    """Return what moves lost, by arm."""
    for arm, found in one.items():
        shared, count = arm == SHARED, len(found.moves)
        yield Measurement(
            f"{arm}, acks=1: stale records, acknowledged and lost, a move", sum(found.stale) / count, "records",
            must=STALE_AT_LEAST if shared else STALE_AT_MOST, higher_is_better=shared, samples=tuple(found.stale),
        )  # fmt: skip
        yield Measurement(
            "    lost in all, with those that no follower had fetched, a move", found.lost / count, "records"
        )
        two = [one.two_leaders_s * MS for one in found.moves]
        yield Measurement(
            f"{arm}: two brokers lead, p50", statistics.median(two), "ms", higher_is_better=False, samples=tuple(two)
        )
    for arm, found in every.items():
        yield Measurement(
            f"{arm}, acks=all: acknowledged and lost", found.lost, "records", must=0, higher_is_better=False,
            reference=f"of {found.acknowledged} acknowledged",
        )  # fmt: skip


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: control latency by outstanding requests, of every arm."""
    known = by_name(measurements)
    series = []
    for arm in ARMS:
        for share in ("p50", "p99"):
            heading = "control latency, p50" if share == "p50" else share
            found = {
                outstanding: known[f"{name_of(arm, outstanding)}: {heading}"].measured
                for outstanding in OUTSTANDING
                if f"{name_of(arm, outstanding)}: {heading}" in known
            }
            series.append(Series(f"{arm}, {share}", tuple(found), tuple(found.values())))
    x, y = Axis("outstanding produce requests"), Axis("control latency", unit="ms", log=True)
    chart = Chart("Requests of a controller under a flood of produce requests", x, y, tuple(series), height=320)
    return {"control-plane-listener": svg(chart)}
