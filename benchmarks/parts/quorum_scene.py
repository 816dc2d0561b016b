"""Three controllers and thirty stub brokers: create topic-partitions, shut brokers down, kill the active controller.

The controllers are processes of any kind that speak Kafka's protocol of the quorum: ours (`controller_processes.py`) or
Apache Kafka's (`benchmarks/experiments/parts/kafka_controllers.py`). *Applied* is a moment: the stub that decodes has
applied everything that was committed when it was asked, and every other stub has received that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from squall.benchmarks.parts.controller_processes import Stages
from squall.benchmarks.parts.stub_brokers import Address, ControllerConnection, Stub, until
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from squall.nodes.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
)
from squall.nodes.protocol.topic_partition import METADATA_PARTITION

PARTITIONS_OF_A_TOPIC, TOPICS_AT_ONCE = 1_000, 9
CATCH_UP_S = 300.0
BROKERS, CONTROLLERS, REPLICAS = 30, 3, 3


@dataclass(frozen=True)
class ShutDown:
    """One controlled shutdown, in seconds since the broker asked for it."""

    committed: float
    """The controller has responded: all changes are committed."""
    applied: float
    """Every broker has the changes."""
    let_go: float
    """The broker may stop."""


@dataclass(frozen=True)
class Lost:
    """The failure of a broker, in seconds since it stopped."""

    fenced: float
    """The stub that applies has seen that the broker is fenced."""
    applied: float
    """Every other broker has the changes."""


@dataclass(frozen=True)
class Replaced:
    """One failover, in seconds since SIGKILL of the active controller."""

    killed: int
    stages: Stages
    committed: float
    """Another controller has committed something."""
    applied: float
    """Every broker has that."""


class QuorumProcesses(Protocol):
    """The controllers of a quorum, as a scene uses them."""

    ids: list[int]

    @property
    def addresses(self) -> list[Address]: ...

    async def are_up(self) -> None:
        """Wait until all of them have started. Raises AssertionError if one has died."""
        ...

    def kill(self, controller: int) -> None:
        """Send SIGKILL to one."""
        ...

    async def start(self, controller: int) -> float:
        """Start a killed one again, and wait until it has started. Returns the seconds that this took."""
        ...

    async def stages(self, survivors: Sequence[int], killed_at: float) -> Stages:
        """Wait until the survivors have recorded the stages of the failover since a kill; return them."""
        ...


class QuorumScene:
    """The controllers with their stubs, for one measurement; times are in seconds."""

    def __init__(self, controllers: QuorumProcesses, stub: type[Stub] = Stub) -> None:
        self._processes = controllers
        addresses = controllers.addresses
        self.stubs = [stub(broker, addresses, applies=broker == 1) for broker in range(1, BROKERS + 1)]
        self.connection = ControllerConnection(addresses, "bench")
        self.tasks: dict[int, list[asyncio.Task[None]]] = {}
        """What each stub does, by broker."""

    async def start(self) -> None:
        await self._processes.are_up()
        await asyncio.gather(*(stub.register() for stub in self.stubs))
        for stub in self.stubs:
            self.tasks[stub.broker] = [asyncio.create_task(stub.follow()), asyncio.create_task(stub.beat())]
        applier = self.applier
        await self.until(
            "all stubs unfenced",
            lambda: len(applier.brokers) == BROKERS and not any(one.fenced for one in applier.brokers.values()),
        )

    @property
    def applier(self) -> MetadataImage:
        image = self.stubs[0].image
        assert image is not None
        return image

    async def create(self, partitions: int) -> None:
        names = range(-(-partitions // PARTITIONS_OF_A_TOPIC))
        for first in names[::TOPICS_AT_ONCE]:
            topics = [
                CreatableTopic(
                    name=f"topic-{number}",
                    num_partitions=min(PARTITIONS_OF_A_TOPIC, partitions - number * PARTITIONS_OF_A_TOPIC),
                    replication_factor=REPLICAS,
                )
                for number in names[first : first + TOPICS_AT_ONCE]
            ]
            request = CreateTopicsRequest(topics=topics, timeout_ms=60_000)
            await self.connection.until(lambda request=request: request, _created)  # type: ignore[misc]
        await self.is_applied()

    async def is_applied(self) -> None:
        """Wait until every stub has everything that is committed now; see the module."""
        committed = await self._committed()
        await self.until("applied", lambda: self.applier.last_offset >= committed - 1)
        await self._received_by_all(committed)

    async def _received_by_all(self, high_watermark: int) -> None:
        await self.until(
            "received by all stubs", lambda: all(one.high_watermark >= high_watermark for one in self.stubs)
        )

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition; raise at once what a stub's coroutine has raised, which would else end unseen."""

        def checked() -> bool:
            for task in self._all_tasks():
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
            return condition()

        await until(what, checked)

    async def _committed(self) -> int:
        return (await self._quorum()).high_watermark

    async def _quorum(self) -> PartitionDataResponse:
        """Return what the leader says of the quorum."""
        partition = TopicDataRequest(
            topic_name=METADATA_PARTITION.topic, partitions=[PartitionDataRequest(partition_index=0)]
        )
        answer = await self.connection.until(lambda: DescribeQuorumRequest(topics=[partition]), _described)
        return cast(DescribeQuorumResponse, answer).topics[0].partitions[0]

    async def shut_down(self, stub: Stub) -> ShutDown:
        """Shut down one broker and time it."""
        began = time.monotonic()
        answered = asyncio.Event()
        leaving = asyncio.create_task(stub.leave(answered.set))
        await answered.wait()
        committed = time.monotonic() - began
        await self.is_applied()
        applied = time.monotonic() - began
        await leaving
        return ShutDown(committed, applied, time.monotonic() - began)

    async def lose(self, stub: Stub) -> Lost:
        """End a broker as SIGKILL does, and time what the controller makes of it."""
        at = time.monotonic()
        for task in self.tasks.pop(stub.broker):
            task.cancel()
        stub.close()
        self.stubs.remove(stub)
        await self.until("the broker is fenced", lambda: self.applier.brokers[stub.broker].fenced)
        fenced = time.monotonic() - at
        await self.is_applied()
        return Lost(fenced, time.monotonic() - at)

    async def replace_active(self) -> Replaced:
        """Kill the active controller, and time the next commit."""
        await self.commit_something()
        active = self._processes.ids[self.connection.at]
        survivors = [one for one in self._processes.ids if one != active]
        killed_at = time.monotonic()
        self._processes.kill(active)
        block = await self.commit_something()
        committed = time.monotonic() - killed_at
        await self.until("applied", lambda: self.applier.next_producer_id > block)
        await self._received_by_all(self.applier.last_offset + 1)
        applied = time.monotonic() - killed_at
        return Replaced(active, await self._processes.stages(survivors, killed_at), committed, applied)

    async def restart(self, controller: int) -> None:
        """Start a killed controller again, and wait until it has the log of the others. Raises TimeoutError."""
        await self._processes.start(controller)
        async with asyncio.timeout(CATCH_UP_S):
            while not await self._has_the_log(controller):
                await asyncio.sleep(0.1)

    async def _has_the_log(self, controller: int) -> bool:
        quorum = await self._quorum()
        ends = {voter.replica_id: voter.log_end_offset for voter in quorum.current_voters}
        return ends.get(controller, -1) >= quorum.high_watermark

    async def commit_something(self) -> int:
        """Commit a block of producer ids through the active controller. Returns the first id."""
        stub = self.stubs[0]
        request = AllocateProducerIdsRequest(broker_id=stub.broker, broker_epoch=stub.epoch)
        answer = await self.connection.until(lambda: request, _allocated)
        return cast(AllocateProducerIdsResponse, answer).producer_id_start

    def _all_tasks(self) -> list[asyncio.Task[None]]:
        return [task for tasks in self.tasks.values() for task in tasks]

    async def close(self) -> None:
        for task in self._all_tasks():
            task.cancel()
        await asyncio.gather(*self._all_tasks(), return_exceptions=True)
        for stub in self.stubs:
            stub.close()
        self.connection.close()


def _created(answer: object) -> bool:
    codes = [topic.error_code for topic in cast(CreateTopicsResponse, answer).topics]
    return all(code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) for code in codes)


def _allocated(answer: object) -> bool:
    return cast(AllocateProducerIdsResponse, answer).error_code == ErrorCode.NONE


def _described(answer: object) -> bool:
    return cast(DescribeQuorumResponse, answer).topics[0].partitions[0].error_code == ErrorCode.NONE
