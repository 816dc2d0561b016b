"""ELECT: a new leader of a topic-partition has all that is committed, unless a loss was allowed.

Source: requirement ELECT (KIP-101, KIP-966). Asserted in the turn in which a replica begins to lead an epoch; that an
epoch has one leader is asserted at the same time (`ObservedLog.one_leader`). Legal: an unclean election that the
topic's settings allow, or power losses on at least min ISR brokers. The rule then declares the loss, and counts it.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.client_checker import first_lacking
from squall.harness.simulation.observer.state.observed_log import InvariantBroken


class PartitionLeader(Rule):
    """See the module."""

    def led(self, turn: ReplicaTurn, before: int) -> None:
        cluster, watched, replica = self.cluster, turn.watched, turn.replica
        log, end = watched.log, replica.end_offset
        unclean = watched.is_loss_pending(before)
        if not unclean and end >= log.end:
            return
        if not unclean and not watched.loss_allowed():
            raise InvariantBroken(
                "ELECT",
                f"{log.name}: {turn.process.name} leads epoch {replica.leader_epoch} with log end {end}, "
                f"but records up to {log.end} are committed: {first_lacking(watched.promised, end)}",
            )
        committed, batches = log.end, [batch for batch, _ in cluster.batches(replica, end)]
        place = (turn.process.name, turn.process.incarnation)
        loss = log.declare_loss(place, replica.leader_epoch, batches, end)
        cluster.counters.declared_losses += loss.end < committed
        cluster.client_checker.lost(watched.promised, loss.end)
        if unclean:
            cluster.on_unclean_leader(watched.topic, replica.partition, loss)
