"""What a node tells of itself, read off a combined node in the hands of a test (issue 4, requirements §1.16)."""

from __future__ import annotations

import math

import pytest

from squall.nodes.node import metric_names as names
from squall.nodes.node.metric_names import METRICS, SUMMARY
from squall.nodes.node.metrics import Collector, Sample
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.describe_quorum import DescribeQuorumRequest
from squall.nodes.protocol.messages.metadata import MetadataRequest
from tests.nodes.node.test_node import CLIENT, CONTROL, SECOND, Clock, Host


class Read:
    """One collection, by name and labels."""

    def __init__(self, host: Host) -> None:
        collector = Collector(host.node, Clock(), 0, 0)
        self.samples = [sample for sample in collector.collect(host.now, 0) if sample is not None]

    def of(self, metric: names.Metric, suffix: str = "", **labels: str) -> float:
        found = self._matching(metric, suffix, labels)
        assert len(found) == 1, f"{metric.name}{suffix} {labels}: {found}"
        return found[0].value

    def _matching(self, metric: names.Metric, suffix: str, labels: dict[str, str]) -> list[Sample]:
        return [
            one
            for one in self.samples
            if one.metric is metric and one.suffix == suffix and labels.items() <= dict(one.labels).items()
        ]


@pytest.fixture
def host() -> Host:
    made = Host()
    made.run()
    return made


def create(host: Host, topic: str, partitions: int) -> None:
    host.open(77, CLIENT)
    host.send(77, CreateTopicsRequest(topics=[CreatableTopic(topic, partitions, 1)], timeout_ms=1000), 7)
    host.run(SECOND)


def test_the_active_controller_says_so_and_counts_what_the_cluster_has(host: Host) -> None:
    create(host, "orders", 3)
    read = Read(host)
    assert read.of(names.ACTIVE_CONTROLLERS) == 1
    assert read.of(names.RAFT_STATE, state="leader") == 1
    assert read.of(names.RAFT_STATE, state="follower") == 0
    assert read.of(names.RAFT_LEADER) == read.of(names.RAFT_VOTE) == 1
    assert read.of(names.ACTIVE_BROKERS) == 1
    assert read.of(names.FENCED_BROKERS) == 0
    assert read.of(names.TOPICS) == 1
    assert read.of(names.PARTITIONS) == 3
    assert read.of(names.OFFLINE_PARTITIONS) == read.of(names.IMBALANCED_PARTITIONS) == 0
    assert read.of(names.APPLIED_OFFSET) == read.of(names.COMMITTED_OFFSET) == host.node.raft.high_watermark - 1
    assert read.of(names.APPLIED_LAG) == 0, "always, on the active controller"
    assert read.of(names.NEW_CONTROLLERS) == 1


def test_a_broker_counts_its_topic_partitions_and_their_logs(host: Host) -> None:
    create(host, "orders", 3)
    read = Read(host)
    assert read.of(names.PARTITION_COUNT) == read.of(names.LEADER_COUNT) == read.of(names.AT_MIN_ISR) == 3
    assert read.of(names.UNDER_REPLICATED) == read.of(names.UNDER_MIN_ISR) == read.of(names.OFFLINE_REPLICAS) == 0
    assert read.of(names.LOG_END, topic="orders", partition="2") == 0
    assert read.of(names.BROKER_STATE) == 3


def test_requests_are_counted_on_the_plane_they_came_in_on(host: Host) -> None:
    """CL-24: the planes have metrics of their own."""
    host.open(1, CLIENT)
    host.open(2, CONTROL)
    for _ in range(3):
        host.send(1, MetadataRequest(), 12)
    host.send(2, DescribeQuorumRequest(), 2)
    waiting = Read(host)
    assert waiting.of(names.DATA_QUEUE) == 3
    assert waiting.of(names.CONTROL_QUEUE) == 1
    host.iterate()
    host.iterate()
    read = Read(host)
    assert read.of(names.DATA_QUEUE) == read.of(names.CONTROL_QUEUE) == 0
    assert read.of(names.REQUESTS, plane="data", request="Metadata") == 3
    assert read.of(names.TOTAL_TIME, "_count", plane="data", request="Metadata") == 3
    assert read.of(names.REQUESTS, plane="control", request="DescribeQuorum") == 1
    assert read.of(names.CONNECTIONS, listener="CONTROLLER") >= 1


def test_the_time_of_a_request_is_divided_into_waiting_and_being_parked(host: Host) -> None:
    """A heartbeat is answered once what it wrote is committed; CreateTopics waits at the broker for the controller."""
    create(host, "orders", 1)
    read = Read(host)
    parked = read.of(names.REMOTE_TIME, "_sum", plane="data", request="CreateTopics")
    total = read.of(names.TOTAL_TIME, "_sum", plane="data", request="CreateTopics")
    assert 0 < parked <= total
    assert read.of(names.EVENT_QUEUE_TIME, "_count") >= 3, "registration, heartbeats, CreateTopics"
    assert read.of(names.CONTROLLER_REQUEST_TIME, "_count", request="CreateTopics") == 1


def test_a_plane_that_is_off_has_no_idleness(host: Host) -> None:
    """CL-18: NaN when off."""
    host.node.config = host.node.config.of(  # the same node, told that it is a controller only
        {
            "process.roles": "controller",
            "node.id": "1",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "log.dirs": "/data",
        }
    )
    read = Read(host)
    assert math.isnan(read.of(names.DATA_NETWORK_IDLE))
    assert 0 <= read.of(names.CONTROL_NETWORK_IDLE) <= 1
    assert 0 <= read.of(names.CONTROL_HANDLER_IDLE) <= 1


def test_every_metric_of_the_table_is_told_by_some_node_and_no_other(host: Host) -> None:
    """The others are the host's (nodes/server)."""
    create(host, "orders", 1)
    told = {sample.metric.name for sample in Read(host).samples}
    assert told == {metric.name for metric in METRICS if metric not in names.OF_THE_HOST}


def test_summaries_have_quantiles_a_sum_and_a_count(host: Host) -> None:
    for sample in Read(host).samples:
        if sample.metric.kind == SUMMARY:
            assert sample.suffix in ("", "_sum", "_count")
            assert bool(sample.suffix) != any(name == "quantile" for name, _ in sample.labels)
        else:
            assert sample.suffix == ""


def test_a_collection_lets_its_host_breathe(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """At two million topic-partitions a scrape must not stop the node."""
    monkeypatch.setattr("squall.nodes.node.metrics.BREATH", 10)
    create(host, "orders", 100)
    pauses = sum(sample is None for sample in Collector(host.node, Clock(), 0, 0).collect(host.now, 0))
    assert pauses >= 20, "ten while the cluster's are counted, ten for the broker's own"


def test_reading_changes_nothing(host: Host) -> None:
    before = host.node.deadline(), host.node.raft.end_offset, list(host.node.outbox)
    Read(host)
    assert (host.node.deadline(), host.node.raft.end_offset, list(host.node.outbox)) == before
