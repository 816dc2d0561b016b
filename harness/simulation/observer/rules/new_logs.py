"""MD-05: a topic-partition begins empty on each of its hosts, also under a name that was used before.

A topic's directory is named after the topic, not after its id. A broker that was away while a topic was deleted and
created again finds the old records there; if it took them over, deleted records would come back, and be replicated if
that broker leads. Source: KIP-516.

Asserted when a host's replica of a topic-partition is seen for the first time, in the turn in which it is created.
Legal: a leader that has appended in that very turn; a host that died within a turn after the topic existed, whose
replica may have been filled before it was ever seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess


class NewLogs(Rule):
    """See the module."""

    events = ("leader", "follower")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._begun: dict[tuple[str, TopicPartitionId], int] = {}
        """The log ends of replicas when they began to lead or follow in this turn."""
        self._seen: dict[tuple[str, TopicPartitionId], None] = {}
        self._deaths: dict[str, int] = {}

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        key = (fields["topic_id"], int(fields["partition"]))
        self._begun.setdefault((self.cluster.names[int(fields["broker"])], key), int(fields["end"]))

    def died(self, process: SimProcess) -> None:
        """A death within a turn may hide the creation of a replica: what exists by now is not judged on this host."""
        self._begun.clear()
        deaths = process.crashes_in_calls + process.disk_failures
        if deaths != self._deaths.get(process.name, 0):
            self._deaths[process.name] = deaths
            self._seen.update(dict.fromkeys((process.name, key) for key in self.cluster.images.newest))

    def replica_touched(self, turn: ReplicaTurn) -> None:
        replica, name = turn.replica, turn.process.name
        key = (replica.topic_id, replica.partition)
        end = self._begun.pop((name, key), None)
        if (name, key) in self._seen:
            return
        self._seen[name, key] = None
        if end:
            raise InvariantBroken(
                "MD-05",
                f"{turn.watched.log.name}: {name} creates its replica of a new topic-partition, id "
                f"{replica.topic_id.hex()}, with records up to {end}",
            )
