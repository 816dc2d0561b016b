"""The quorum controller at scale: three controllers, thirty stub brokers, a chosen number of topic-partitions.

Three controllers run as processes on loopback; the brokers are stubs (`_stub_brokers`), because two million
topic-partitions of three replicas are six million logs. They run in this process: one decodes and applies committed
records, the others count bytes. `--partitions` is the number of topic-partitions, in topics of a thousand; `--rounds`
the number of repetitions.

In this order, on one cluster with Kafka's default timings:

1. topics are created; memory of each controller in steady state;
2. brokers leave by controlled shutdown: until the resulting changes are committed on a majority (the heartbeat gets its
   response), until they are applied (by the stub that applies; all others have received them), until the broker may
   stop (all others have reported that they know);
3. the controllers are restarted, one after another, from the log alone, and from now on make snapshots;
4. snapshots are written while the log grows: time of each, the longest wait for a response of any controller meanwhile,
   the peak memory;
5. SIGKILL of the active controller until the next one has committed something (a block of producer ids), in stages; the
   killed one starts again, from its snapshot;
6. the same with short timeouts (fetch 300 ms, election 200 ms), and both on a cluster of ten thousand.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from squall.benchmarks.parts.controller_processes import Controllers, LoopProbe, Stages, sampled_peak
from squall.benchmarks.parts.measurement import Measurement
from squall.benchmarks.parts.quorum_scene import CONTROLLERS, QuorumScene
from squall.benchmarks.parts.stub_brokers import Stub
from squall.harness.loopback.loopback import Cluster

PARTITIONS, SMALL = 10_000, 10_000
ROUNDS, ROUNDS_AT_MOST = 3, 20
MEGA = 1_000_000
AS_SHIPPED = {
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
}
"""Kafka's defaults, where the loopback cluster has other values."""
SHORT = {"controller.quorum.election.timeout.ms": "200", "controller.quorum.fetch.timeout.ms": "300"}
NO_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": str(2**31 - 1),
    "metadata.log.max.snapshot.interval.ms": "0",
}


def snapshots_every_s(partitions: int) -> int:
    """Seconds between snapshots of each controller; writing one takes less than half of that time."""
    return 2 if partitions <= 100_000 else 12


@dataclass
class Failovers:
    """Seconds after each SIGKILL: the stages, the first commit, and its application by the stub that applies."""

    stages: list[Stages] = field(default_factory=list)
    committed: list[float] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)


@dataclass
class Figures:
    """The results, in seconds; memory in bytes, of each controller."""

    partitions: int
    create: float = 0.0
    create_processor: float = 0.0
    resident: list[int] = field(default_factory=list)
    resident_later: list[int] = field(default_factory=list)
    committed: list[float] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)
    let_go: list[float] = field(default_factory=list)
    replay_log: list[float] = field(default_factory=list)
    snapshots: list[float] = field(default_factory=list)
    pause: float = 0.0
    snapshot_peak: int = 0
    loads: list[float] = field(default_factory=list)
    by_default: Failovers = field(default_factory=Failovers)
    by_short: Failovers = field(default_factory=Failovers)


class Scene(QuorumScene):
    """Our controllers with their stubs, for one measurement."""

    def __init__(self, cluster: Cluster) -> None:
        self.controllers = Controllers(cluster)
        super().__init__(self.controllers)

    async def leave(self, stub: Stub, figures: Figures) -> None:
        """Shut down one broker and note the times."""
        found = await self.shut_down(stub)
        figures.committed.append(found.committed)
        figures.applied.append(found.applied)
        figures.let_go.append(found.let_go)

    # -- snapshots ------------------------------------------------------------------------------------------------

    async def watch_snapshots(self, rounds: int, figures: Figures) -> None:
        """Wait until so many snapshots have been written, committing something meanwhile."""
        began = time.monotonic()
        ended = asyncio.Event()
        peak = asyncio.create_task(sampled_peak(self.controllers, ended))
        with LoopProbe(self.controllers.addresses) as probe:
            deadline = began + snapshots_every_s(figures.partitions) * (rounds / CONTROLLERS + 2) * 3
            while len(figures.snapshots) < rounds and time.monotonic() < deadline:
                await self.commit_something()
                await asyncio.sleep(0.2)
                figures.snapshots = self._snapshots_since(began)
        ended.set()
        figures.pause, figures.snapshot_peak = probe.longest_s, await peak

    def _snapshots_since(self, began: float) -> list[float]:
        took = []
        for controller in self.controllers.ids:
            begun: float | None = None
            for one in self.controllers.happened(controller, began, "snapshot_begun", "snapshot"):
                if one.name == "snapshot_begun":
                    begun = one.at
                elif begun is not None:
                    took.append(one.at - begun)
        return took

    # -- failover -------------------------------------------------------------------------------------------------

    async def fail_over(self, found: Failovers) -> float:
        """Kill the active controller, wait for the next commit, start it again. Returns the seconds of its start."""
        one = await self.replace_active()
        found.committed.append(one.committed)
        found.applied.append(one.applied)
        found.stages.append(one.stages)
        return await self.controllers.start(one.killed)

    async def reconfigure(self, properties: Mapping[str, str]) -> list[float]:
        """Restart all with other settings, the active one last. Returns the seconds of each."""
        self.controllers.configure(properties)
        await self.commit_something()
        active = self.controllers.ids[self.connection.at]
        order = [*(one for one in self.controllers.ids if one != active), active]
        return [await self.controllers.restart(one) for one in order]


def _say(what: str) -> None:
    """Report progress: large sizes take minutes."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


async def measure(cluster: Cluster, partitions: int, rounds: int) -> Figures:
    """Measure everything on one cluster."""
    scene = Scene(cluster)
    figures = Figures(partitions)
    try:
        await scene.start()
        await _create(scene, figures)
        _say("brokers leave")
        for stub in scene.stubs[-rounds:]:
            await scene.leave(stub, figures)
        figures.resident_later = scene.controllers.resident()
        _say("controllers start with the log alone")
        figures.replay_log = await scene.reconfigure(
            {"metadata.log.max.snapshot.interval.ms": str(snapshots_every_s(partitions) * 1000)}
        )
        _say("snapshots are written")
        await scene.watch_snapshots(rounds, figures)
        _say("controllers start from snapshots")
        figures.loads += await scene.reconfigure(NO_SNAPSHOTS)
        await _fail_over(scene, rounds, figures)
    finally:
        await scene.close()
    return figures


async def measure_failover(cluster: Cluster, partitions: int, rounds: int) -> Figures:
    """Measure failover only."""
    scene = Scene(cluster)
    figures = Figures(partitions)
    try:
        await scene.start()
        await _create(scene, figures)
        await _fail_over(scene, rounds, figures)
    finally:
        await scene.close()
    return figures


async def _create(scene: Scene, figures: Figures) -> None:
    _say(f"{figures.partitions} topic-partitions are created")
    began, processor = time.monotonic(), scene.controllers.processor_s()
    await scene.create(figures.partitions)
    figures.create = time.monotonic() - began
    figures.create_processor = scene.controllers.processor_s() - processor
    figures.resident = scene.controllers.resident()


async def _fail_over(scene: Scene, rounds: int, figures: Figures) -> None:
    _say("active controllers are killed, Kafka's timeouts")
    for _ in range(rounds):
        figures.loads.append(await scene.fail_over(figures.by_default))
    _say("the same, short timeouts")
    figures.loads += await scene.reconfigure(SHORT)
    for _ in range(rounds):
        figures.loads.append(await scene.fail_over(figures.by_short))


# -- figures ----------------------------------------------------------------------------------------------------------


def measurements(figures: Figures, small: Figures) -> list[Measurement]:
    size = f"{figures.partitions:,}".replace(",", " ")
    return [
        _seconds(f"create {size} topic-partitions", [figures.create]),
        _seconds("    processor time of the three controllers", [figures.create_processor]),
        _memory("resident memory of the largest controller", figures.resident, 550),
        _memory("    after the brokers have left", figures.resident_later),
        _memory("    at most while snapshots are written", [figures.snapshot_peak]),
        *_spread("controlled shutdown of a broker, committed", figures.committed, 1.5),
        *_spread("controlled shutdown of a broker, applied", figures.applied, 3.0),
        *_spread("    and until it may stop", figures.let_go),
        *_spread("a snapshot is written", figures.snapshots, 6.0),
        _seconds("    longest wait for an answer meanwhile", [figures.pause], 0.1),
        *_spread("start with the log alone", figures.replay_log),
        *_spread("start from a snapshot, until it is loaded", figures.loads, 8.0),
        *_failovers(f"failover at {size}, Kafka's timeouts", figures.by_default, 2.5),
        *_failovers(f"failover at {size}, short timeouts", figures.by_short, 0.8),
        *_failovers("failover at 10 000, Kafka's timeouts", small.by_default),
        *_failovers("failover at 10 000, short timeouts", small.by_short),
        Measurement(
            f"failover at {size} to that at 10 000, Kafka's timeouts",
            statistics.median(figures.by_default.committed) / statistics.median(small.by_default.committed),
            "times", must=1.5, higher_is_better=False,
        ),
    ]  # fmt: skip


def _failovers(name: str, found: Failovers, must: float | None = None) -> list[Measurement]:
    return [
        *_spread(f"{name}: SIGKILL to the next commit", found.committed, must),
        _seconds("    detected", [one.detect for one in found.stages]),
        _seconds("    elected", [one.elect for one in found.stages]),
        _seconds("    all replayed, decides", [one.load for one in found.stages]),
        _seconds("    applied by the stub", found.applied),
    ]


def _spread(name: str, seconds: Sequence[float], must: float | None = None) -> list[Measurement]:
    """Median and maximum."""
    return [_seconds(name, seconds, must), _seconds("    the longest of these", [max(seconds, default=float("nan"))])]


def _seconds(name: str, seconds: Sequence[float], must: float | None = None) -> Measurement:
    median = statistics.median(seconds) if seconds else float("nan")
    return Measurement(name, median, "s", must=must, higher_is_better=False, samples=tuple(seconds))


def _memory(name: str, resident: Sequence[int], must: float | None = None) -> Measurement:
    samples = tuple(one / MEGA for one in resident)
    return Measurement(name, max(samples), "MB", must=must, higher_is_better=False, samples=samples)


def run(partitions: int = PARTITIONS, rounds: int = ROUNDS) -> list[Measurement]:
    """Run the benchmark; at most twenty rounds, since ten brokers must stay."""
    rounds = min(rounds, ROUNDS_AT_MOST)
    settings = {**AS_SHIPPED, **NO_SNAPSHOTS}
    with Cluster(brokers=0, controllers=CONTROLLERS, properties=settings, trace=True) as cluster:
        large = asyncio.run(measure(cluster, partitions, rounds))
    if partitions == SMALL:
        return measurements(large, large)
    with Cluster(brokers=0, controllers=CONTROLLERS, properties=settings, trace=True) as cluster:
        return measurements(large, asyncio.run(measure_failover(cluster, min(SMALL, partitions), rounds)))
