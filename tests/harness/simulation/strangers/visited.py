"""A cluster without faults of its own, in which one client with a topic of its own is at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from squall.harness.conformance.client import Patience
from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.run.closing_check import PATIENCE
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.ports import NullTrace

SECOND = 1_000_000


class _Client(Protocol):
    async def run(self) -> None: ...


Client = TypeVar("Client", bound=_Client)
Made = Callable[[SimWorld, Patience, TopicOptions, Callable[[int], None]], Client]


class Visited(Generic[Client]):
    """The cluster, the client, and the values that it has `sent`."""

    def __init__(self, make: Made[Client], *, brokers: int) -> None:
        self.sent: list[int] = []
        self.world = SimWorld(ClusterShape(brokers=brokers), 1, topics={}, trace=NullTrace())
        self.world.start()
        self.world.kernel.run_for(3 * SECOND)
        self.client = make(self.world, PATIENCE, TopicOptions(), self.sent.append)

    def load(self, seconds: int) -> None:
        """Let the client go on for a while. Raises what it raises."""
        kernel = self.world.kernel
        running = kernel.create_task(self.client.run())
        kernel.run_for(seconds * SECOND)
        if running.done():
            running.result()
        running.cancel()
