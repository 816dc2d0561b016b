"""Metrics of a ZooKeeper-era node: its session with the ensemble, and the controller, if it is the elected one.

A node that is not the controller reports 0 for what only the controller knows, as in Kafka.
"""

from __future__ import annotations

from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics import samples
from squall.nodes.node.metrics.metric_names import Metric
from squall.nodes.node.metrics.samples import Collected, Sample, summary
from squall.nodes.node.timings import Recent
from squall.nodes.node.zookeeper_times import ZooKeeperTimes
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.controller.context import ControllerContext, PartitionState, ReplicaState
from squall.nodes.zookeeper.controller.controller import ZooKeeperController
from squall.nodes.zookeeper.session import SessionState

_BY_STATE = {
    "ControllerChange": names.CONTROLLER_CHANGES,
    "LeaderElection": names.BROKER_CHANGES,
    "TopicChange": names.TOPIC_CHANGES,
    "TopicDeletion": names.TOPIC_DELETIONS,
    "IsrChange": names.ISR_CHANGES,
    "PartitionReassignment": names.REASSIGNMENTS,
    "ListPartitionReassignment": names.REASSIGNMENT_LISTS,
    "ControlledShutdown": names.CONTROLLED_SHUTDOWNS,
    "ManualLeaderBalance": names.MANUAL_ELECTIONS,
    "UncleanLeaderElectionEnable": names.CONFIG_CHANGES,
}
_DELETING = (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE)
_WITHOUT_LEADER = (PartitionState.NEW, PartitionState.OFFLINE)


def zookeeper_metrics(client: ZooKeeperClient, controller: ZooKeeperController, times: ZooKeeperTimes) -> Collected:
    for one in SessionState:
        yield Sample(names.SESSION_STATE, float(client.session.state is one), (("state", one.value),))
    yield Sample(names.SESSION_CONNECTS, client.connects)
    yield Sample(names.SESSION_DISCONNECTS, client.disconnects)
    yield Sample(names.SESSION_EXPIRIES, client.expiries)
    yield from _summary(names.ZOOKEEPER_LATENCY, times.responses)
    context = controller.context if controller.is_active else ControllerContext()
    yield Sample(names.ACTIVE_CONTROLLERS, float(controller.is_active))
    yield Sample(names.ACTIVE_BROKERS, len(context.brokers))
    yield Sample(names.FENCED_BROKERS, 0)  # none is: a broker is there, or its session has expired
    yield Sample(names.UNCLEAN_ELECTIONS, controller.unclean_elections)
    yield Sample(names.EVENT_QUEUE_SIZE, len(controller.loop))
    yield from _summary(names.EVENT_QUEUE_TIME, times.queue)
    for state, recent in times.procedures.items():
        yield from _summary(_BY_STATE[state], recent)
    queued = {broker: controller.queues.waiting_for(broker) for broker in controller.queues.brokers}
    yield Sample(names.REQUESTS_QUEUED, sum(queued.values()))
    for broker, waiting in sorted(queued.items()):
        yield Sample(names.BROKER_QUEUE, waiting, (("broker_id", str(broker)),))
    yield from _deletions(context)
    yield from _census(context)


def _summary(metric: Metric, recent: Recent) -> Collected:
    yield from summary(metric, (), recent.values(), recent.count, recent.total)


def _deletions(context: ControllerContext) -> Collected:
    topics = list(context.to_delete)
    states = {topic: [context.replica_states.get(one) for one in context.replicas_of_topic(topic)] for topic in topics}
    waiting = {topic: found.count(ReplicaState.DELETION_INELIGIBLE) for topic, found in states.items()}
    yield Sample(names.TOPICS_TO_DELETE, len(topics))
    yield Sample(names.REPLICAS_TO_DELETE, sum(one in _DELETING for found in states.values() for one in found))
    yield Sample(names.TOPICS_INELIGIBLE, sum(count > 0 for count in waiting.values()))
    yield Sample(names.REPLICAS_INELIGIBLE, sum(waiting.values()))


def _census(context: ControllerContext) -> Collected:
    """Count the cluster's topic-partitions by reading every one; there may be millions."""
    offline = imbalanced = 0
    keys = list(context.partitions())
    for number, key in enumerate(keys, 1):
        if not context.is_being_deleted(key[0]):
            offline += context.partition_states.get(key) in _WITHOUT_LEADER
            state, replicas = context.states.get(key), context.replicas(*key)
            imbalanced += state is not None and state.leader != replicas[0]
        if number % samples.BREATH == 0:
            yield None
    yield Sample(names.TOPICS, len(context.assignments))
    yield Sample(names.PARTITIONS, len(keys))
    yield Sample(names.OFFLINE_PARTITIONS, offline)
    yield Sample(names.IMBALANCED_PARTITIONS, imbalanced)
