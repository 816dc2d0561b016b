"""ELECT: no node sends another a message of the quorum's protocol that can never be valid.

A voter refuses such a message and traces `implausible`. Where every sender is one of our nodes, each is a bug. Asserted
in the turn that refuses the message. Legal: one of a client that is none, such as the conformance check.

A voter cannot see that a node which announces or ends its leadership never led that epoch: it refuses an earlier epoch
as out of date, and follows whoever names a later one. So the observer looks at each BeginQuorumEpoch and EndQuorumEpoch
that is answered. Legal: one that arrives long after another leads, and one of a node that stopped in the turn in which
it began to lead (`push-raft` seed 70006), even before it traced that: by its quorum state it comes back as a resigned
leader (`worlds` seed 1004106). A node that sends one says where it listens: a voter that does not know the address of
the leader fetches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from squall.harness.simulation.observer.rules.rule import Rule, wire_keys
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from squall.nodes.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from squall.nodes.protocol.requests.headers import decode_request
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.roles import Leader, Resigned

OF_QUORUM: Final = wire_keys(
    ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT
)
NODE: Final = "node-"
"""How the client ids of nodes begin."""


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
        if not message.leader_endpoints and (request.client_id or "").startswith(NODE):
            raise InvariantBroken(
                "ELECT", f"{process.name} is sent {type(message).__name__} by {request.client_id}, without its address"
            )

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        refused, self._refused = self._refused, []
        if refused and not _hears_strangers(process):
            raise InvariantBroken("ELECT", f"{process.name} refused {refused[0]}")


def _hears_strangers(process: SimProcess) -> bool:
    """Return whether a client that is no node has sent a process a message of the quorum in its last turn."""
    for method, arguments in process.last_inputs:
        if method.__name__ == "received" and arguments[0] >= 0 and arguments[1][:2] in OF_QUORUM:
            header, _ = decode_request(arguments[1])
            if not (header.client_id or "").startswith(NODE):
                return True
    return False
