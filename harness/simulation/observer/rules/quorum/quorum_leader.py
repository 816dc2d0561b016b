"""ELECT: a new leader of the quorum has every committed record of the metadata log, and a majority has voted for it.

* A voter votes for a candidate whose log has at least what its own has, by last epoch and then by end (QC-07). Asserted
  after the voter's turn, on a candidate that still stands, or already leads, in that epoch.
* Whoever begins to lead was voted for in that epoch by a majority of its voters (QC-09). A granted pre-vote is none.
* It has every committed record. Records that it appends to begin its epoch do not count. That an epoch has one leader
  is asserted at the same time (`ObservedLog.one_leader`).

Source: KIP-595, leader completeness; KIP-996. Legal: a vote for a candidate that has given up since, or died; voters
that have voted and died, and those that died while they wrote their vote down, and grant it after their next start
(seed 946185).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken, ObservedLog
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.node import Node
from squall.nodes.raft.roles import Candidate, Leader


class QuorumLeader(Rule):
    """See the module."""

    events = ("vote",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._votes: dict[int, list[tuple[int, int]]] = {}
        """By voter, epoch and candidate of votes whose turn is not examined yet; nodes vote at their start, too."""
        self._voters: dict[tuple[int, int], set[int]] = {}
        """By epoch and candidate, who has voted so."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        vote = (int(fields["epoch"]), int(fields["candidate"]))
        self._votes.setdefault(int(fields["node"]), []).append(vote)
        self._voters.setdefault(vote, set()).add(int(fields["node"]))

    def died(self, process: SimProcess) -> None:
        self._votes = {voter: one for voter, one in self._votes.items() if self.cluster.names[voter] != process.name}

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        voted = node.raft.role.voted if node.raft.role is not None else None
        if voted is not None:  # traced, or read from the disk at the start
            self._voters.setdefault((node.raft.epoch, voted.id), set()).add(node.config.node_id)
        for epoch, candidate in self._votes.pop(node.config.node_id, []):
            self._check_vote(process, node, epoch, candidate)

    def _check_vote(self, process: SimProcess, node: Node, epoch: int, candidate: int) -> None:
        other = node_of_quorum(self.cluster.running(candidate))
        if other is None or other is node or not isinstance(other.raft.role, Candidate | Leader):
            return
        if other.raft.epoch != epoch:
            return
        own, theirs = _position(node), _position(other)
        if theirs < own:
            raise InvariantBroken(
                "ELECT",
                f"{process.name} votes in quorum epoch {epoch} for {self.cluster.names[candidate]}, whose log ends at "
                f"{theirs[1]} in epoch {theirs[0]}; its own ends at {own[1]} in epoch {own[0]}",
            )

    def quorum_led(self, turn: QuorumTurn) -> None:
        log, end, epoch = self.cluster.quorum, turn.now[0], turn.now[3]
        if end < log.end:
            raise InvariantBroken(
                "ELECT",
                f"{turn.process.name} leads quorum epoch {epoch} with log end {end}, {log.end} are committed: "
                f"{_first_lacking(log, turn.node.raft.role, end)}",
            )
        voters = turn.node.raft.voters
        voted = self._voters.get((epoch, turn.node.config.node_id), set()).intersection(voters.ids)
        if voters.ids and len(voted) < voters.majority:
            raise InvariantBroken(
                "ELECT",
                f"{turn.process.name} leads quorum epoch {epoch} by the votes of {sorted(voted)}, {voters.majority} of "
                f"{list(voters.ids)} are needed",
            )


def _position(node: Node) -> tuple[int, int]:
    """The epoch of a log's last record, and where the log ends."""
    log = node.raft.log
    return log.last_epoch, log.end_offset


def _first_lacking(log: ObservedLog, role: object, end: int) -> str:
    """Describe the first committed record that a new quorum leader lacks."""
    offset = min(end, role.epoch_start_offset) if isinstance(role, Leader) else end
    batch = log.at(offset)
    return f"it lacks offset {offset}" + ("" if batch is None else f" of epoch {batch.epoch}")
