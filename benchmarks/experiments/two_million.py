"""The experiment of the sources: controlled shutdown and controller failover, ZooKeeper beside the quorum controller.

Three systems with the same number of topic-partitions, each of three replicas over thirty stub brokers
(`parts/zookeeper_stubs.py`, `benchmarks/parts/stub_brokers.py`), on loopback:

* Apache Kafka 3.9.2 with its own ZooKeeper controller, on one real ZooKeeper server of the version it comes with;
* Squall's own ZooKeeper controller, on such a server, with Kafka's ten requests at a time;
* Squall's quorum of three controllers.

Measured are a broker's controlled shutdown, until the controller responds and until every broker that lives has the
changes, and SIGKILL of the active controller, until another one serves and until every broker has heard of it. Five
shutdowns before the counted ones warm up the virtual machine. Time-outs are the systems' defaults, and detection is a
figure of its own.

`--partitions` is the greatest number of topic-partitions; the smaller ones of 10 000, 50 000, 100 000, 300 000, 500 000
and 1 000 000 are measured before it. `--rounds` is the number of shutdowns that count. The chart has the figures of the
greatest number beside the published ones, which are for two million (docs/experiments.md).
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from squall.benchmarks.controller import AS_SHIPPED as QUORUM_SETTINGS
from squall.benchmarks.controller import CONTROLLERS, NO_SNAPSHOTS, Scene
from squall.benchmarks.controller import Figures as QuorumFigures
from squall.benchmarks.experiments.parts.bar_chart import Bar, Panel, bar_chart
from squall.benchmarks.experiments.parts.elected_process import ElectedProcess
from squall.benchmarks.experiments.parts.kafka_process import VERSION, KafkaProcess
from squall.benchmarks.experiments.parts.squall_process import SquallProcess
from squall.benchmarks.experiments.parts.zookeeper_stubs import (
    REQUEST_MAX,
    Client,
    Layout,
    ZookeeperStub,
    quiet,
    request_shutdown,
    write_topics,
)
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.artifacts.zookeeper import AS_SHIPPED
from squall.harness.loopback.ensemble import Ensemble
from squall.harness.loopback.loopback import Cluster

PARTITIONS, SHORT_PARTITIONS, ROUNDS = 10_000, 1_000, 3
SIZES = (10_000, 50_000, 100_000, 300_000, 500_000, 1_000_000)
BROKERS, PARTITIONS_OF_A_TOPIC = 30, 1_000
WARM_UPS, ROUNDS_AT_MOST = 5, 5
"""Ten brokers in all: every third one, so that no topic-partition loses two replicas."""
FIRST, SECOND = 100, 101
"""Broker ids of the processes that may be the controller."""
IN_FLIGHT = 10
"""Requests to ZooKeeper that are unanswered at a time; Kafka's default."""
QUIET_S, QUIET_S_OF_A_MILLION = 2.0, 10.0
"""The controller has ended its work when it has sent nothing for so long; collecting garbage takes longer with more."""
POLL_S = 0.02
MEGA = 1_000_000
HEADING = ": topic-partitions are there"
SHUTDOWN, FAILOVER = "controlled shutdown, every broker has the changes", "failover, every broker has heard of it"
"""Names of figures that the chart shows."""


@dataclass(frozen=True)
class Published:
    """Figures for two million topic-partitions (docs/experiments.md), in seconds."""

    zookeeper: float
    quorum: float

    @property
    def ratio(self) -> float:
        return self.zookeeper / self.quorum


PUBLISHED_SHUTDOWN, PUBLISHED_FAILOVER = Published(135, 32), Published(503, 37)
PUBLISHED_PARTITIONS = 2_000_000
COMPARED_FROM = 500_000
"""From this number on the ratios of the publication must be reached; below, fixed costs count."""
FITTED_FROM = 3
"""A line through fewer numbers of topic-partitions says nothing."""


@dataclass
class Arm:
    """The results of one system with one number of topic-partitions, in seconds."""

    system: str
    partitions: int
    load: float = 0.0
    answered: list[float] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)
    detected: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    """Of the failover, each since the one before."""
    failover: float = 0.0
    """SIGKILL until another controller serves."""
    failover_applied: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    """Resident bytes of each kind of process, at the end."""


# -- controllers that ZooKeeper elects ---------------------------------------------------------------------------------


def with_kafka(partitions: int, rounds: int) -> Arm:
    """Measure Apache Kafka's ZooKeeper controller."""

    def process(broker: int, zookeeper: str) -> ElectedProcess:
        return KafkaProcess(broker, zookeeper, heap_mb=1024 + partitions // 100, request_max=REQUEST_MAX)

    return with_zookeeper("Apache Kafka 3.9.2, ZooKeeper", process, partitions, rounds)


def with_our_controller(partitions: int, rounds: int, in_flight: int = IN_FLIGHT) -> Arm:
    """Measure Squall's ZooKeeper controller, with so many requests to ZooKeeper at a time."""
    name = "Squall, ZooKeeper" if in_flight == IN_FLIGHT else f"Squall, ZooKeeper, {in_flight} in flight"
    return with_zookeeper(name, lambda *where: SquallProcess(*where, in_flight=in_flight), partitions, rounds)


def with_zookeeper(name: str, process: Callable[[int, str], ElectedProcess], partitions: int, rounds: int) -> Arm:
    """Measure two processes of which ZooKeeper elects one; the second takes over when the first is killed."""
    arm = Arm(name, partitions)
    heap = 512 + partitions // 200
    with Ensemble(settings=AS_SHIPPED, version=VERSION, heap_mb=heap, request_max=REQUEST_MAX) as ensemble:
        ensemble.wait_until_ready()
        controllers = [process(one, ensemble.connect) for one in (FIRST, SECOND)]
        try:
            asyncio.run(_measure(ensemble, controllers, arm, rounds))
        finally:
            for one in controllers:
                one.close()
    return arm


async def _measure(ensemble: Ensemble, controllers: Sequence[ElectedProcess], arm: Arm, rounds: int) -> None:
    client = Client(ensemble.addresses)
    layout = Layout(arm.partitions, PARTITIONS_OF_A_TOPIC, BROKERS)
    stubs = [ZookeeperStub(broker, client) for broker in range(BROKERS)]
    patience_s = 120 + arm.partitions / 1000
    try:
        _say(f"{arm.system}: {arm.partitions} topic-partitions are written")
        began = time.monotonic()
        await write_topics(client, layout)
        arm.load = time.monotonic() - began
        await client.make("/brokers/ids")
        for stub in stubs:
            await stub.start()
        first, second = controllers
        first.start()
        await _logged(first, first.texts.serves or first.texts.elected, patience_s)
        await _heard(stubs, 0.0, patience_s)
        second.start()
        await _logged(second, second.texts.started, patience_s)
        await quiet(stubs, _quiet_s(arm), patience_s)
        _say("brokers leave")
        for number, stub in enumerate(stubs[:: BROKERS // (WARM_UPS + ROUNDS_AT_MOST)][: WARM_UPS + rounds]):
            await _shut_down(first, stub, stubs, arm, patience_s, counts=number >= WARM_UPS)
        arm.memory |= {"controller": first.resident, "ZooKeeper": ensemble.servers[0].resident}
        _say("the controller is killed")
        await _fail_over(first, second, stubs, arm, patience_s)
    except BaseException:
        _say("\n".join(one.end_of_log() for one in controllers))
        raise
    finally:
        for stub in stubs:
            await stub.close()
        client.close()


def _quiet_s(arm: Arm) -> float:
    return QUIET_S + QUIET_S_OF_A_MILLION * arm.partitions / MEGA


async def _shut_down(
    controller: ElectedProcess,
    stub: ZookeeperStub,
    stubs: list[ZookeeperStub],
    arm: Arm,
    patience_s: float,
    *,
    counts: bool,
) -> None:
    began = time.monotonic()
    remaining = await request_shutdown(controller.address, stub, patience_s)
    answered = time.monotonic() - began
    assert remaining == 0, f"broker {stub.broker} still leads {remaining} topic-partitions"
    applied = await quiet(stubs, _quiet_s(arm), patience_s) - began
    if counts:
        arm.answered.append(answered)
        arm.applied.append(max(answered, applied))
    await stub.leave()
    stubs.remove(stub)
    await stub.close()
    await quiet(stubs, _quiet_s(arm), patience_s)


async def _fail_over(
    old: ElectedProcess, new: ElectedProcess, stubs: list[ZookeeperStub], arm: Arm, patience_s: float
) -> None:
    killed = old.kill()
    at = await _logged(new, new.texts.elected, patience_s, since=killed)
    arm.detected = at - killed
    ends = {stage: await _logged(new, text, patience_s, since=killed) for stage, text in new.texts.stages.items()}
    if new.texts.serves is None:
        ends["read from ZooKeeper"] = await _heard(stubs, at, patience_s)
    else:
        ends["decided"] = await _logged(new, new.texts.serves, patience_s, since=killed)
    for stage, ended in ends.items():
        arm.stages[stage] = ended - at
        at = ended
    arm.failover = at - killed
    applied = await quiet(stubs, _quiet_s(arm), patience_s)
    arm.stages["sent to every broker"] = max(applied - at, 0.0)
    arm.failover_applied = max(applied, at) - killed


async def _heard(stubs: Sequence[ZookeeperStub], since: float, timeout_s: float) -> float:
    """Wait until the controller has sent something to a broker since a time. Returns when that was seen."""
    deadline = time.monotonic() + timeout_s
    while max(one.heard_at for one in stubs) <= since:
        assert time.monotonic() < deadline, f"no controller has sent anything in {timeout_s:.0f} s"
        await asyncio.sleep(POLL_S)
    return time.monotonic()


async def _logged(process: ElectedProcess, text: str, timeout_s: float, since: float = 0.0) -> float:
    return await asyncio.to_thread(process.wait_for, text, since=since, timeout_s=timeout_s)


# -- the quorum controller ---------------------------------------------------------------------------------------------


def with_quorum(partitions: int, rounds: int) -> Arm:
    """Measure Squall's quorum of controllers."""
    arm = Arm("Squall, quorum", partitions)
    with Cluster(
        brokers=0, controllers=CONTROLLERS, properties={**QUORUM_SETTINGS, **NO_SNAPSHOTS}, trace=True
    ) as cluster:
        asyncio.run(_measure_quorum(cluster, arm, rounds))
    return arm


async def _measure_quorum(cluster: Cluster, arm: Arm, rounds: int) -> None:
    scene, figures = Scene(cluster), QuorumFigures(arm.partitions)
    try:
        await scene.start()
        _say(f"{arm.system}: {arm.partitions} topic-partitions are created")
        began = time.monotonic()
        await scene.create(arm.partitions)
        arm.load = time.monotonic() - began
        _say("brokers leave")
        for stub in scene.stubs[-rounds:]:
            await scene.shut_down(stub, figures)
        arm.answered, arm.applied = figures.committed, figures.applied
        arm.memory = {"controller": max(scene.controllers.resident())}
        _say("the active controller is killed")
        await scene.fail_over(figures.by_default)
        (stages,) = figures.by_default.stages
        arm.detected = stages.detect
        arm.failover, arm.failover_applied = figures.by_default.committed[0], figures.by_default.applied[0]
        arm.stages = {"elected": stages.elect - stages.detect, "replayed": stages.load - stages.elect}
    finally:
        await scene.close()


# -- figures -----------------------------------------------------------------------------------------------------------


def figures_of(arm: Arm) -> Iterator[Measurement]:
    """Return the figures of one system with one number of topic-partitions."""
    name = f"{arm.system}, {_size(arm.partitions)}"
    yield _seconds(name + HEADING, [arm.load])
    yield _seconds("    controlled shutdown, the controller responds", arm.answered)
    yield _seconds(f"    {SHUTDOWN}", arm.applied)
    yield _seconds("    failover, SIGKILL until another controller serves", [arm.failover])
    yield _seconds("        detected", [arm.detected])
    for stage, seconds in arm.stages.items():
        yield _seconds(f"        {stage}", [seconds])
    yield _seconds(f"    {FAILOVER}", [arm.failover_applied])
    for kind, size in arm.memory.items():
        yield Measurement(f"    resident memory, {kind}", size / MEGA, "MB", higher_is_better=False)


def comparison(zookeeper: Arm, quorum: Arm) -> Iterator[Measurement]:
    """Compare both systems with one number of topic-partitions; the published ratios are the bar at a large one."""
    shutdown = statistics.median(zookeeper.applied) / statistics.median(quorum.applied)
    failover = zookeeper.failover_applied / quorum.failover_applied
    for name, ratio, published in (
        ("controlled shutdown", shutdown, PUBLISHED_SHUTDOWN),
        ("failover", failover, PUBLISHED_FAILOVER),
    ):
        must = round(published.ratio, 1) if zookeeper.partitions >= COMPARED_FROM else None
        yield Measurement(
            f"{_size(zookeeper.partitions)}: {name}, ZooKeeper to quorum", ratio, "times", must=must,
            reference=f"{published.ratio:.1f} times at {_size(PUBLISHED_PARTITIONS)} (published)",
        )  # fmt: skip


def fits(arms: Sequence[Arm]) -> Iterator[Measurement]:
    """Fit lines through ZooKeeper's figures over the number of topic-partitions, and extrapolate to the published one.

    From 1 000 000 on the line must be straight, and the extrapolation within a factor of two of what was published.
    """
    sizes = [float(one.partitions) for one in arms]
    if len(sizes) < FITTED_FROM:
        return
    large = max(sizes) >= 1_000_000
    for name, seconds, published in (
        ("controlled shutdown", [statistics.median(one.applied) for one in arms], PUBLISHED_SHUTDOWN),
        ("failover without detection", [one.failover_applied - one.detected for one in arms], PUBLISHED_FAILOVER),
    ):
        slope, intercept = statistics.linear_regression(sizes, seconds)
        straight = statistics.correlation(sizes, seconds) ** 2
        yield Measurement(f"ZooKeeper, {name}: r² of a line", straight, "", must=0.98 if large else None)
        expected = slope * PUBLISHED_PARTITIONS + intercept
        yield Measurement(
            f"    extrapolated to {_size(PUBLISHED_PARTITIONS)}: {name}", expected, "s", higher_is_better=False,
            reference=f"{published.zookeeper:.0f} s (published)",
            within=(published.zookeeper / 2, published.zookeeper * 2) if large else None,
        )  # fmt: skip


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart by its name: the figures of the greatest number measured beside the published ones, as SVG."""
    found: dict[str, dict[str, float]] = {}
    for one in measurements:
        if one.name.endswith(HEADING):
            found[one.name.removesuffix(HEADING)] = {}
        elif found:
            found[list(found)[-1]].setdefault(one.name.strip(), one.measured)
    greatest = list(found)[-1].rpartition(", ")[2]
    measured = [(name, figures) for name, figures in found.items() if name.endswith(f", {greatest}")]

    def panel(heading: str, figure: str, published: Published) -> Panel:
        size = _size(PUBLISHED_PARTITIONS)
        bars = [
            Bar(f"published, ZooKeeper, {size}", published.zookeeper, 0, published=True),
            Bar(f"published, quorum, {size}", published.quorum, 1, published=True),
        ]
        bars += [Bar(name, figures[figure], _series(name)) for name, figures in measured]
        return Panel(heading, "s", bars)

    return {
        "two-million": bar_chart(
            "ZooKeeper beside a quorum of controllers",
            [
                panel("controlled shutdown of a broker", SHUTDOWN, PUBLISHED_SHUTDOWN),
                panel("failover after SIGKILL of the controller", FAILOVER, PUBLISHED_FAILOVER),
            ],
            "until every broker has the changes; 30 stub brokers, default time-outs, one machine",
        )
    }


def _series(name: str) -> int:
    """The number of the chart's series that a system belongs to: ZooKeeper's, the quorum's, our own ZooKeeper one's."""
    if "quorum" in name:
        return 1
    return 0 if name.startswith("Apache") else 2


def _seconds(name: str, seconds: Sequence[float], must: float | None = None) -> Measurement:
    median = statistics.median(seconds) if seconds else float("nan")
    return Measurement(name, median, "s", must=must, higher_is_better=False, samples=tuple(seconds))


def _size(partitions: int) -> str:
    return f"{partitions:,}".replace(",", " ")


def _say(what: str) -> None:
    """Report progress: large numbers take minutes."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def run(partitions: int = PARTITIONS, rounds: int = ROUNDS, short: bool = False) -> Iterator[Measurement]:
    """Run the benchmark; at most five rounds, so that every topic-partition keeps two replicas."""
    if short:
        partitions, rounds = SHORT_PARTITIONS, 1
    rounds = min(rounds, ROUNDS_AT_MOST)
    measured: list[Arm] = []
    for size in [*(one for one in SIZES if one < partitions), partitions]:
        arms = []
        for measure in (with_kafka, with_our_controller, with_quorum):
            arms.append(measure(size, rounds))
            yield from figures_of(arms[-1])
        yield from comparison(arms[0], arms[-1])
        measured.append(arms[0])
    yield from fits(measured)
