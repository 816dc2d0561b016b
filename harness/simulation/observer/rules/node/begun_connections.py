"""CONNECT: a node that cannot connect to another gives up, and tries again.

In a partition, a host repeats its first packet ever more rarely. A node that waits for it notices the end of the
partition late or, if a firewall keeps the connection half open, never: its followers fall behind and its broker is
fenced, although the network is sound. So every connection that a node begins is open, refused or given up within a
bound.

Asserted after each turn of a node: no connection was begun longer ago, unless this is the first turn in which that is
so, since what gives it up leaves the node at the end of the turn. Legal: a node that was paused, or busy with a slow
disk, until now.

Source: `socket.connection.setup.timeout.ms` (KIP-601); `nodes/node/links.py`.
"""

from __future__ import annotations

from typing import Final

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode

BOUND: Final = 3 * MICROSECONDS // 2
"""Half as long again as a node waits for a connection, in microseconds."""


class BegunConnections(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._overdue: dict[str, tuple[int, int]] = {}
        """By process: incarnation and number of a connection that was overdue after its last turn."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if not process.connecting:
            return
        connection, since = next(iter(process.connecting.items()))  # the oldest
        if process.now - since <= BOUND:
            return
        overdue = process.incarnation, connection
        if self._overdue.get(process.name) == overdue:
            raise InvariantBroken(
                "CONNECT",
                f"{process.name} has waited for its connection {connection} for "
                f"{(process.now - since) / MICROSECONDS:.3f} s, and has not given it up",
            )
        self._overdue[process.name] = overdue
