"""ZK-06: a broker deletes the replica that its controller means, and no other.

StopReplica names a topic, not its id. One that is carried out too late, after a LeaderAndIsr that was sent later, meets
a topic that was created again under the same name, and deletes a replica that is in use.

Asserted in the turn in which the broker deletes the replica, against what the ensemble has decided by then. Legal: a
topic that is gone, or that is to be deleted; a topic-partition that has other replicas now, or is about to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.zookeeper.breach_in_turn import BreachInTurn
from squall.harness.simulation.observer.state.observed_log import InvariantBroken


class StoppedReplicas(BreachInTurn):
    """See the module."""

    events = ("zk_replica_deleted",)

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        broker, topic, number = int(fields["node"]), str(fields["of"]), int(fields["number"])
        known = self.cluster.metadata.image.topics.get(fields["topic_id"])
        if known is None or topic in self.cluster.being_deleted:
            return
        one = known.partitions.get(number)
        if one is not None and broker in one.replicas and broker not in one.rare.removing:
            self.raise_after_turn(
                InvariantBroken(
                    "ZK-06",
                    f"broker {broker} deletes its replica of {topic}-{number}, which has replicas {list(one.replicas)} "
                    f"and is not to be deleted",
                )
            )
