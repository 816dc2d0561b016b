"""QC-08: a node that comes back remembers its vote, wherever it died.

A vote is durable before it is answered (KIP-595). A voter that has forgotten it votes twice as soon as another
candidate of that epoch asks, which takes an unlucky moment; that it has forgotten shows at every restart.

Asserted in the first turn of an incarnation, in the quorum epoch in which the former one voted last. That it does not
come back in an earlier epoch is DURABLE. Legal: a vote in a later epoch; a vote granted in the turn in which the node
died, of which no answer has left; a disk that was wiped or lied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.node import Node


class QuorumMemory(Rule):
    """See the module."""

    events = ("vote",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._voted: dict[str, tuple[int, int]] = {}
        """The epoch of each host's last vote, and for whom it was."""
        self._votes: dict[str, tuple[int, int]] = {}
        """The same, while the turn in which it was given is not over."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._votes[self.cluster.names[int(fields["node"])]] = (int(fields["epoch"]), int(fields["candidate"]))

    def died(self, process: SimProcess) -> None:
        self._votes.pop(process.name, None)

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        vote = self._votes.pop(process.name, None)
        if vote is not None:
            self._voted[process.name] = vote

    def quorum_moved(self, turn: QuorumTurn) -> None:
        name, process = turn.process.name, turn.process
        voted = self._voted.get(name)
        if turn.before is not None or voted is None or not process.disk.keeps_promises:
            return
        epoch, candidate = voted
        remembered = turn.node.raft.role.voted
        if turn.now[3] == epoch and (remembered is None or remembered.id != candidate):
            names = self.cluster.names
            now = "no vote" if remembered is None else f"a vote for {names[remembered.id]}"
            raise InvariantBroken(
                "QC-08",
                f"{name} comes back in quorum epoch {epoch}, in which it voted for {names[candidate]}, and knows of "
                f"{now}",
            )
