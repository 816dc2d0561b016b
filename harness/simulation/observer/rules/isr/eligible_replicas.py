"""ISR: every running member of the committed ISR or ELR has every committed record, since it may lead next.

Source: requirement ISR (KIP-966). Asserted when records are committed, when membership changes, and when a member is
touched. Legal: a member that is down, or whose new incarnation is not registered yet; a loss that is allowed.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.client_checker import first_lacking
from squall.harness.simulation.observer.state.observed_cluster import TopicPartitionId, Watched
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.replication.replica import TopicPartitionReplica


class EligibleReplicas(Rule):
    """See the module."""

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        key = (turn.replica.topic_id, turn.replica.partition)
        if turn.watched.log.end > committed_before:
            self.membership_changed(key, turn.watched)
        else:
            self._check_one(turn.process.name, turn.replica, key, turn.watched)

    def membership_changed(self, key: TopicPartitionId, watched: Watched) -> None:
        registration, names = self.cluster.images.newest.get(key), self.cluster.names
        if registration is None:
            return
        for member in (*registration.isr, *registration.elr):
            replica = self.cluster.replica_of(names[member], key)
            if replica is not None and replica.end_offset < watched.log.end:
                self._check_one(names[member], replica, key, watched)

    def _check_one(self, name: str, replica: TopicPartitionReplica, key: TopicPartitionId, watched: Watched) -> None:
        registration, log = self.cluster.images.newest.get(key), watched.log
        if registration is None or replica.end_offset >= log.end:
            return
        kind = "ISR" if replica.broker in registration.isr else "ELR" if replica.broker in registration.elr else None
        if kind is None or watched.loss_allowed() or not self.cluster.is_registered(name):
            return
        raise InvariantBroken(
            "ISR",
            f"{log.name}: {name} is in the committed {kind} and ends at {replica.end_offset}, "
            f"records up to {log.end} are committed: {first_lacking(watched.promised, replica.end_offset)}",
        )
