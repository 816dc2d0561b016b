"""A rule that reads a replica's whole log, at the moments at which what the replica knows of it is made anew.

Reading a log after every turn would cost more than the run. What a replica derives from its log is carried on from
append to append, and made anew at a start and at a truncation: there it goes wrong. What goes wrong in between is still
there at the end of the run.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.nodes.replication.replica import TopicPartitionReplica


class WholeLogRule(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._known: dict[tuple[str, str, bytes, int], int] = {}
        """The incarnation of each replica's host when the rule last examined the replica."""

    def examine(self, log: str, name: str, replica: TopicPartitionReplica) -> None:
        """Examine a replica of `log` on the host `name`. Raises InvariantBroken."""
        raise NotImplementedError

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        process, replica = turn.process, turn.replica
        key = (process.name, replica.topic, replica.topic_id, replica.partition)
        if turn.cut is not None or self._known.get(key) != process.incarnation:
            self._known[key] = process.incarnation
            self.examine(turn.watched.log.name, process.name, replica)

    def at_end(self) -> None:
        for key, watched in self.cluster.watched.items():
            for name in self.cluster.processes:
                replica = self.cluster.replica_of(name, key)
                if replica is not None:
                    self.examine(watched.log.name, name, replica)
