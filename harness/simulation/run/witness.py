"""Watch a simulated run without changing it.

A run passes to its witness the world it consists of, every operation and every fault. A witness may also wrap the
nodes' trace and supply a network that reports frames. Without a witness none of this has a cost. `Witness` itself
ignores everything. `explicit.Recording` records what a schedule lists, `traced.Tracer` all that a trace needs.
"""

from __future__ import annotations

from squall.harness.simulation.world.network import SimNetwork
from squall.harness.simulation.world.world import SimWorld
from squall.nemesis.runner import NemesisEvent
from squall.nodes.ports import Trace
from squall.workloads.core.operation import Event


class Witness:
    """Receives everything, keeps nothing."""

    network: type[SimNetwork] = SimNetwork
    """The class of the world's network; a subclass must behave the same."""

    def beside(self, trace: Trace) -> Trace:
        """Return the trace that nodes use instead of this one; it has to pass everything on."""
        return trace

    def watch(self, world: SimWorld) -> None:
        """The world exists now; nothing in it has begun."""

    def operation(self, event: Event) -> None:
        """An operation was invoked, or completed."""

    def fault(self, event: NemesisEvent) -> None:
        """A fault began, showed, or ended."""

    def swarm_fault(self, kind: str, hosts: tuple[str, ...]) -> None:
        """A fault of a swarm is about to begin."""
