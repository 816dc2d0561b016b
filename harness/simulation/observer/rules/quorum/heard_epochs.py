"""ELECT: a node of the quorum takes over the epoch and the leader that an accepted message states (QC-11, QC-12).

By Raft a node that sees a later epoch in any message takes it over. If it ignores one message it learns the epoch from
the next, so that only elections that last longer show it. Asserted for Vote, BeginQuorumEpoch and EndQuorumEpoch:

* A node answers a BeginQuorumEpoch or EndQuorumEpoch without an error: it is then at the epoch of the request, and its
  leader is the sender. With dynamic voters it connects to that leader where the request says, since the leader itself
  knows its address (KIP-853).
* A node has received a response: after the turn it is at no earlier epoch than the response states, and if it is at
  that epoch, it knows a leader if the response names one.

Source: Raft, KIP-595 (LeaderEpoch and LeaderId in every response), KIP-853 (endpoints). Legal: a later epoch than
the one stated; a refused request, whose epoch is out of date; a response that comes after its connection has ended; a
node that is said to lead and has resigned.
"""

from __future__ import annotations

from typing import Any, Final

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest

ANNOUNCEMENTS: Final = frozenset((int(ApiKey.BEGIN_QUORUM_EPOCH), int(ApiKey.END_QUORUM_EPOCH)))
STATING: Final = ANNOUNCEMENTS | {int(ApiKey.VOTE)}
FRAMES_MAX: Final = 1_000
"""The most responses that are remembered; no message is on its way while so many others are sent."""


class HeardEpochs(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._stated: dict[bytes, tuple[int, int]] = {}
        """By the frame of a response, the epoch and the leader that it states."""
        self._longest = 0
        """Bytes of the longest of these frames, so that longer ones, such as records, are not looked up."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key not in STATING or request.answer is None or request.answer.response is None:
            return
        parts = _parts(request.answer.response)
        if not parts:
            return
        stated = parts[0]
        while len(self._stated) >= FRAMES_MAX:
            del self._stated[next(iter(self._stated))]
        frame = b"".join(request.chunks())
        self._stated[frame] = stated.leader_epoch, stated.leader_id
        self._longest = max(self._longest, len(frame))
        with_quorum = node_of_quorum(node)
        if with_quorum is not None and not stated.error_code and request.api_key in ANNOUNCEMENTS:
            _check_announced(process, with_quorum, request)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if not self._stated:
            return
        for method, arguments in process.last_inputs:
            if method.__name__ != "received" or arguments[0] >= 0 or len(arguments[1]) > self._longest:
                continue
            stated = self._stated.get(bytes(arguments[1]))
            if stated is not None and process.peer_address(int(arguments[0])) is not None:
                with_quorum = node_of_quorum(node)
                if with_quorum is not None:
                    _check_stated(process, with_quorum, *stated)


def _parts(message: Any) -> list[Any]:
    """Return the topic-partitions of a message: that of the metadata log, or none beside an error."""
    return [part for topic in message.topics for part in topic.partitions]


def _check_announced(process: SimProcess, node: Node, request: ServerRequest) -> None:
    message: Any = request.body
    part = _parts(message)[0]
    leader, epoch = node.raft.leader_and_epoch
    if (leader, epoch) != (part.leader_id, part.leader_epoch):
        raise InvariantBroken(
            "ELECT",
            f"{process.name} accepts that {part.leader_id} leads quorum epoch {part.leader_epoch}, and knows "
            f"{leader} as the leader of epoch {epoch}",
        )
    places = [(one.host, one.port) for one in message.leader_endpoints]
    if places and node.raft.config.dynamic_voters and node.raft.voter_address(part.leader_id) != places[0]:
        raise InvariantBroken(
            "ELECT",
            f"{process.name} hears from leader {part.leader_id} of quorum epoch {epoch} that it is at {places[0]}, "
            f"and looks for it at {node.raft.voter_address(part.leader_id)}",
        )


def _check_stated(process: SimProcess, node: Node, epoch: int, leader: int) -> None:
    known, own = node.raft.leader_and_epoch
    is_other = leader not in (-1, node.raft.config.node_id)
    if own < epoch or (own == epoch and is_other and known is None):
        raise InvariantBroken(
            "ELECT",
            f"{process.name} has received that {leader} leads quorum epoch {epoch} (-1: no known leader), and is at "
            f"epoch {own}, with leader {known}",
        )
