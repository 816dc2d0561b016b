"""The arms of the two-million experiment whose metadata a quorum keeps: Apache Kafka's, of two versions, and ours.

Three controllers, and stub brokers that register, send heartbeats and fetch the metadata log
(`benchmarks/parts/quorum_scene.py`). Before the counted shutdowns others warm up Kafka's virtual machines, as in the
ZooKeeper arm.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median

from squall.benchmarks.controller import AS_SHIPPED, NO_SNAPSHOTS
from squall.benchmarks.experiments.parts.arm import Arm, say
from squall.benchmarks.experiments.parts.kafka_controllers import KafkaControllers, KafkaStub
from squall.benchmarks.experiments.parts.zookeeper_arms import WARM_UPS
from squall.benchmarks.parts.controller_processes import Controllers
from squall.benchmarks.parts.quorum_scene import CONTROLLERS, QuorumScene, Replaced
from squall.harness.loopback.loopback import Cluster

KAFKA_QUORUMS = ("kafka-3.9.2", "kafka-4.4.0")
"""The version that still has a ZooKeeper controller as well, and a present one; lists of jars."""
KILLED = 2
"""The index of the stub that is killed. It is none of `LEAVERS`."""
OUR_QUORUM = "Squall, quorum"
LEAVERS = slice(1, None, 3)
"""Every third broker may leave; not the first, whose stub applies."""


def with_quorum(partitions: int, rounds: int, *, short: bool = False) -> Arm:
    """Measure Squall's quorum of controllers. The short form kills no broker."""
    arm = Arm(OUR_QUORUM, partitions, has_quorum=True)
    with Cluster(brokers=0, controllers=CONTROLLERS, properties={**AS_SHIPPED, **NO_SNAPSHOTS}, trace=True) as cluster:
        controllers = Controllers(cluster)
        asyncio.run(_measure(QuorumScene(controllers), arm, rounds, 0, controllers.resident, short=short))
    return arm


def with_kafkas_quorum(version: str, partitions: int, rounds: int) -> Arm:
    """Measure the quorum of controllers of one version of Apache Kafka, named by its list of jars."""
    arm = Arm(f"Apache Kafka {version.removeprefix('kafka-')}, quorum", partitions, has_quorum=True)
    with KafkaControllers(version, CONTROLLERS, heap_mb=512 + partitions // 400) as controllers:
        try:
            asyncio.run(_measure(QuorumScene(controllers, KafkaStub), arm, rounds, WARM_UPS, controllers.resident))
        except BaseException:
            say(controllers.end_of_logs())
            raise
    return arm


async def _measure(
    scene: QuorumScene, arm: Arm, rounds: int, warm_ups: int, resident: Callable[[], list[int]], *, short: bool = False
) -> None:
    try:
        await scene.start()
        say(f"{arm.system}: {arm.partitions} topic-partitions are created")
        began = time.monotonic()
        await scene.create(arm.partitions)
        arm.load = time.monotonic() - began
        say("brokers leave")
        for number, stub in enumerate(scene.stubs[LEAVERS][: warm_ups + rounds]):
            found = await scene.shut_down(stub)
            if number >= warm_ups:
                arm.answered.append(found.committed)
                arm.applied.append(found.applied)
        arm.memory = {"controller": max(resident())}
        if not short:
            say("a broker is killed")
            lost = await scene.lose(scene.stubs[KILLED])
            arm.broker_failure_detected, arm.broker_failure = lost.fenced, lost.applied
        say("the active controller is killed, and starts again")
        await _fail_over(scene, arm, rounds)
    finally:
        await scene.close()


async def _fail_over(scene: QuorumScene, arm: Arm, rounds: int) -> None:
    """Kill the active controller so many times, and take the medians: an election may need a second round."""
    found: list[Replaced] = []
    for number in range(rounds):
        found.append(await scene.replace_active())
        if number + 1 < rounds:
            await scene.restart(found[-1].killed)
    arm.detected = median(one.stages.detect for one in found)
    arm.failovers = [one.applied for one in found]
    arm.failover = median(one.committed for one in found)
    arm.failover_applied = median(arm.failovers)
    arm.stages = {
        "elected": median(one.stages.elect - one.stages.detect for one in found),
        "replayed": median(one.stages.load - one.stages.elect for one in found),
    }
