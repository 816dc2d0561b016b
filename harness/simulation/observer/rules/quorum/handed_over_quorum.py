"""QC-12: a leader of the quorum that stops cleanly sends EndQuorumEpoch to every other voter, and these heed it.

A voter that receives it stands for election at once, the first of the named successors first. A voter that does not
waits for its fetch timeout, and the cluster has no controller meanwhile. Nothing is lost, so no other rule sees it.

Source: KIP-595, EndQuorumEpoch. Asserted when the process of a node that led until then has stopped: a request to each
other voter is under way. And when a voter answers that request without an error, and follows that leader: it takes the
leader to be gone, and stands within `controller.quorum.election.backoff.max.ms`.

Legal: a leader that has resigned in an earlier turn, and waits to repeat a request that failed; a process that died
while it stopped; the only voter; an observer, and a voter that has found another leader or epoch, which have nothing to
heed.
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
from squall.nodes.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.roles import Follower, Resigned


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

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        voter = node_of_quorum(node)
        asked, answer = request.body, request.answer
        if voter is None or not isinstance(asked, EndQuorumEpochRequest) or answer is None:
            return
        told = answer.response
        if not isinstance(told, EndQuorumEpochResponse) or told.error_code:
            return
        if any(one.error_code for topic in told.topics for one in topic.partitions):
            return
        role = voter.raft.role
        ended = [(one.leader_id, one.leader_epoch) for topic in asked.topics for one in topic.partitions]
        if not isinstance(role, Follower) or not role.votes or (role.leader_id, role.epoch) not in ended:
            return
        longest = voter.config.controller_quorum_election_backoff_max_ms * 1_000
        if not role.abandoned or role.give_up_at > process.now + longest:
            raise InvariantBroken(
                "QC-12",
                f"{process.name} was told that leader {role.leader_id} of quorum epoch {role.epoch} has resigned, and "
                f"waits for {role.give_up_at - process.now} us before it stands; the longest legal is {longest} us",
            )

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
