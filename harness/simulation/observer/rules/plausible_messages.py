"""ELECT: no node sends another a message of the quorum's protocol that can never be valid.

A voter refuses such a message and traces `implausible`. In simulation every sender is one of our nodes, so each is a
bug. Asserted in the turn that refuses the message.

A voter cannot see that a node which announces or ends its leadership never led that epoch: it refuses an earlier epoch
as out of date, and follows whoever names a later one. So the observer looks at each BeginQuorumEpoch and EndQuorumEpoch
that is answered. Legal: one that arrives long after another leads, and one of a node that stopped in the turn in which
it began to lead (`push-raft` seed 70006), even before it traced that: by its quorum state it comes back as a resigned
leader (`worlds` seed 1004106).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from squall.nodes.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.roles import Leader, Resigned


class PlausibleMessages(Rule):
    """See the module."""

    events = ("implausible", "state")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._refused: list[str] = []
        self._led: dict[int, set[int]] = {}
        """By quorum epoch, the nodes that have led in it."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "implausible":
            self._refused.append(f"{fields['what']}: {fields['why']}")
        elif fields["role"] == Leader.name or (fields["role"], fields["leader"]) == (Resigned.name, fields["node"]):
            self._led.setdefault(int(fields["epoch"]), set()).add(int(fields["node"]))

    def died(self, process: SimProcess) -> None:
        self._refused.clear()

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        message = request.body
        if not isinstance(message, BeginQuorumEpochRequest | EndQuorumEpochRequest):
            return
        for part in (part for topic in message.topics for part in topic.partitions):
            leader, led = part.leader_id, self._led.get(part.leader_epoch, set())
            if leader in self.cluster.names and leader not in led:
                has_led = ", ".join(self.cluster.names[one] for one in sorted(led)) or "nobody"
                raise InvariantBroken(
                    "ELECT",
                    f"{process.name} is told by {type(message).__name__} that {self.cluster.names[leader]} leads "
                    f"quorum epoch {part.leader_epoch}, which {has_led} has led",
                )

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        if self._refused:
            raise InvariantBroken("ELECT", f"{process.name} refused {self._refused[0]}")
