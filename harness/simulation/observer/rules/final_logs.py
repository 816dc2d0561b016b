"""ACK, UNIQ: once the cluster is healthy again, every replica in the ISR has the committed log, batch by batch.

Source: requirements ACK and UNIQ. Asserted once, after the final reads. Legal: a replica outside the ISR;
records below the start of the replica's log; a topic deleted meanwhile.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import Watched
from squall.harness.simulation.observer.state.observed_log import Batch, InvariantBroken
from squall.nodes.replication.replica import TopicPartitionReplica


class FinalLogs(Rule):
    """See the module."""

    def at_end(self) -> None:
        cluster = self.cluster
        for key, registration in cluster.images.newest.items():
            watched = cluster.watched.get(key)
            if watched is None or not cluster.images.is_current(watched.topic, key[0]):
                continue
            for member in registration.isr:
                replica = cluster.replica_of(cluster.names[member], key)
                if replica is not None:
                    self._check(watched, cluster.names[member], replica)

    def _check(self, watched: Watched, name: str, replica: TopicPartitionReplica) -> None:
        log = watched.log
        expected = {base: batch for base, batch in log.canonical.items() if batch.base >= replica.log.start_offset}
        found: dict[int, Batch] = {}
        for batch, _ in self.cluster.batches(replica, log.end):
            found[batch.base] = batch
        for base, batch in expected.items():
            if found.get(base) != batch:
                promised = [offset for offset in watched.promised.acknowledged if base <= offset <= batch.last]
                there = found.get(base)
                raise InvariantBroken(
                    "ACK" if promised and there is None else "UNIQ",
                    f"{log.name}: after healing {name} is in the ISR and has {there or 'nothing'} "
                    f"where {batch} is committed",
                )
