"""The one view of a cluster and its hosts that both worlds provide: real hosts (or the lab) and the simulation.

Faults, schedules, clients and the interpreter are written once against this protocol. `hosts` serve the agent's verbs
(`nemesis/core/ports.py: Host`), `cluster` reports who leads what (`ClusterView`), time is the history's clock.
Everything that uses a World is `async def` and restricts itself to what a simulated loop can do: `sleep`, futures,
`create_task`, `gather`, `wait_for`, `Event`, `Queue` (docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from squall.nemesis.core.ports import ClusterView, Host
from squall.workloads.core.ports import Connector


class World(Protocol):
    """A cluster under test, its hosts, and the time they live in."""

    hosts: Mapping[str, Host]
    cluster: ClusterView

    def now_ns(self) -> int:
        """Return monotonic nanoseconds: the history's clock."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def connector(self) -> Connector:
        """Return how the native client opens connections."""
        ...

    def bootstrap(self) -> list[tuple[str, int]]:
        """Return the addresses of the brokers' client listeners."""
        ...
