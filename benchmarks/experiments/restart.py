"""How long a node takes to restart, by the length of the metadata log, with and without snapshots (SN-07).

Three controllers and one broker as processes on loopback. A client changes the configurations of a few topics over and
over, so that the log grows and the state does not. At three lengths of the log the active controller, a standby and the
broker are killed and started again, one after another: nine restarts without snapshots, then nine on a cluster whose
nodes make one each second. A restart ends when the node has applied what was committed when it began, and starts with
Python itself: the shortest log is what that costs.

The source claims that snapshots make restarts shorter. The rule: with the longest log, each role restarts faster with
snapshots, and hardly slower than with the shortest log.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from squall.benchmarks.controller import AS_SHIPPED, NO_SNAPSHOTS
from squall.benchmarks.experiments.parts.picture import by_name, svg
from squall.benchmarks.parts.controller_processes import Controllers
from squall.benchmarks.parts.measurement import Measurement
from squall.benchmarks.parts.stub_brokers import ControllerConnection, until
from squall.harness.loopback.loopback import Cluster
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.schema import Message
from squall.results.charts.chart import Axis, Chart, Series

LENGTHS, LENGTHS_SHORT = (1_000, 30_000, 100_000), (500, 2_000)
TOPICS = 40
SETTINGS = ("retention.ms", "segment.ms", "retention.bytes", "segment.bytes", "max.message.bytes", "flush.messages",
            "flush.ms", "index.interval.bytes", "retention.ms", "segment.ms")  # fmt: skip
TOPIC_RESOURCE, SET = 2, 0
ROLES = ("active controller", "standby", "broker")
BROKER = 1
EVERY_SECOND = {"metadata.log.max.snapshot.interval.ms": "1000", "metadata.max.retention.bytes": "4096"}
SETTLE_S = 3.0
"""Several times the interval of snapshots."""
SHARE_OF_LONGEST = 1.5


@dataclass
class Restarts:
    """Seconds by role, one for each length of the log."""

    lengths: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {role: [] for role in ROLES})


class Scene:
    """The cluster, and the client that makes the log longer."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.controllers = Controllers(cluster)
        self.connection = ControllerConnection(self.controllers.addresses, "bench")
        self._value = 1_000_000

    async def start(self) -> None:
        await asyncio.to_thread(self.cluster.wait_until_ready)
        topics = [CreatableTopic(name=f"t{one}", num_partitions=1, replication_factor=1) for one in range(TOPICS)]
        request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        await self.connection.until(lambda: request, _created)

    async def grow(self, length: int) -> None:
        """Change settings until the log is so long."""
        while await self._applied(self._active) < length:
            self._value += 1
            resources = [
                AlterConfigsResource(
                    resource_type=TOPIC_RESOURCE,
                    resource_name=f"t{topic}",
                    configs=[AlterableConfig(name=name, config_operation=SET, value=str(self._value))
                             for name in dict.fromkeys(SETTINGS)],
                )
                for topic in range(TOPICS)
            ]  # fmt: skip
            request = IncrementalAlterConfigsRequest(resources=resources)
            await self.connection.until(lambda request=request: request, _altered)  # type: ignore[misc]

    @property
    def _active(self) -> int:
        return self.controllers.ids[self.connection.at]

    async def _applied(self, controller: int) -> float:
        return await self.controllers.applied(controller)

    async def restart(self, role: str) -> float:
        """Kill a node and start it; seconds until it has applied what its leader had."""
        if role == "broker":
            return await self._restart_broker()
        active = self._active
        standbys = [one for one in self.controllers.ids if one != active]
        node = active if role == ROLES[0] else standbys[0]
        self.controllers.node(node).kill()
        if node == active:
            await self.grow(0)
            await self._touch()
        return await self.controllers.start(node)

    async def _touch(self) -> None:
        """Commit something, which finds the new active controller."""
        self._value += 1
        config = AlterableConfig(name="retention.ms", config_operation=SET, value=str(self._value))
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="t0", configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        await self.connection.until(lambda: request, _altered)

    async def _restart_broker(self) -> float:
        node = self.cluster.nodes[BROKER]
        goal = await self._applied(self._active)
        await asyncio.to_thread(node.stop)
        began = time.monotonic()
        node.start()
        found: list[float] = []

        def applied() -> bool:
            found[:] = [at for at, offset in _applied_in(node.trace_path.read_text()) if at >= began and offset >= goal]
            return bool(found)

        await until("the broker has applied the log", applied, 120.0, every_s=0.1)
        return found[0] - began


def _applied_in(trace: str) -> Iterator[tuple[float, int]]:
    for line in trace.splitlines():
        if '"event": "metadata_applied"' in line and line.endswith("}"):
            fields = json.loads(line)
            yield fields["t"] / 1e6, int(fields["offset"])


def _created(answer: Message) -> bool:
    assert isinstance(answer, CreateTopicsResponse)
    return all(one.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) for one in answer.topics)


def _altered(answer: Message) -> bool:
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return all(one.error_code == ErrorCode.NONE for one in answer.responses)


async def measured(cluster: Cluster, lengths: Sequence[int]) -> Restarts:
    """Restart each role at each length."""
    scene, found = Scene(cluster), Restarts()
    try:
        await scene.start()
        for length in lengths:
            await scene.grow(length)
            await asyncio.sleep(SETTLE_S)
            found.lengths.append(length)
            for role in ROLES:
                found.seconds[role].append(await scene.restart(role))
    finally:
        scene.connection.close()
    return found


def run(short: bool = False) -> Iterator[Measurement]:
    """Measure without snapshots, then with them."""
    lengths = LENGTHS_SHORT if short else LENGTHS
    found: dict[str, Restarts] = {}
    for arm, settings in (("no snapshots", NO_SNAPSHOTS), ("snapshots", EVERY_SECOND)):
        properties = {**AS_SHIPPED, **settings}
        with Cluster(brokers=1, controllers=3, properties=properties, trace=True) as cluster:
            found[arm] = asyncio.run(measured(cluster, lengths))
        for role in ROLES:
            for length, seconds in zip(lengths, found[arm].seconds[role], strict=True):
                yield Measurement(f"{role}, {length} records, {arm}", seconds, "s", samples=(seconds,))
    yield from compared(found["no snapshots"], found["snapshots"], enforced=not short)


def compared(without: Restarts, with_snapshots: Restarts, *, enforced: bool) -> Iterator[Measurement]:
    """The longest log with snapshots beside the same without, and beside the shortest. Short logs prove nothing."""
    for role in ROLES:
        plain, snapshot = without.seconds[role], with_snapshots.seconds[role]
        yield Measurement(
            f"{role}, longest log: snapshots beside none", snapshot[-1] / plain[-1], "times",
            must=1.0 if enforced else None, higher_is_better=False, reference="shorter restarts (source)",
        )  # fmt: skip
    flat = statistics.median(one[-1] / one[0] for one in with_snapshots.seconds.values())
    yield Measurement("with snapshots, longest log beside shortest", flat, "times",
                      must=SHARE_OF_LONGEST if enforced else None, higher_is_better=False,
                      reference="does not grow with the log")  # fmt: skip


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: seconds over the length of the log, a line for each role and arm."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for name, one in by_name(measurements).items():
        role, *rest = name.split(", ")
        if len(rest) == 2 and rest[0].endswith(" records"):
            lines.setdefault(f"{role}, {rest[1]}", []).append((int(rest[0].split()[0]), one.measured))
    series = tuple(
        Series(name, [length for length, _ in points], [seconds for _, seconds in points])
        for name, points in lines.items()
    )
    x = Axis("records in the metadata log")
    chart = Chart("Restart by the length of the metadata log", x, Axis("restart", unit="s"), series, height=320)
    return {"restart": svg(chart)}
