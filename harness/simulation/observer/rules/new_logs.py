"""MD-05: a topic-partition begins empty on each of its hosts, also under a name that was used before.

A topic's directory is named after the topic, not after its id. A broker that was away while a topic was deleted and
created again finds the old records there; if it took them over, deleted records would come back, and be replicated if
that broker leads. Source: KIP-516.

Asserted when a host's replica of a topic-partition is seen for the first time, in the turn in which it is created; and
whenever a process is seen to host one for the first time: the id in the log's directory is that of the topic. Legal: a
leader that has appended in that very turn; a host that died within a turn after the topic existed, whose replica may
have been filled before it was ever seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.log_manager import PARTITION_METADATA
from squall.nodes.protocol.topic_partition import format_id


class NewLogs(Rule):
    """See the module."""

    events = ("leader", "follower")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._begun: dict[tuple[str, TopicPartitionId], int] = {}
        """The log ends of replicas when they began to lead or follow in this turn."""
        self._seen: dict[tuple[str, TopicPartitionId], None] = {}
        self._deaths: dict[str, int] = {}
        self._hosted: dict[tuple[str, int, TopicPartitionId], None] = {}
        """By host, incarnation and topic-partition, the directories whose id has been compared."""

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
        self._check_directory(turn, key)
        if (name, key) in self._seen:
            return
        self._seen[name, key] = None
        if end:
            raise InvariantBroken(
                "MD-05",
                f"{turn.watched.log.name}: {name} creates its replica of a new topic-partition, id "
                f"{replica.topic_id.hex()}, with records up to {end}",
            )

    def _check_directory(self, turn: ReplicaTurn, key: TopicPartitionId) -> None:
        process, replica = turn.process, turn.replica
        if (process.name, process.incarnation, key) in self._hosted:
            return
        self._hosted[process.name, process.incarnation, key] = None
        content = process.disk.content(f"{replica.log.directory}/{PARTITION_METADATA}")
        expected = format_id(replica.topic_id)
        if content is None or expected not in content.decode(errors="replace"):
            raise InvariantBroken(
                "MD-05",
                f"{turn.watched.log.name}: {process.name} has records of topic {expected} in a directory that says "
                f"{'nothing' if content is None else repr(content.decode(errors='replace'))}",
            )
