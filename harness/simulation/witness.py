"""Who may look on at a simulated run without changing it.

A run tells its witness of the world it is made of, of every operation and every fault; a witness may also put itself
beside the nodes' trace and bring a network that tells of frames. Without a witness nothing of this costs anything.
`Witness` itself forgets all it is told. `explicit.Recording` writes down what a schedule lists, `traced.Tracer` all
that an account needs.
"""

from __future__ import annotations

from squall.harness.simulation.network import SimNetwork
from squall.harness.simulation.world import SimWorld
from squall.nemesis.runner import NemesisEvent
from squall.nodes.ports import Trace
from squall.workloads.operation import Event


class Witness:
    """Told of everything, keeps nothing."""

    network: type[SimNetwork] = SimNetwork
    """The network of the world to be made; one of its kind that behaves alike."""

    def beside(self, trace: Trace) -> Trace:
        """The trace that nodes are given, in place of this one; it has to pass everything on."""
        return trace

    def watch(self, world: SimWorld) -> None:
        """The world exists now; nothing in it has begun."""

    def operation(self, event: Event) -> None:
        """An operation was invoked, or completed."""

    def fault(self, event: NemesisEvent) -> None:
        """A fault began, showed, or ended."""
