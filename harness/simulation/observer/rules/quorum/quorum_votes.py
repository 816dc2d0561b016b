"""ELECT: a voter grants one vote in an epoch, in all its incarnations (QC-06, QC-08), and refuses none without reason.

A vote that is refused without a reason costs nothing while others grant theirs. With a voter down it is missed, and
nobody is elected. A voter that knows no leader, and has not voted in the epoch, has one reason to refuse: its log has
more than the candidate's, a record of a later epoch, or a later one of the same (QC-07). A leader grants no pre-vote:
who asks for one would be elected, and end an epoch that nothing is wrong with (KIP-996).

Source: KIP-595. Asserted in the turn in which the voter decides, for its vote for itself too. Legal: the same vote
granted again to the same candidate, whose request was repeated.
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
from squall.nodes.protocol.messages.vote import PartitionDataRequest, VoteRequest, VoteResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.replica import RaftReplica
from squall.nodes.raft.roles import Follower, Leader, Prospective, Unattached


class QuorumVotes(Rule):
    """See the module."""

    events = ("vote",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._votes: list[tuple[int, int, int]] = []
        self._voted: dict[tuple[int, int], int] = {}

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        self._votes.append((int(fields["node"]), int(fields["epoch"]), int(fields["candidate"])))

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        body, response = request.body, None if request.answer is None else request.answer.response
        if not isinstance(body, VoteRequest) or not isinstance(response, VoteResponse) or response.error_code:
            return
        with_quorum = node_of_quorum(node)
        for asked, told in zip(_of_partitions(body), _of_partitions(response), strict=False):
            if with_quorum is None or told.error_code:
                continue
            if not told.vote_granted:
                _refuse_refusal(process.name, with_quorum.raft, asked)
            elif asked.pre_vote:
                _refuse_grant(process, with_quorum.raft, asked)

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


def _of_partitions(message: Any) -> list[Any]:
    return [one for topic in message.topics for one in topic.partitions]


def _refuse_grant(process: SimProcess, raft: RaftReplica, asked: PartitionDataRequest) -> None:
    """Check that a voter which grants a pre-vote does not know that the epoch has a leader."""
    role = raft.role
    if isinstance(role, Leader):
        knows = "leads"
    elif isinstance(role, Follower) and role.heard and process.now < role.give_up_at:
        knows = f"hears node {role.leader_id} as the leader of"
    else:
        return
    raise InvariantBroken(
        "ELECT", f"{process.name} {knows} quorum epoch {raft.epoch}, and grants a pre-vote to node {asked.replica_id}"
    )


def _refuse_refusal(name: str, raft: RaftReplica, asked: PartitionDataRequest) -> None:
    """Check that a voter which refuses a vote has, knows or has promised something that speaks against it."""
    role, own = raft.role, (raft.log.last_epoch, raft.end_offset)
    if (
        not isinstance(role, Unattached | Prospective)
        or role.epoch != asked.replica_epoch
        or role.leader_id is not None
    ):
        return
    if (role.voted is None or asked.pre_vote) and (asked.last_offset_epoch, asked.last_offset) >= own:
        raise InvariantBroken(
            "ELECT",
            f"{name} refuses to vote for node {asked.replica_id} in quorum epoch {asked.replica_epoch}. It knows no "
            f"leader, and its log is not ahead: it ends at {own[1]} in epoch {own[0]}, and the candidate's at "
            f"{asked.last_offset} in epoch {asked.last_offset_epoch}",
        )
