"""QC-12: a leader of the quorum that stops cleanly sends EndQuorumEpoch to every other voter.

A voter that receives it stands for election at once, the first of the named successors first. A voter that does not
waits for its fetch timeout, and the cluster has no controller meanwhile. Nothing is lost, so no other rule sees it.

Source: KIP-595, EndQuorumEpoch. Asserted when the process of a node that led until then has stopped: a request to each
other voter is under way. Legal: a leader that has resigned in an earlier turn, and waits to repeat a request that
failed; a process that died while it stopped; the only voter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.raft.roles import Resigned


class HandedOverQuorum(Rule):
    """See the module."""

    events = ("state",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._resigned: dict[str, Node] = {}
        """By host, the nodes that have resigned in a turn that is not over."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if fields["role"] != Resigned.name:
            return
        number = int(fields["node"])
        node = node_of_quorum(self.cluster.running(number))
        if node is not None:
            self._resigned[self.cluster.names[number]] = node

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if self._resigned:
            self._resigned.pop(process.name, None)

    def died(self, process: SimProcess) -> None:
        node = self._resigned.pop(process.name, None)
        role = None if node is None else node.raft.role
        if node is None or not isinstance(role, Resigned) or process.how_it_ended != "stopped":
            return
        untold = [voter for voter, peer in role.peers.items() if not peer.in_flight]
        if untold:
            raise InvariantBroken(
                "QC-12",
                f"{process.name} led quorum epoch {node.raft.epoch} and has stopped, and has not told voters {untold} "
                "that it does",
            )
