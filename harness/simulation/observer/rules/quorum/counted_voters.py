"""QC-17: a leader of the quorum counts for a voter only what that voter has.

A Fetch, or an accepted AppendEntries, acknowledges all that lies before its offset. A voter whose log differs names an
offset as well, and is told to truncate; counted, it would commit what it does not have. HWM sees that only where it
makes a majority, which takes an unlucky moment.

Asserted after each turn of a leader in which the end that it counts for a voter rises: that voter has, or was last seen
to have, the leader's last batch below it. Legal: an end up to which the leader's records are committed, which have been
compared; an end where the voter's log begins, after a snapshot; a voter that has died since.

Source: KIP-595, requirement QC-17.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from squall.harness.simulation.observer.rules.quorum.quorum_commitment import voter_has
from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.raft.roles import Leader


@dataclass(slots=True)
class _Counted:
    """What one leader counts for each voter: the ends of their logs."""

    identity: tuple[int, int]
    """The process's incarnation and the quorum's epoch."""
    ends: dict[int, int] = field(default_factory=dict)


class CountedVoters(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._counted: dict[str, _Counted] = {}

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        with_quorum = node_of_quorum(node)
        role = None if with_quorum is None else with_quorum.raft.role
        if not isinstance(role, Leader):
            return
        counted, identity = self._counted.get(process.name), (process.incarnation, role.epoch)
        if counted is None or counted.identity != identity:
            counted = self._counted[process.name] = _Counted(identity)
        for voter, progress in role.others.items():
            before = counted.ends.get(voter, 0)
            counted.ends[voter] = progress.end_offset
            if progress.end_offset > before:
                self._check(process, role.epoch, self.cluster.names[voter], progress.end_offset)

    def _check(self, process: SimProcess, epoch: int, voter: str, end: int) -> None:
        last = self.cluster.quorum.last_below((process.name, process.incarnation), end)
        if last is None or voter_has(self.cluster, voter, last) or self._begins_at(voter, end):
            return
        raise InvariantBroken(
            "QC-17",
            f"{process.name} leads quorum epoch {epoch} and counts records up to {end} for {voter}, which does not "
            f"have batch {last}",
        )

    def _begins_at(self, voter: str, end: int) -> bool:
        node = node_of_quorum(self.cluster.processes[voter].node)
        return node is not None and node.raft.log.start_offset >= end
