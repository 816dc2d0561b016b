"""HWM: a leader commits what a majority of the voters has, and nothing before a record of its own epoch (QC-16).

Source: KIP-595 and Raft, section 5.4.2. Asserted in each turn that moves the leader's log or its high watermark:

* the high watermark lies beyond the start of the epoch: a record of the epoch also commits all older ones;
* a majority of the leader's voters has the leader's last batch below it. What a voter has is what its log has, or was
  last seen to have in whichever incarnation: it acknowledges only what is durable.

Legal: a high watermark that is not known yet; a voter that has died since it acknowledged; a last batch that a snapshot
has replaced; a majority of the voters from before the turn, if the leader has changed them after it had counted (seed
1010724 of worlds: it removed itself).
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import READ_BYTES, Batch, InvariantBroken, batches_of
from squall.nodes.raft.roles import Leader
from squall.nodes.raft.voters import VoterSet


class QuorumCommitment(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._voters: dict[tuple[str, int], VoterSet] = {}
        """By host and incarnation, the voters after the last turn that moved its log or its high watermark."""

    def quorum_moved(self, turn: QuorumTurn) -> None:
        place, voters = (turn.process.name, turn.process.incarnation), turn.node.raft.voters
        before, self._voters[place] = self._voters.get(place, voters), voters
        role = turn.node.raft.role
        if not isinstance(role, Leader) or role.high_watermark is None:
            return
        if role.high_watermark <= role.epoch_start_offset:
            raise InvariantBroken(
                "HWM",
                f"{turn.process.name} leads quorum epoch {role.epoch} from offset {role.epoch_start_offset} on, and "
                f"counts records up to {role.high_watermark} as committed, all of older epochs",
            )
        if turn.before is not None and role.high_watermark > turn.before[1]:
            self._check_majority(turn, role.epoch, role.high_watermark, before)

    def _check_majority(self, turn: QuorumTurn, epoch: int, high_watermark: int, before: VoterSet) -> None:
        voters, own = turn.node.raft.voters, turn.process
        last = self.cluster.quorum.last_below((own.name, own.incarnation), high_watermark)
        if last is None:
            return
        having = self._having(own.name, voters, last)
        if len(having) < voters.majority and len(self._having(own.name, before, last)) < before.majority:
            raise InvariantBroken(
                "HWM",
                f"{own.name} leads quorum epoch {epoch} and counts records up to {high_watermark} as committed; batch "
                f"{last} is at {having} only, {voters.majority} of {list(voters.ids)} are needed",
            )

    def _having(self, leader: str, voters: VoterSet, batch: Batch) -> list[str]:
        names = [self.cluster.names[voter] for voter in voters.ids]
        return [name for name in names if name == leader or voter_has(self.cluster, name, batch)]


def voter_has(cluster: ObservedCluster, name: str, batch: Batch) -> bool:
    """Return whether a host's metadata log has this batch, or was last seen to have it in whichever incarnation."""
    return cluster.quorum.has(name, batch) or _holds(cluster, name, batch)


def _holds(cluster: ObservedCluster, name: str, batch: Batch) -> bool:
    """Whether a running voter's log has this batch now; it may have started since it was last examined."""
    node = node_of_quorum(cluster.processes[name].node)
    if node is None or not node.raft.log.start_offset <= batch.base <= batch.last < node.raft.end_offset:
        return False
    reads = batches_of(lambda offset, upper: node.raft.log.read(offset, READ_BYTES), batch.base, batch.last + 1)
    return next((found for found, _ in reads), None) == batch
