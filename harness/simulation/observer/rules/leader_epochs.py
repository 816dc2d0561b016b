"""DP-13: a replica's leader epoch cache names the epoch of each batch of its log (rule 14).

Followers truncate by what their leader's cache says of an epoch's end (KIP-101). A cache that misses an epoch, or
begins one at another offset, lets them keep what diverges or cut what is committed, but only in the next change of
leaders. Asserted after a start, after a truncation, and at the end of the run. Legal: epochs without batches, such as
that of a leader that has not appended yet.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.whole_log import WholeLogRule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.replication.replica import TopicPartitionReplica


class LeaderEpochs(WholeLogRule):
    """See the module."""

    def examine(self, log: str, name: str, replica: TopicPartitionReplica) -> None:
        check_epochs(self.cluster, log, name, replica)


def check_epochs(cluster: ObservedCluster, log: str, name: str, replica: TopicPartitionReplica) -> None:
    """Compare the cache with the batches of the replica's log. Raises InvariantBroken."""
    epochs = replica.log.epochs
    for batch, _ in cluster.batches(replica, replica.end_offset):
        known = epochs.epoch_of(max(batch.base, replica.log.start_offset))
        if known != batch.epoch:
            raise InvariantBroken(
                "DP-13",
                f"{log}: {name} has a batch of epoch {batch.epoch} at offset {batch.base}, and its leader epoch cache "
                f"says epoch {known}: {epochs.entries}",
            )
