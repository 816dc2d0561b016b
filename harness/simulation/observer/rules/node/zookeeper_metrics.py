"""METRIC: the metrics of a ZooKeeper-era controller count the cluster as the ensemble has it.

The controller counts brokers, topics and topic-partitions in its own context, which it updates by the ensemble's
watches. Nothing else that it does depends on these counts. Asserted at the end of a run, when the cluster is whole, of
each node with a ZooKeeper session:

* at most one node reports that it is the active controller;
* the active controller counts the registered brokers, the topics and topic-partitions in the ensemble, those without a
  leader, those whose leader is not the preferred one, and the topics to be deleted;
* every other node reports 0 for each of these.

Asserted also within a run, after one in twenty turns of an active controller: its counts of topics and replicas to be
deleted, and of those that cannot be deleted now, are those of its own context, counted one by one.

Source: Kafka's `KafkaController` and `TopicDeletionManager`. Legal: an active controller with events in its queue.
"""

from __future__ import annotations

from collections.abc import Iterator

from squall.harness.simulation.observer.rules.node.expected_gauges import Finding
from squall.harness.simulation.observer.rules.node.told_metrics import Told, check_metric, collected
from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.zookeeper.controller.context import ControllerContext, ReplicaState
from squall.nodes.zookeeper.znodes import NO_LEADER

LOOK_EACH = 20
"""The number of turns of active controllers between two looks at what they delete."""
COUNTS = (
    names.ACTIVE_BROKERS,
    names.TOPICS,
    names.PARTITIONS,
    names.OFFLINE_PARTITIONS,
    names.IMBALANCED_PARTITIONS,
    names.TOPICS_TO_DELETE,
    names.REPLICAS_TO_DELETE,
    names.TOPICS_INELIGIBLE,
    names.REPLICAS_INELIGIBLE,
)


class ZooKeeperMetrics(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._turns = 0

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if not isinstance(node, ZooKeeperNode) or not node.controller.is_active:
            return
        self._turns += 1
        if self._turns % LOOK_EACH == 0:
            for what, value, least, most in _of_deletions(collected(node, process.now), node.controller.context):
                check_metric(process.name, what, value, least, most)

    def at_end(self) -> None:
        processes = self.cluster.processes
        nodes = {name: one.node for name, one in processes.items() if isinstance(one.node, ZooKeeperNode)}
        told = {name: collected(node, processes[name].now) for name, node in nodes.items()}
        for name, node in nodes.items():
            if not node.controller.is_active:
                findings = [(one.name, told[name][one, ()], 0.0, 0.0) for one in COUNTS]
            else:
                findings = [] if len(node.controller.loop) else [*self._of_the_cluster(told[name])]
            for what, value, least, most in findings:
                check_metric(name, what, value, least, most)
        if nodes:
            active = sum(told[name][names.ACTIVE_CONTROLLERS, ()] for name in nodes)
            check_metric("the controllers together", "active controllers", active, 0, 1)

    def _of_the_cluster(self, told: Told) -> Iterator[Finding]:
        image, deleted = self.cluster.metadata.image, self.cluster.being_deleted
        left = [one for topic, _, one in image.all_partitions() if topic.name not in deleted]
        expected = {
            names.ACTIVE_BROKERS: len(image.brokers),
            names.TOPICS: len(image.topics),
            names.PARTITIONS: sum(1 for _ in image.all_partitions()),
            names.OFFLINE_PARTITIONS: sum(one.leader == NO_LEADER for one in left),
            names.IMBALANCED_PARTITIONS: sum(one.leader != one.replicas[0] for one in left),
            names.TOPICS_TO_DELETE: len(deleted),
        }
        for metric, value in expected.items():
            yield metric.name, told[metric, ()], value, value


def _of_deletions(told: Told, context: ControllerContext) -> Iterator[Finding]:
    replicas = {
        topic: [state for (name, _, _), state in context.replica_states.items() if name == topic]
        for topic in context.to_delete
    }
    waiting = {topic: sum(one is ReplicaState.DELETION_INELIGIBLE for one in of) for topic, of in replicas.items()}
    begun = sum(one is ReplicaState.DELETION_STARTED for of in replicas.values() for one in of)
    expected = {
        names.TOPICS_TO_DELETE: len(replicas),
        names.REPLICAS_TO_DELETE: begun + sum(waiting.values()),
        names.TOPICS_INELIGIBLE: sum(count >= 1 for count in waiting.values()),
        names.REPLICAS_INELIGIBLE: sum(waiting.values()),
    }
    for metric, value in expected.items():
        yield metric.name, told[metric, ()], value, value
