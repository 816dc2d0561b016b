"""The experiment of the sources: controlled shutdown and controller failover, ZooKeeper beside the quorum controller.

Systems with the same number of topic-partitions, each of three replicas over thirty stub brokers
(`parts/zookeeper_stubs.py`, `benchmarks/parts/stub_brokers.py`), on loopback:

* Apache Kafka 3.9.2 with its own ZooKeeper controller, on one real ZooKeeper server of the version it comes with;
* Apache Kafka 3.9.2 and 4.4.0 with their own quorums of three controllers;
* Squall's own ZooKeeper controller, on such a server, with Kafka's ten requests at a time, and with one as before
  Kafka 1.1;
* Squall's quorum of three controllers.

Measured are a broker's controlled shutdown, until the controller responds and until every broker that lives has the
changes; SIGKILL of a broker (X30), until every other one has the changes; and SIGKILL of the active controller, until
another one serves and until every broker has heard of it. Five shutdowns before the counted ones warm up a virtual
machine. Time-outs are the systems' defaults, and detection is a figure of its own; with `--equal-timeouts` ZooKeeper's
sessions are as short as a quorum's time-outs, 2 s for a controller and 9 s for a broker. `--zookeeper-servers 3` makes
the ensemble one of three. `--zookeeper-round-trip 1` lengthens the round trip between a controller and its ensemble by
a millisecond (`harness/loopback/latency_relay.py`): on loopback it takes nearly no time, and a controller that waits
for ten requests at a time pays for it. Such a system is compared with published figures only, since no quorum's way is
lengthened.

`--partitions` is the greatest number of topic-partitions; the smaller ones of 10 000, 50 000, 100 000, 300 000, 500 000
and 1 000 000 are measured before it. `--system` chooses systems. One whose processes need more memory than the machine
has is left out at that number, with both figures. One that fails misses a rule, and the others are measured
nevertheless. `--rounds` is the number of shutdowns that count, and of a quorum's failovers. The chart has, of each
system, the figures of the greatest number that it was measured with, beside the published ones, which are for two
million (docs/experiments.md).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import psutil

from squall.benchmarks.experiments.parts.arm import Arm, say
from squall.benchmarks.experiments.parts.bar_chart import Bar, Panel, bar_chart
from squall.benchmarks.experiments.parts.quorum_arms import KAFKA_QUORUMS, OUR_QUORUM, with_kafkas_quorum, with_quorum
from squall.benchmarks.experiments.parts.zookeeper_arms import (
    DEFAULTS,
    EQUAL,
    KAFKAS_ZOOKEEPER,
    ROUNDS_AT_MOST,
    Conditions,
    with_kafka,
    with_our_controller,
)
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.errors import UsageError
from squall.harness.yaml_source import suggestion

PARTITIONS, SHORT_PARTITIONS, ROUNDS = 10_000, 1_000, 3
SIZES = (10_000, 50_000, 100_000, 300_000, 500_000, 1_000_000)
MEGA, GIGA = 10**6, 10**9
BYTES_WITHOUT_PARTITIONS = 3 * GIGA // 2
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
FLAT, COMMITTED_S, APPLIED_S = 1.5, 1.5, 3.0
"""Bars for our quorum with two million: its failover to that with the least number, and a shutdown in seconds."""
FITTED_FROM = 3
"""A line through fewer numbers of topic-partitions says nothing."""


# -- figures -----------------------------------------------------------------------------------------------------------


def figures_of(arm: Arm) -> Iterator[Measurement]:
    """Return the figures of one system with one number of topic-partitions."""
    name = f"{arm.system}, {_size(arm.partitions)}"
    yield _seconds(name + HEADING, [arm.load])
    if arm.round_trips:
        yield _seconds("    round trip from the controller to ZooKeeper", arm.round_trips)
    yield _seconds("    controlled shutdown, the controller responds", arm.answered)
    yield _seconds(f"    {SHUTDOWN}", arm.applied)
    yield _seconds("    failure of a broker, every other broker has the changes", [arm.broker_failure])
    yield _seconds("        its session has ended", [arm.broker_failure_detected])
    yield _seconds("    failover, SIGKILL until another controller serves", [arm.failover])
    yield _seconds("        detected", [arm.detected])
    for stage, seconds in arm.stages.items():
        yield _seconds(f"        {stage}", [seconds])
    yield _seconds(f"    {FAILOVER}", arm.failovers or [arm.failover_applied])
    for kind, size in arm.memory.items():
        yield Measurement(f"    resident memory, {kind}", size / MEGA, "MB", higher_is_better=False)


def comparisons(arms: Sequence[Arm]) -> Iterator[Measurement]:
    """Compare Kafka's ZooKeeper controller, if it was measured on loopback, with each quorum: Kafka's ones and ours."""
    for zookeeper in (one for one in arms if one.system.startswith(KAFKAS_ZOOKEEPER) and not one.is_away):
        for quorum in arms:
            if quorum.has_quorum:
                yield from comparison(zookeeper, quorum)


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
            f"{_size(zookeeper.partitions)}: {name}, {zookeeper.system} to {quorum.system}", ratio, "times", must=must,
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


def rules_of_our_quorum(arms: Sequence[Arm]) -> Iterator[Measurement]:
    """Return the figures of our quorum that have a bar with two million topic-partitions.

    `arms` are its own, by growing number.
    """
    if len(arms) < 2:
        return
    least, greatest = arms[0], arms[-1]
    published = greatest.partitions >= PUBLISHED_PARTITIONS
    size = _size(greatest.partitions)
    flat = greatest.failover_applied / least.failover_applied
    yield Measurement(
        f"{greatest.system}: failover, {size} to {_size(least.partitions)}", flat, "times",
        must=FLAT if published else None, higher_is_better=False,
    )  # fmt: skip
    for what, seconds, bar in (
        ("is committed", greatest.answered, COMMITTED_S),
        ("has reached every broker", greatest.applied, APPLIED_S),
    ):
        yield _seconds(f"{greatest.system}, {size}: a controlled shutdown {what}", seconds, bar if published else None)


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart by its name: each system's figures of its greatest number beside the published ones, as SVG."""
    found: dict[str, dict[str, float]] = {}
    for one in measurements:
        if one.name.endswith(HEADING):
            found[one.name.removesuffix(HEADING)] = {}
        elif found:
            found[list(found)[-1]].setdefault(one.name.strip(), one.measured)
    greatest = {name.rpartition(", ")[0]: name for name in found}
    measured = [(name, found[name]) for name in greatest.values()]

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


@dataclass(frozen=True)
class System:
    """One system: how it is measured, and what its processes need."""

    measure: Callable[[int, int, Conditions], Arm]
    """With so many topic-partitions and rounds; the conditions are those of ZooKeeper."""
    bytes_of_a_partition: int
    """Memory that all its processes together need for one topic-partition (docs/experiments.md)."""
    has_zookeeper: bool = True

    def needs(self, partitions: int) -> int:
        """Bytes of memory, those of processes without a topic-partition included."""
        return BYTES_WITHOUT_PARTITIONS + partitions * self.bytes_of_a_partition


def _without_zookeeper(measure: Callable[[int, int], Arm], bytes_of_a_partition: int) -> System:
    return System(
        lambda partitions, rounds, _conditions: measure(partitions, rounds), bytes_of_a_partition, has_zookeeper=False
    )


SYSTEMS: dict[str, System] = {
    "kafka-zookeeper": System(with_kafka, 14_000),
    **{f"{one}-quorum": _without_zookeeper(partial(with_kafkas_quorum, one), 4_500) for one in KAFKA_QUORUMS},
    "squall-zookeeper": System(with_our_controller, 7_000),
    "squall-zookeeper-sync": System(partial(with_our_controller, in_flight=1), 7_000),
    "squall-quorum": _without_zookeeper(with_quorum, 1_200),
}
"""By the name that `--system` takes; the first is what the quorums are compared with."""


def chosen(names: Sequence[str]) -> dict[str, System]:
    """Return the systems of these names, all if there are none. Raises UsageError for a name that is unknown."""
    for name in names:
        if name not in SYSTEMS:
            raise UsageError(f"--system={name}: no such system{suggestion(name, list(SYSTEMS))}")
    return {name: system for name, system in SYSTEMS.items() if not names or name in names}


def refuse_unused_conditions(systems: Mapping[str, System], conditions: Conditions) -> None:
    """Raise UsageError if a condition of ZooKeeper is asked for, and no system has ZooKeeper."""
    if any(one.has_zookeeper for one in systems.values()):
        return
    for option, value, default in (
        ("--zookeeper-servers", conditions.servers, DEFAULTS.servers),
        ("--zookeeper-round-trip", conditions.round_trip_ms, DEFAULTS.round_trip_ms),
    ):
        if value != default:
            having = [name for name, one in SYSTEMS.items() if one.has_zookeeper]
            raise UsageError(
                f"{option}={value}: none of the chosen systems has ZooKeeper ({', '.join(systems)})",
                remedy=f"leave it out, or add one that has: {', '.join(having)}",
            )


def run(
    partitions: int = PARTITIONS,
    rounds: int = ROUNDS,
    short: bool = False,
    system: Sequence[str] = (),
    equal_timeouts: bool = False,
    zookeeper_servers: int = 1,
    zookeeper_round_trip: float = 0.0,
) -> Iterator[Measurement]:
    """Run the benchmark; at most five rounds, so that every topic-partition keeps two replicas.

    `zookeeper_round_trip` is in milliseconds.
    """
    if short:
        partitions, rounds = SHORT_PARTITIONS, 1
    rounds = min(rounds, ROUNDS_AT_MOST)
    timeouts = EQUAL if equal_timeouts else DEFAULTS
    conditions = replace(timeouts, servers=zookeeper_servers, round_trip_ms=zookeeper_round_trip)
    systems = chosen(system)
    refuse_unused_conditions(systems, conditions)
    measured: list[Arm] = []
    for size in [*(one for one in SIZES if one < partitions), partitions]:
        arms = []
        for name, one in systems.items():
            if (available := psutil.virtual_memory().available) < one.needs(size):
                yield left_out(name, size, one.needs(size), available)
                continue
            try:
                arms.append(one.measure(size, rounds, conditions))
            except Exception as error:
                yield failed(name, size, error)
                continue
            yield from figures_of(arms[-1])
        yield from comparisons(arms)
        measured += arms
    yield from fits([one for one in measured if one.system.startswith(KAFKAS_ZOOKEEPER)])
    yield from rules_of_our_quorum([one for one in measured if one.system == OUR_QUORUM])


def failed(name: str, partitions: int, error: Exception) -> Measurement:
    """Return the line about a system whose measurement has failed: a missed rule. The others go on."""
    say(f"{name}: {partitions} topic-partitions failed: {error!r}")
    return Measurement(f"{name}, {_size(partitions)}: measured without an error", 0, "", must=1, reference=repr(error))


def left_out(name: str, partitions: int, needed: int, available: int) -> Measurement:
    """Return the line about a system that has no room on this machine with so many topic-partitions."""
    say(f"{name}: {partitions} topic-partitions need {needed / GIGA:.0f} GB, {available / GIGA:.0f} GB are available")
    return Measurement(
        f"{name}, {_size(partitions)}: left out, needs memory", needed / GIGA, "GB", higher_is_better=False,
        reference=f"{available / GIGA:.0f} GB available",
    )  # fmt: skip
