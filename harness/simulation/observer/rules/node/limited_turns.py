"""TURN: a node handles at most `turn.requests.max` requests of clients and followers between two looks at the rest.

Timers, heartbeats, the quorum and controllers' requests are looked at once a turn. A node that takes all that waits in
one turn is late with all of them when it has the most to do. Asserted after each turn, of the requests that it took
from the data plane's queue. A broker on ZooKeeper takes one at most beside requests of a controller, whose responses
leave at the end of the turn. Legal: requests whose connections have ended by then; what control planes handle.

Source: `nodes/node/node.py`; Kafka's network threads and request handlers share a queue instead, and controllers' work
has threads of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.zookeeper_node import ZooKeeperNode


class LimitedTurns(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._served: dict[str, tuple[int, int, int]] = {}
        """By host, the incarnation of its node, and how many requests of the data plane and of the control plane it had
        taken after its last turn."""

    def turned_early(self, process: SimProcess, node: BaseNode, due: int, traced: Sequence[str]) -> None:
        self.turned(process, node)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        served = node.data.served
        incarnation, before, controls = self._served.get(process.name, (0, 0, 0))
        if incarnation != process.incarnation:
            before = controls = 0
        self._served[process.name] = process.incarnation, served, node.control.served
        if served == before:
            return
        is_urgent = type(node) is ZooKeeperNode and node.control.served > controls
        most = 1 if is_urgent else node.config.turn_requests_max
        if served - before > most:
            raise InvariantBroken(
                "TURN",
                f"{process.name} takes {served - before} requests of the data plane in a turn, {most} are the most",
            )
