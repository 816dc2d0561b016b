"""ELECT: a voter grants one vote in an epoch, through all its incarnations (QC-06, QC-08).

Source: KIP-595. Asserted in the turn in which the voter decides, for its vote for itself too. Legal: the same vote
granted again to the same candidate, whose request was repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.node import Node


class QuorumVotes(Rule):
    """See the module."""

    events = ("vote",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._votes: list[tuple[int, int, int]] = []
        self._voted: dict[tuple[int, int], int] = {}

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._votes.append((int(fields["node"]), int(fields["epoch"]), int(fields["candidate"])))

    def died(self, process: SimProcess) -> None:
        self._votes.clear()

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        if not self._votes:
            return
        votes, self._votes = self._votes, []
        names = self.cluster.names
        for voter, epoch, candidate in votes:
            first = self._voted.setdefault((voter, epoch), candidate)
            if first != candidate:
                raise InvariantBroken(
                    "ELECT",
                    f"{names[voter]} has voted twice in quorum epoch {epoch}, for {names[first]} and "
                    f"{names[candidate]}",
                )
