"""ISR: every replica that a leader counts as in sync, a pending change included, has all below its high watermark.

So has every member of the ISR that the controllers have committed in the leader's epoch, whether or not the leader has
heard of it: it proposed that member, and counts it until it knows better.

Source: requirement ISR (KIP-497, maximal ISR), IS-05. Asserted on the newest leader when it is touched, for all these
members, and on a member when that is touched. Legal: a member that is down or not registered yet; a member that has
left the ISR under a later leader epoch, of which a deposed leader does not know; a member that lost its un-synced
records.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.client_checker import first_lacking
from squall.harness.simulation.observer.state.observed_cluster import Watched
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.replication.replica import TopicPartitionReplica


class CountedMembers(Rule):
    """See the module."""

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        watched, replica, cluster = turn.watched, turn.replica, self.cluster
        log, key = watched.log, (replica.topic_id, replica.partition)
        if replica.is_leader and replica.leader_epoch == log.newest_epoch:
            for member in self._members(replica):
                other = cluster.replica_of(cluster.names[member], key)
                if other is not None and other is not replica:
                    self._hold_to(watched, turn.process.name, replica, cluster.names[member], other)
            return
        leader_name = log.leaders.get(log.newest_epoch)
        leader = None if leader_name is None else cluster.replica_of(leader_name, key)
        if leader_name is None or leader is None or leader is replica or not leader.is_leader:
            return
        if leader.leader_epoch == log.newest_epoch and replica.broker in self._members(leader):
            self._hold_to(watched, leader_name, leader, turn.process.name, replica)

    def _members(self, leader: TopicPartitionReplica) -> tuple[int, ...]:
        """Return whom this leader counts, and who is committed as a member in its epoch."""
        registration = self.cluster.images.newest.get((leader.topic_id, leader.partition))
        if registration is None or registration.leader_epoch != leader.leader_epoch:
            return leader.maximal_isr
        return (*leader.maximal_isr, *(one for one in registration.isr if one not in leader.maximal_isr))

    def _hold_to(
        self,
        watched: Watched,
        leader_name: str,
        leader: TopicPartitionReplica,
        member_name: str,
        member: TopicPartitionReplica,
    ) -> None:
        if member.end_offset >= leader.high_watermark or not self.cluster.is_registered(member_name):
            return
        if len(watched.robbed) >= watched.min_isr or member_name in watched.robbed:
            return
        if self._is_out_since(leader, member.broker):
            return
        raise InvariantBroken(
            "ISR",
            f"{watched.log.name}: leader {leader_name} of epoch {leader.leader_epoch} has high watermark "
            f"{leader.high_watermark}, ISR member {member_name} ends at {member.end_offset}: "
            f"{first_lacking(watched.promised, member.end_offset)}",
        )

    def _is_out_since(self, leader: TopicPartitionReplica, member: int) -> bool:
        """Return whether a deposed leader, unaware of its deposition, counts a member that has since left the ISR.

        A reassignment may even have removed the replica, and another reassignment restored it, empty (RA-03).
        """
        registration = self.cluster.images.newest.get((leader.topic_id, leader.partition))
        if registration is None or registration.leader_epoch <= leader.leader_epoch:
            return False
        return member not in registration.isr
