"""Ask the cluster for leaders, ISRs and the controller, by host name; wait until it is ready for tests.

`KafkaClusterView` implements `nemesis.ports.ClusterView` over the Kafka protocol. Responses are cached for a moment,
because selectors ask for several topic-partitions in a row. `Watcher` asks twice a second during a run and reports
every change: these observations explain what a history shows. It also reports the periods in which it received
responses, so that a gap in observation is not taken for "nothing changed".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from squall.harness.deadlines import raise_if_cancelled, within
from squall.results.history.segments import ClusterObservation
from squall.workloads.clients.common.client import Admin, ClusterState, PartitionState, Topic

KEEP_SECONDS = 0.1
ASK_SECONDS = 5.0
WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class NodeNames:
    """Node ids and the hosts they run on."""

    by_id: Mapping[int, str]

    def name(self, node: int | None) -> str | None:
        return None if node is None or node < 0 else self.by_id.get(node, f"node {node}")


class ClusterNotReady(Exception):
    """The cluster did not become ready in time; the message names what was missing last."""


class KafkaClusterView:
    """Implements `ClusterView`."""

    def __init__(
        self,
        admin: Admin,
        names: NodeNames,
        brokers: tuple[str, ...],
        controllers: tuple[str, ...],
        topics: Mapping[str, int],
        zookeeper: tuple[str, ...] = (),
    ) -> None:
        self.admin = admin
        self.names = names
        self.brokers = brokers
        self.controllers = controllers
        self.zookeeper = zookeeper
        self.topics = topics
        self._kept: tuple[float, ClusterState] | None = None

    async def state(self) -> ClusterState | None:
        """Return the cluster's state, at most a moment old; None if no broker responds."""
        now = asyncio.get_running_loop().time()
        if self._kept is not None and now - self._kept[0] < KEEP_SECONDS:
            return self._kept[1]
        try:
            found = await within(ASK_SECONDS, self.admin.describe(sorted(self.topics)))
        except (TimeoutError, OSError):
            return None
        self._kept = (asyncio.get_running_loop().time(), found)
        return found

    async def leader(self, topic: str, partition: int) -> str | None:
        found = await self._partition(topic, partition)
        return None if found is None else self.names.name(found.leader)

    async def in_sync(self, topic: str, partition: int) -> list[str]:
        found = await self._partition(topic, partition)
        if found is None:
            return []
        return [name for node in found.in_sync if (name := self.names.name(node)) is not None]

    async def replicas(self, topic: str, partition: int) -> list[str]:
        found = await self._partition(topic, partition)
        if found is None:
            return []
        return [name for node in found.replicas if (name := self.names.name(node)) is not None]

    async def active_controller(self) -> str | None:
        found = await self.state()
        return None if found is None else self.names.name(found.controller)

    async def _partition(self, topic: str, partition: int) -> PartitionState | None:
        found = await self.state()
        if found is None:
            return None
        return next((one for one in found.partitions if (one.topic, one.partition) == (topic, partition)), None)


def unfit(state: ClusterState, brokers: int, topics: Mapping[str, int]) -> str | None:
    """Return what is missing for the cluster to be whole: brokers, leaders, replicas in sync. None if nothing is."""
    if len(state.brokers) < brokers:
        return f"{len(state.brokers)} of {brokers} brokers are there"
    found = {(one.topic, one.partition): one for one in state.partitions}
    for topic, count in topics.items():
        for partition in range(count):
            one = found.get((topic, partition))
            if one is None:
                return f"{topic}/{partition} is not there"
            if one.leader is None:
                return f"{topic}/{partition} has no leader"
            if len(one.in_sync) < len(one.replicas):
                return f"{topic}/{partition} has {len(one.in_sync)} of {len(one.replicas)} replicas in sync"
    return None


async def await_whole(
    admin: Admin,
    brokers: int,
    topics: Mapping[str, int],
    seconds: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    *,
    between: float = 0.1,
) -> ClusterState:
    """Poll until the cluster is whole. Raises ClusterNotReady."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    missing = "no broker answered"
    while loop.time() < end:
        raise_if_cancelled()
        try:
            state = await asyncio.wait_for(admin.describe(sorted(topics)), ASK_SECONDS)
        except (TimeoutError, OSError) as trouble:
            missing = f"no broker answered ({str(trouble) or 'in time'})"
        else:
            problem = unfit(state, brokers, topics)
            if problem is None:
                return state
            missing = problem
        await sleep(between)
    raise ClusterNotReady(f"after {seconds:g} s {missing}")


async def create_topics(admin: Admin, topics: tuple[Topic, ...], seconds: float) -> None:
    """Create the topics, as soon as the cluster accepts it. Raises ClusterNotReady."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        raise_if_cancelled()
        try:
            await asyncio.wait_for(admin.create_topics(topics), ASK_SECONDS)
            return
        except (TimeoutError, OSError) as trouble:
            if loop.time() > end:
                raise ClusterNotReady(f"after {seconds:g} s topics could not be created: {trouble}") from None
            await asyncio.sleep(0.1)


class Watcher:
    """Polls the cluster twice a second and reports changes."""

    def __init__(
        self,
        view: KafkaClusterView,
        now_ns: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
        tell: Callable[[ClusterObservation], None],
    ) -> None:
        self.view = view
        self.now_ns = now_ns
        self.sleep = sleep
        self.tell = tell
        self.leaders: dict[tuple[str, int], tuple[int | None, int]] = {}
        self.in_sync: dict[tuple[str, int], tuple[int, ...]] = {}
        self.controller: tuple[int | None, int | None] = (None, None)
        self.leader_changes = 0
        self.elections = 0
        self.looked: tuple[int, int] | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                try:
                    state = await self.view.state()
                except OSError:
                    state = None
                if state is None:
                    self._tell_since_when()
                else:
                    self.look(state, self.now_ns())
                await self.sleep(WATCH_SECONDS)
        finally:
            self._tell_since_when()

    def _tell_since_when(self) -> None:
        """Report the period of uninterrupted observation that ends now."""
        if self.looked is not None:
            since, last = self.looked
            self.tell(ClusterObservation(time=last, kind="watched", since=since))
        self.looked = None

    def look(self, state: ClusterState, now: int) -> None:
        """Compare with the last observation."""
        self.looked = (now if self.looked is None else self.looked[0], now)
        names = self.view.names
        if state.controller is not None and (state.controller, state.controller_epoch) != self.controller:
            self.elections += self.controller[0] is not None
            self.controller = (state.controller, state.controller_epoch)
            self.tell(
                ClusterObservation(
                    time=now, kind="controller", node=names.name(state.controller), epoch=state.controller_epoch
                )
            )
        for one in state.partitions:
            self._look_at(one, now)

    def _look_at(self, one: PartitionState, now: int) -> None:
        names, where = self.view.names, (one.topic, one.partition)
        if self.leaders.get(where) != (one.leader, one.leader_epoch):
            self.leader_changes += where in self.leaders
            self.leaders[where] = (one.leader, one.leader_epoch)
            self.tell(
                ClusterObservation(
                    time=now,
                    kind="leader",
                    node=names.name(one.leader),
                    topic=one.topic,
                    partition=one.partition,
                    epoch=one.leader_epoch,
                )
            )
        if set(self.in_sync.get(where, ())) != set(one.in_sync):
            self.in_sync[where] = one.in_sync
            nodes = tuple(name for node in one.in_sync if (name := names.name(node)) is not None)
            self.tell(
                ClusterObservation(time=now, kind="in_sync", topic=one.topic, partition=one.partition, nodes=nodes)
            )
