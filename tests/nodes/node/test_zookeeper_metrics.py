"""The metrics of a ZooKeeper-era node: its session and its controller, by Kafka's names."""

from __future__ import annotations

import pytest

from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.zookeeper_metrics import zookeeper_metrics
from squall.nodes.node.zookeeper_times import STATES, ZooKeeperTimes
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from squall.nodes.zookeeper.controller.controller import ZooKeeperController
from tests.nodes.node.test_control_plane_listener import OFF, ZooKeeperHost
from tests.nodes.node.test_metrics import Read, create
from tests.nodes.zookeeper.conftest import Cluster

KRAFT_ONLY = ("raft", "metadata_version", "snapshot", "_applied_", "_committed_", "registration_state")


class Told:
    """The metrics of one broker's controller and session."""

    def __init__(self, cluster: Cluster, broker: int) -> None:
        client, controller = cluster.clients[broker], cluster.controllers[broker]
        times = ZooKeeperTimes(client, controller)
        self.samples = [one for one in zookeeper_metrics(client, controller, times) if one is not None]

    def of(self, metric: names.Metric, **labels: str) -> float:
        (found,) = [one for one in self.samples if one.metric is metric and labels.items() <= dict(one.labels).items()]
        return found.value


@pytest.fixture
def host() -> ZooKeeperHost:
    return ZooKeeperHost(OFF)


@pytest.fixture
def running() -> Cluster:
    """A cluster of three brokers, the first its controller, and a topic of one partition."""
    found = Cluster()
    found.start()
    found.create("events")
    return found


def test_the_controller_counts_what_the_cluster_has(running: Cluster) -> None:
    running.create("orders", 3)
    active = running.controller
    told = {broker: Told(running, broker) for broker in running.controllers}
    (controller,) = [broker for broker, one in running.controllers.items() if one is active]
    assert {broker: one.of(names.ACTIVE_CONTROLLERS) for broker, one in told.items()} == {
        broker: float(broker == controller) for broker in told
    }
    assert told[controller].of(names.TOPICS) == 2 and told[controller].of(names.PARTITIONS) == 4
    assert told[controller].of(names.ACTIVE_BROKERS) == 3 and told[controller].of(names.OFFLINE_PARTITIONS) == 0
    others = [one for broker, one in told.items() if broker != controller]
    assert [one.of(names.PARTITIONS) for one in others] == [0, 0], "only the controller knows"


def test_a_topic_partition_without_a_leader_is_offline(running: Cluster) -> None:
    placed = [CreatableReplicaAssignment(0, [2]), CreatableReplicaAssignment(1, [3])]
    running.ask(CreateTopicsRequest(topics=[CreatableTopic("pinned", -1, -1, placed)]))
    running.expire(2)
    told = Told(running, 1)
    assert told.of(names.OFFLINE_PARTITIONS) == 1 and told.of(names.ACTIVE_BROKERS) == 2
    running.expire(3)
    assert Told(running, 1).of(names.OFFLINE_PARTITIONS) == 2


def test_another_leader_than_the_first_replica_is_an_imbalance(running: Cluster) -> None:
    led_by = running.state("events").leader
    others = [broker for broker in running.controllers if broker not in (led_by, 1)]
    running.expire(led_by)
    active = next(broker for broker, one in running.controllers.items() if one.is_active)
    assert Told(running, active).of(names.IMBALANCED_PARTITIONS) == 1, others


def test_a_leader_out_of_sync_is_counted(running: Cluster) -> None:
    placed = [CreatableReplicaAssignment(0, [2, 3])]
    unclean = [CreatableTopicConfig("unclean.leader.election.enable", "true")]
    running.ask(CreateTopicsRequest(topics=[CreatableTopic("pinned", -1, -1, placed, unclean)]))
    running.expire(3)
    running.expire(2)
    assert Told(running, 1).of(names.UNCLEAN_ELECTIONS) == 0, "there is nobody left to lead"
    running.add(3)
    running.run()
    assert running.state("pinned").leader == 3
    assert Told(running, 1).of(names.UNCLEAN_ELECTIONS) == 1


def test_a_deletion_waits_for_a_broker_that_is_down(running: Cluster) -> None:
    running.expire(3)
    running.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="events")]))
    told = Told(running, 1)
    assert told.of(names.TOPICS_TO_DELETE) == told.of(names.TOPICS_INELIGIBLE) == 1
    assert told.of(names.REPLICAS_INELIGIBLE) == 1


def test_what_brokers_have_not_answered_is_counted(running: Cluster) -> None:
    running.silent.add(2)
    placed = [CreatableReplicaAssignment(0, [2, 3])]
    running.ask(CreateTopicsRequest(topics=[CreatableTopic("slow", -1, -1, placed)]))
    told = Told(running, 1)
    waiting = told.of(names.BROKER_QUEUE, broker_id="2")
    assert waiting >= 1 and told.of(names.BROKER_QUEUE, broker_id="3") == 0
    assert told.of(names.REQUESTS_QUEUED) == waiting


def test_a_session_that_expires_is_counted(running: Cluster) -> None:
    assert Told(running, 2).of(names.SESSION_EXPIRIES) == 0
    running.expire(2)
    assert Told(running, 2).of(names.SESSION_EXPIRIES) == 1


def test_procedures_and_responses_of_the_ensemble_are_timed(host: ZooKeeperHost) -> None:
    create(host, "orders", 3)
    read = Read(host)
    assert read.of(names.TOPIC_CHANGES, "_count") >= 1
    assert read.of(names.CONTROLLER_CHANGES, "_count") >= 1, "its own election"
    assert read.of(names.EVENT_QUEUE_TIME, "_count") >= 2
    assert read.of(names.ZOOKEEPER_LATENCY, "_count") > 10
    assert read.of(names.SESSION_STATE, state="connected") == 1
    assert read.of(names.PARTITIONS) == 3


def test_every_procedure_has_a_state_in_kafka() -> None:
    assert {ApiKey(key).name.lower() for key in ZooKeeperController.API_KEYS} <= set(STATES)


def test_what_belongs_to_the_quorum_is_not_told(host: ZooKeeperHost) -> None:
    """A ZooKeeper-era Kafka has no such metrics either."""
    told = {sample.metric.name for sample in Read(host).samples}
    assert not [name for name in told if any(part in name for part in KRAFT_ONLY)]
