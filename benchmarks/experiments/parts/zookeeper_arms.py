"""The arms of the two-million experiment whose controller ZooKeeper elects: Apache Kafka's and ours.

Two processes may be the controller; the second takes over when the first is killed. The brokers are stubs
(`zookeeper_stubs.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from squall.benchmarks.experiments.parts.arm import Arm, say
from squall.benchmarks.experiments.parts.elected_process import ElectedProcess
from squall.benchmarks.experiments.parts.kafka_process import VERSION, KafkaProcess
from squall.benchmarks.experiments.parts.squall_process import SquallProcess
from squall.benchmarks.experiments.parts.zookeeper_client import REQUEST_MAX, Client
from squall.benchmarks.experiments.parts.zookeeper_stubs import (
    Layout,
    ZookeeperStub,
    quiet,
    request_shutdown,
    write_topics,
)
from squall.benchmarks.parts.quorum_scene import BROKERS, PARTITIONS_OF_A_TOPIC
from squall.harness.artifacts.zookeeper import AS_SHIPPED
from squall.harness.loopback.ensemble import Ensemble
from squall.harness.loopback.latency_relay import Address, LatencyRelay

WARM_UPS, ROUNDS_AT_MOST = 5, 5
"""Ten brokers in all: every third one, so that no topic-partition loses two replicas."""
KILLED = 1
"""The broker that is killed. It leads, and its topic-partitions keep a live replica after ten brokers have left."""
FIRST, SECOND = 100, 101
"""Broker ids of the processes that may be the controller."""
IN_FLIGHT = 10
"""Requests to ZooKeeper that are unanswered at a time; Kafka's default."""
QUIET_S, SHORT_QUIET_S, QUIET_S_OF_A_MILLION = 2.0, 0.5, 10.0
"""The controller has ended its work when it has sent nothing for so long; collecting garbage takes longer with more."""
POLL_S = 0.02
ROUND_TRIPS = 200
KAFKAS_ZOOKEEPER = "Apache Kafka 3.9.2, ZooKeeper"
MEGA, MILLISECONDS = 1_000_000, 1000


@dataclass(frozen=True)
class Conditions:
    """How the ensemble is set up. Times are in milliseconds."""

    controller_ms: int
    """So long ZooKeeper waits for a silent controller before it ends its session."""
    broker_ms: int
    servers: int = 1
    round_trip_ms: float = 0.0
    """By so much a round trip between a controller and ZooKeeper is lengthened."""

    def __str__(self) -> str:
        """What is not as by default, for the system's name."""
        servers = f", {self.servers} servers" if self.servers > 1 else ""
        return servers + (f", {self.round_trip_ms:g} ms away" if self.round_trip_ms else "")


DEFAULTS, EQUAL = Conditions(18_000, 18_000), Conditions(2_000, 9_000)
"""Kafka's default with ZooKeeper; and what a quorum has for a controller (`controller.quorum.fetch.timeout.ms`) and for
a broker (`broker.session.timeout.ms`)."""


def with_kafka(partitions: int, rounds: int, conditions: Conditions = DEFAULTS) -> Arm:
    """Measure Apache Kafka's ZooKeeper controller."""

    def process(broker: int, zookeeper: str) -> ElectedProcess:
        heap_mb = 1024 + partitions // 100
        return KafkaProcess(
            broker, zookeeper, heap_mb=heap_mb, request_max=REQUEST_MAX, session_ms=conditions.controller_ms
        )

    return with_zookeeper(KAFKAS_ZOOKEEPER, process, partitions, rounds, conditions)


def with_our_controller(
    partitions: int,
    rounds: int,
    conditions: Conditions = DEFAULTS,
    in_flight: int = IN_FLIGHT,
    *,
    short: bool = False,
) -> Arm:
    """Measure Squall's ZooKeeper controller, with so many requests to ZooKeeper at a time.

    The short form warms up nothing and kills no broker.
    """
    name = "Squall, ZooKeeper" if in_flight == IN_FLIGHT else f"Squall, ZooKeeper, {in_flight} in flight"

    def process(broker: int, zookeeper: str) -> ElectedProcess:
        return SquallProcess(broker, zookeeper, in_flight=in_flight, session_ms=conditions.controller_ms)

    return with_zookeeper(name, process, partitions, rounds, conditions, short=short)


def with_zookeeper(
    name: str,
    process: Callable[[int, str], ElectedProcess],
    partitions: int,
    rounds: int,
    conditions: Conditions = DEFAULTS,
    *,
    short: bool = False,
) -> Arm:
    """Measure two processes of which ZooKeeper elects one; the second takes over when the first is killed."""
    arm = Arm(f"{name}{conditions}", partitions, is_away=conditions.round_trip_ms > 0)
    heap = 512 + partitions // 200
    settings = {**AS_SHIPPED, "minSessionTimeout": str(conditions.controller_ms)}
    with ExitStack() as stack:
        ensemble = stack.enter_context(
            Ensemble(
                servers=conditions.servers, settings=settings, version=VERSION, heap_mb=heap, request_max=REQUEST_MAX
            )
        )
        ensemble.wait_until_ready()
        addresses = _as_far_away(stack, ensemble.addresses, conditions.round_trip_ms)
        arm.round_trips = asyncio.run(_round_trips(addresses))
        connect = ",".join(f"{host}:{port}" for host, port in addresses)
        controllers = [stack.enter_context(closing(process(one, connect))) for one in (FIRST, SECOND)]
        asyncio.run(_measure(ensemble, controllers, arm, _Course(partitions, rounds, conditions, short)))
    return arm


def _as_far_away(stack: ExitStack, servers: Sequence[Address], round_trip_ms: float) -> list[Address]:
    """Return the addresses by which a controller reaches these servers so far away."""
    if not round_trip_ms:
        return list(servers)
    return [
        stack.enter_context(LatencyRelay(one, round_trip_s=round_trip_ms / MILLISECONDS)).address for one in servers
    ]


async def _round_trips(servers: Sequence[Address]) -> list[float]:
    client = Client(servers)
    try:
        return await client.round_trips(ROUND_TRIPS)
    finally:
        client.close()


@dataclass(frozen=True)
class _Course:
    """How often, and with which time-outs. The short one warms up nothing and kills no broker."""

    partitions: int
    rounds: int
    conditions: Conditions
    is_short: bool

    @property
    def warm_ups(self) -> int:
        return 0 if self.is_short else WARM_UPS

    @property
    def quiet_s(self) -> float:
        return (SHORT_QUIET_S if self.is_short else QUIET_S) + QUIET_S_OF_A_MILLION * self.partitions / MEGA

    @property
    def patience_s(self) -> float:
        return 120 + self.partitions / 1000


async def _measure(ensemble: Ensemble, controllers: Sequence[ElectedProcess], arm: Arm, course: _Course) -> None:
    client = Client(ensemble.addresses)
    layout = Layout(arm.partitions, PARTITIONS_OF_A_TOPIC, BROKERS)
    stubs = [ZookeeperStub(broker, client) for broker in range(BROKERS)]
    try:
        say(f"{arm.system}: {arm.partitions} topic-partitions are written")
        began = time.monotonic()
        await write_topics(client, layout)
        arm.load = time.monotonic() - began
        await client.make("/brokers/ids")
        for stub in stubs:
            if stub.broker == KILLED:
                await stub.start_killable(ensemble.addresses, course.conditions.broker_ms)
            else:
                await stub.start()
        first, second = controllers
        first.start()
        await _logged(first, first.texts.serves or first.texts.elected, course.patience_s)
        await _heard(stubs, 0.0, course.patience_s)
        second.start()
        await _logged(second, second.texts.started, course.patience_s)
        await _quiet(ensemble, stubs, course)
        say("brokers leave")
        leavers = stubs[:: BROKERS // (WARM_UPS + ROUNDS_AT_MOST)][: course.warm_ups + course.rounds]
        for number, stub in enumerate(leavers):
            await _shut_down(ensemble, first, stub, stubs, arm, course, counts=number >= course.warm_ups)
        arm.memory |= {"controller": first.resident, "ZooKeeper": ensemble.servers[0].resident}
        if not course.is_short:
            say("a broker is killed")
            await _lose_a_broker(ensemble, stubs, arm, course)
        say("the controller is killed")
        await _fail_over(ensemble, first, second, stubs, arm, course)
    except BaseException:
        say("\n".join(one.end_of_log() for one in controllers))
        raise
    finally:
        for stub in stubs:
            await stub.close()
        client.close()


async def _quiet(ensemble: Ensemble, stubs: Sequence[ZookeeperStub], course: _Course) -> float:
    """Wait until the controller has ended its work. Returns when a broker last heard from it."""
    return await quiet(stubs, ensemble.received, course.quiet_s, course.patience_s)


async def _shut_down(
    ensemble: Ensemble,
    controller: ElectedProcess,
    stub: ZookeeperStub,
    stubs: list[ZookeeperStub],
    arm: Arm,
    course: _Course,
    *,
    counts: bool,
) -> None:
    began = time.monotonic()
    remaining = await request_shutdown(controller.address, stub, course.patience_s)
    answered = time.monotonic() - began
    assert remaining == 0, f"broker {stub.broker} still leads {remaining} topic-partitions"
    applied = await _quiet(ensemble, stubs, course) - began
    if counts:
        arm.answered.append(answered)
        arm.applied.append(max(answered, applied))
    await stub.leave()
    stubs.remove(stub)
    await stub.close()
    await _quiet(ensemble, stubs, course)


async def _lose_a_broker(ensemble: Ensemble, stubs: list[ZookeeperStub], arm: Arm, course: _Course) -> None:
    victim = next(one for one in stubs if one.broker == KILLED)
    stubs.remove(victim)
    killed = await victim.kill()
    arm.broker_failure_detected = await _heard(stubs, killed, course.patience_s) - killed
    arm.broker_failure = await _quiet(ensemble, stubs, course) - killed


async def _fail_over(
    ensemble: Ensemble,
    old: ElectedProcess,
    new: ElectedProcess,
    stubs: list[ZookeeperStub],
    arm: Arm,
    course: _Course,
) -> None:
    killed = old.kill()
    at = await _logged(new, new.texts.elected, course.patience_s, since=killed)
    arm.detected = at - killed
    ends = {
        stage: await _logged(new, text, course.patience_s, since=killed) for stage, text in new.texts.stages.items()
    }
    if new.texts.serves is None:
        ends["read from ZooKeeper"] = await _heard(stubs, at, course.patience_s)
    else:
        ends["decided"] = await _logged(new, new.texts.serves, course.patience_s, since=killed)
    for stage, ended in ends.items():
        arm.stages[stage] = ended - at
        at = ended
    arm.failover = at - killed
    applied = await _quiet(ensemble, stubs, course)
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
