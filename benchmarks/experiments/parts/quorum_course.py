"""A simulated quorum that a client writes to at a steady rate, and what its nodes traced, with times.

The nodes are whole: controllers and one broker, through real frames, links with latency, disks whose syncs take time.
The client sets a configuration of one topic over and over, one request at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from squall.harness.scenario.admin import ClusterAdmin
from squall.harness.scenario.cluster import await_whole, create_topics
from squall.harness.simulation.world.kernel import Kernel
from squall.harness.simulation.world.links import Shape
from squall.harness.simulation.world.network import SimNetwork
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nemesis.core.ports import OperationRefused
from squall.nodes.node.node import Node
from squall.nodes.raft.config import KRAFT, Variant
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import NativeAdmin

SECOND = 1_000_000
TOPIC = "events"
READY_S = 30.0
SETTINGS = {"metadata.max.idle.interval.ms": "0"}
"""Without records of its own, every commit is one of the client's."""


@dataclass(frozen=True, slots=True)
class Traced:
    """One event that a node traced, at a time in microseconds."""

    at: int
    name: str
    fields: Mapping[str, object]

    def number(self, name: str) -> int:
        return int(str(self.fields[name]))


class TimedTrace:
    """Keeps the events of some names, with the time of the kernel."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.events: list[Traced] = []
        self.kernel: Kernel | None = None

    def event(self, name: str, **fields: object) -> None:
        if name in self.names and fields.get("topic") is None:
            self.events.append(Traced(0 if self.kernel is None else self.kernel.now, name, fields))

    def since(self, begin: int, name: str) -> Iterator[Traced]:
        return (one for one in self.events if one.at >= begin and one.name == name)


@dataclass
class Written:
    """What the client saw: when each operation began and how long it took, in seconds; -1 for one that failed."""

    begun: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(one < 0 for one in self.took)

    @property
    def longest(self) -> float:
        return max(self.took, default=0.0)


class QuorumCourse:
    """The cluster; `close` ends it."""

    def __init__(
        self,
        controllers: int,
        seed: object,
        variant: Variant = KRAFT,
        *,
        dynamic: bool = False,
        config: Mapping[str, str] | None = None,
        network: type[SimNetwork] = SimNetwork,
    ) -> None:
        self.trace = TimedTrace("state", "append", "high_watermark", "vote", "voters")
        shape = ClusterShape(
            controllers, 1, config={**SETTINGS, **(config or {})}, dynamic_voters=dynamic, variant=variant
        )
        self.world = SimWorld(shape, seed, topics={TOPIC: 1}, trace=self.trace, network=network)
        self.kernel = self.world.kernel
        self.trace.kernel = self.kernel
        self.names = {place.node_id: place.name for place in self.world.places}
        self.addresses = {place.name: place.address for place in self.world.places}
        self.operator: ClusterAdmin = self.world.operator()
        self.written = Written()

    def start(self) -> QuorumCourse:
        """Start all nodes, and create the topic."""
        self.world.start()
        self.kernel.run_until_complete(self._prepare())
        return self

    async def _prepare(self) -> None:
        admin = NativeAdmin(self.world.connector(), self.world.bootstrap())
        await await_whole(admin, 1, {}, READY_S)
        await create_topics(admin, (Topic(TOPIC, 1, 1),), READY_S)
        await await_whole(admin, 1, {TOPIC: 1}, READY_S)
        await admin.close()

    def run(self, seconds: float) -> None:
        self.kernel.run_for(int(seconds * SECOND))

    def write(self, seconds: float, every_s: float) -> None:
        """Run the client for so long; an operation that takes longer than its turn delays the next."""
        self.kernel.run_until_complete(self._write(self.kernel.now + int(seconds * SECOND), every_s))

    async def _write(self, until: int, every_s: float) -> None:
        number = 0
        while self.kernel.now < until:
            began = self.kernel.now
            number += 1
            try:
                await self.operator.set_config(TOPIC, "retention.ms", str(1_000_000 + number))
            except OperationRefused:
                took = -1.0
            else:
                took = (self.kernel.now - began) / SECOND
            self.written.begun.append(began / SECOND)
            self.written.took.append(took)
            await self.world.sleep(max(0.0, every_s - (self.kernel.now - began) / SECOND))

    @property
    def leader(self) -> str:
        """The host that leads the quorum."""
        for name, process in self.world.processes.items():
            if isinstance(process.node, Node) and process.node.raft.is_leader:
                return name
        raise AssertionError("no controller leads")

    @property
    def epoch(self) -> int:
        return max(one.node.raft.epoch for one in self.world.processes.values() if isinstance(one.node, Node))

    def followers(self) -> list[str]:
        return [one for one in self.world.cluster.controllers if one != self.leader]

    def slow(self, host: str, seconds: float) -> None:
        """Delay all that a host sends and receives."""
        for other, address in self.addresses.items():
            if other != host:
                shape = Shape(delay=int(seconds * SECOND))
                self.world.network.shape(self.addresses[host], address, "slow", shape)
                self.world.network.shape(address, self.addresses[host], "slow", shape)

    def cut(self, host: str, *others: str) -> None:
        """Let nothing pass between a host and some others."""
        for other in others:
            self.world.network.block(self.addresses[host], self.addresses[other], "cut")
            self.world.network.block(self.addresses[other], self.addresses[host], "cut")

    def heal(self) -> None:
        self.world.network.unblock("cut")

    def remove_voter(self, host: str) -> None:
        self.kernel.run_until_complete(self.operator.remove_voter(host))

    def close(self) -> None:
        self.kernel.run_until_complete(self.operator.close())
        self.world.switch_off()
