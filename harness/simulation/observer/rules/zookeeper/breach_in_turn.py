"""The common part of rules whose breach is seen while a node traces: it is raised when that node's turn is over.

A rule may not raise within a turn, whose state is not complete. If the node dies in the turn, its outputs
were not released, and the breach is dropped. Of several breaches in one turn the first is raised.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode


class BreachInTurn(Rule):
    """See the module. `traced` calls `raise_after_turn`."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._breach: InvariantBroken | None = None

    def raise_after_turn(self, breach: InvariantBroken) -> None:
        """Raise this at the end of the turn under way."""
        self._breach = self._breach or breach

    def died(self, process: SimProcess) -> None:
        self._breach = None

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        breach, self._breach = self._breach, None
        if breach is not None:
            raise breach
