"""The time that clients lose because a broker names a wrong leader, with ZooKeeper and with a quorum (ZK-10).

Six simulated brokers and one topic of thirty topic-partitions with three replicas, once with a controller that
ZooKeeper elects and once with a quorum; time-outs are Kafka's defaults, and with ZooKeeper once more those of a quorum.
Every 20 ms an operation begins: a client asks a random broker of its list for the leader of a random topic-partition
(Metadata), and that leader for its log's end (ListOffsets), which only a leader answers. A broker that refuses the
connection when it is asked is passed over. After a wrong answer the client tries another random broker 50 ms later,
until an answer is right; it waits a second for each answer. Wrong are

* an error: the broker that was named does not lead, or refuses the connection, or none was named;
* silence: a broker does not answer in time.

Three things happen, each to a cluster of its own: a broker that leads is shut down in a controlled way; it is killed;
and a broker is cut off from all controllers for thirty seconds while another one that leads is shut down, so that it
goes on naming a leader that is none any more. With a quorum that means: from the controllers' hosts. With ZooKeeper:
from the broker that is the controller, not from the ensemble, since brokers learn who leads by its requests alone.

The source says that with ZooKeeper a client may ask a broker with old metadata and time out. It gives no figure. The
rule: clients lose at least as much time with ZooKeeper where a broker is killed, by the default time-outs; and where
one is cut off, also if a broker's session with ZooKeeper lasts no longer than one with a quorum.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from squall.benchmarks.experiments.parts.picture import bars, by_name
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.scenario.cluster import await_whole, create_topics
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import Address, NativeAdmin
from squall.workloads.clients.native.connection import KafkaConnection

WITH_ZOOKEEPER, EQUAL, WITH_QUORUM = "ZooKeeper", "ZooKeeper, 9 s", "quorum"
SESSIONS: dict[str, dict[str, str]] = {
    WITH_ZOOKEEPER: {"zookeeper.session.timeout.ms": "18000"},
    EQUAL: {"zookeeper.session.timeout.ms": "9000"},
    WITH_QUORUM: {"broker.session.timeout.ms": "9000"},
}
"""Kinds of controller, and how long a silent broker counts: Kafka's defaults, and the quorum's with ZooKeeper."""
BROKERS, TOPIC, PARTITIONS, REPLICAS = 6, "events", 30, 3
SECOND = 1_000_000
READY_S, CALM_S, EVENT_S, CUT_S, CUT_BEFORE_S = 60.0, 2.0, 40.0, 30.0, 1.0
EVERY_S, PATIENCE_S, PAUSE_S = 0.02, 1.0, 0.05
METADATA_VERSION, LIST_OFFSETS_VERSION = 9, 5
LATEST = -1
SEEDS, SEEDS_SHORT = 3, 1
SHUT_DOWN, KILLED, CUT_OFF = "controlled shutdown", "broker killed", "a broker cut off from the controller"
COMPARED = {SHUT_DOWN: (), KILLED: (WITH_ZOOKEEPER,), CUT_OFF: (WITH_ZOOKEEPER, EQUAL)}
"""With which time-outs clients must lose at least as much as with a quorum. After a kill it is the time-outs alone."""
PUBLISHED = "may time out with ZooKeeper (source, no figure)"


@dataclass
class Seen:
    """What the clients saw of one event."""

    operations: int = 0
    errors: int = 0
    """A broker that was named does not lead or refuses the connection, or no leader was named."""
    silences: int = 0
    """A broker has not answered in time."""
    lost_s: list[float] = field(default_factory=list)
    """Seconds of each operation that was not right at once."""
    stale_until_s: float = 0.0
    """When a broker last named a broker that did not lead, in seconds since the event."""


class Clients:
    """Operations, one after the other begun; each runs until its answer is right."""

    def __init__(self, world: SimWorld, seed: int) -> None:
        self.seen = Seen()
        self.event_at = 0
        self._world = world
        self._rng = Random(f"stale-clients/{seed}")
        self._connections: dict[Address, KafkaConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> None:
        """Begin operations for so long, and wait for their ends."""
        end = self._world.kernel.now + int(seconds * SECOND)
        while self._world.kernel.now < end:
            task = asyncio.create_task(self._operation(self._rng.randrange(PARTITIONS)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(EVERY_S)
        await asyncio.gather(*self._tasks)
        for connection in self._connections.values():
            connection.close()

    async def _operation(self, partition: int) -> None:
        began, tries = self._world.kernel.now, 0
        self.seen.operations += 1
        while not await self._is_right(partition):
            tries += 1
            await asyncio.sleep(PAUSE_S)
        if tries:
            self.seen.lost_s.append((self._world.kernel.now - began) / SECOND)

    async def _is_right(self, partition: int) -> bool:
        try:
            leader = _leader(await self._told(), partition)
            if leader is not None and await self._leads(leader, partition):
                return True
        except TimeoutError:
            self.seen.silences += 1
            return False
        self.seen.errors += 1
        if leader is not None:
            self.seen.stale_until_s = (self._world.kernel.now - self.event_at) / SECOND
        return False

    async def _told(self) -> MetadataResponse:
        """Return what a random broker says, of those that accept a connection."""
        brokers = self._world.bootstrap()
        while True:
            try:
                return await self._metadata(self._rng.choice(brokers))
            except TimeoutError:
                raise
            except OSError:  # refused, or reset
                continue

    async def _metadata(self, broker: Address) -> MetadataResponse:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        connection = await self._connection(broker)
        return await connection.request(request, METADATA_VERSION, MetadataResponse, PATIENCE_S)

    async def _leads(self, broker: Address, partition: int) -> bool:
        topic = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(partition_index=partition, timestamp=LATEST)])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        try:
            connection = await self._connection(broker)
            answer = await connection.request(request, LIST_OFFSETS_VERSION, ListOffsetsResponse, PATIENCE_S)
        except TimeoutError:
            raise
        except OSError:  # refused, or reset
            return False
        return answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    async def _connection(self, broker: Address) -> KafkaConnection:
        known = self._connections.get(broker)
        if known is None or known.gone is not None:
            opening = KafkaConnection.connect(self._world.connector(), *broker, "stale-clients")
            known = await asyncio.wait_for(opening, PATIENCE_S)
            self._connections[broker] = known
        return known


def _leader(told: MetadataResponse, partition: int) -> Address | None:
    """Return the address of the leader that a response names."""
    brokers = {one.node_id: (one.host, one.port) for one in told.brokers}
    for topic in told.topics:
        for one in topic.partitions:
            if one.partition_index == partition:
                return brokers.get(one.leader_id)
    return None


# -- events ------------------------------------------------------------------------------------------------------------


def shut_down(world: SimWorld, victim: str, other: str, controllers: Sequence[str]) -> None:
    world.processes[victim].ask_to_stop(lambda: None)


def kill(world: SimWorld, victim: str, other: str, controllers: Sequence[str]) -> None:
    world.processes[victim].crash()


def cut_off(world: SimWorld, victim: str, other: str, controllers: Sequence[str]) -> None:
    """Cut one broker off from the controllers, then shut down another one."""
    for controller in controllers:
        ends = (world.processes[other].address, world.processes[controller].address)
        for source, target in (ends, ends[::-1]):
            world.network.block(source, target, "cut")
    world.kernel.at(world.kernel.now + int(CUT_BEFORE_S * SECOND), world.processes[victim].ask_to_stop, lambda: None)
    world.kernel.at(world.kernel.now + int(CUT_S * SECOND), world.network.unblock, "cut")


EVENTS: dict[str, Callable[[SimWorld, str, str, Sequence[str]], None]] = {
    SHUT_DOWN: shut_down,
    KILLED: kill,
    CUT_OFF: cut_off,
}


def observed(kind: str, event: str, seed: int) -> Seen:
    """Return what the clients saw of one event in a cluster of its own."""
    shape = ClusterShape(3, BROKERS, config=SESSIONS[kind], zookeeper=kind != WITH_QUORUM)
    world = SimWorld(shape, seed, topics={TOPIC: PARTITIONS})
    world.start()
    try:
        return world.kernel.run_until_complete(_observe(world, event, seed))
    finally:
        world.switch_off()


async def _observe(world: SimWorld, event: str, seed: int) -> Seen:
    admin = NativeAdmin(world.connector(), world.bootstrap(), has_quorum=world.has_quorum)
    await await_whole(admin, BROKERS, {}, READY_S)
    await create_topics(admin, (Topic(TOPIC, PARTITIONS, REPLICAS),), READY_S)
    await await_whole(admin, BROKERS, {TOPIC: PARTITIONS}, READY_S)
    await admin.close()
    active = await world.cluster.active_controller()
    assert active is not None, "the cluster has a controller"
    controllers = [active] if world.ensemble is not None else list(world.cluster.controllers)
    victim, other = [one for one in world.cluster.brokers if one != active][:2]
    clients = Clients(world, seed)
    clients.event_at = world.kernel.now + int(CALM_S * SECOND)
    world.kernel.at(clients.event_at, EVENTS[event], world, victim, other, controllers)
    await clients.run(CALM_S + EVENT_S)
    return clients.seen


# -- figures -----------------------------------------------------------------------------------------------------------


def run(short: bool = False) -> Iterator[Measurement]:
    """Measure each event under each kind of controller."""
    seeds = range(1, 1 + (SEEDS_SHORT if short else SEEDS))
    for event in EVENTS:
        lost = {}
        for kind in SESSIONS:
            seen = [observed(kind, event, seed) for seed in seeds]
            yield from figures(event, kind, seen)
            lost[kind] = statistics.median(sum(one.lost_s) for one in seen)
        for kind in COMPARED[event]:
            ratio = lost[kind] / lost[WITH_QUORUM]
            yield Measurement(f"{event}: {kind}, to quorum", ratio, "times", must=1.0, reference=PUBLISHED)


def figures(event: str, kind: str, seen: Sequence[Seen]) -> Iterator[Measurement]:
    """Return the figures of one event, medians over seeds."""
    lost = [sum(one.lost_s) for one in seen]
    yield Measurement(
        name_of(event, kind), statistics.median(lost), "s", higher_is_better=False, samples=tuple(lost),
        reference=PUBLISHED,
    )  # fmt: skip
    for what, unit, values in (
        ("answers that were wrong", "", [one.errors for one in seen]),
        ("answers that did not come in time", "", [one.silences for one in seen]),
        ("operations that lost time", "", [len(one.lost_s) for one in seen]),
        ("the longest operation", "s", [max(one.lost_s, default=0.0) for one in seen]),
        ("a broker named one that did not lead, until", "s", [one.stale_until_s for one in seen]),
    ):
        samples = tuple(float(one) for one in values)
        yield Measurement(f"    {what}", statistics.median(samples), unit, higher_is_better=False, samples=samples)


def name_of(event: str, kind: str) -> str:
    return f"{event}, {kind}: time that clients lost"


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: the time that clients lost, by event and kind of controller."""
    found = by_name(measurements)
    arms = {kind: [found[name_of(event, kind)].measured for event in EVENTS] for kind in SESSIONS}
    title = f"Seconds that clients lost in {EVENT_S:.0f} s after an event, at {1 / EVERY_S:.0f} operations a second"
    return {"stale-clients": bars(title, list(EVENTS), arms, "time lost", "s")}
