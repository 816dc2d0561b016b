"""What a node tells of itself, read off a combined node in the hands of a test."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from squall.nodes.metadata.features import METADATA_VERSION_LEVEL
from squall.nodes.metadata.records import PartitionChangeRecord
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.collector import Collector
from squall.nodes.node.metrics.metric_names import METRICS, SUMMARY
from squall.nodes.node.metrics.samples import Sample
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from squall.nodes.protocol.messages.describe_quorum import DescribeQuorumRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from squall.nodes.protocol.messages.metadata import MetadataRequest
from squall.nodes.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.raft.config import TOPIC as METADATA_TOPIC
from squall.nodes.raft.config import TOPIC_ID as METADATA_TOPIC_ID
from tests.nodes.node.test_control_plane_listener import OFF, ZooKeeperHost
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
    """By one of a quorum, or one on ZooKeeper. The others are the host's (nodes/server)."""
    create(host, "orders", 1)
    produce(host, "orders", b"one")
    of_node = [metric.name for metric in METRICS if metric not in names.OF_THE_HOST]
    of_zookeeper = {metric.name for metric in names.OF_ZOOKEEPER}
    quorum, zookeeper = ({sample.metric.name for sample in Read(one).samples} for one in (host, ZooKeeperHost(OFF)))
    assert quorum == set(of_node) - of_zookeeper
    assert quorum | zookeeper == set(of_node)


def test_summaries_have_quantiles_a_sum_and_a_count(host: Host) -> None:
    for sample in Read(host).samples:
        if sample.metric.kind == SUMMARY:
            assert sample.suffix in ("", "_sum", "_count")
            assert bool(sample.suffix) != any(name == "quantile" for name, _ in sample.labels)
        else:
            assert sample.suffix == ""


def test_a_collection_lets_its_host_breathe(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """At two million topic-partitions a scrape must not stop the node."""
    monkeypatch.setattr("squall.nodes.node.metrics.samples.BREATH", 10)
    create(host, "orders", 100)
    pauses = sum(sample is None for sample in Collector(host.node, Clock(), 0, 0).collect(host.now, 0))
    assert pauses >= 20, "ten while the cluster's are counted, ten for the broker's own"


def test_reading_changes_nothing(host: Host) -> None:
    before = host.node.deadline(), host.node.raft.end_offset, list(host.node.outbox)
    Read(host)
    assert (host.node.deadline(), host.node.raft.end_offset, list(host.node.outbox)) == before


# -- values that move ------------------------------------------------------------------------------------------------


def produce(host: Host, topic: str, *values: bytes, partition: int = 0, acks: int = 1) -> None:
    batch = build_batch([Record(key=None, value=value) for value in values])
    data = [TopicProduceData(topic, [PartitionProduceData(partition, batch)])]
    host.send(77, ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data), 9)
    host.run(1000)


def fetch(host: Host, topic: str, offset: int, *, wait_ms: int = 0, connection: int = 77) -> None:
    wanted = [FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=offset)])]
    host.send(connection, FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=wanted), 11)
    host.run(1000)


def test_produced_and_fetched_records_are_counted_for_their_topic_and_for_all(host: Host) -> None:
    create(host, "orders", 1)
    create(host, "bills", 1)
    produce(host, "orders", b"a", b"b", b"c")
    produce(host, "bills", b"d")
    fetch(host, "orders", 0)
    fetch(host, "orders", 3)
    read = Read(host)
    assert read.of(names.TOPIC_MESSAGES_IN, topic="orders") == 3
    assert read.of(names.TOPIC_MESSAGES_IN, topic="bills") == 1
    assert read.of(names.MESSAGES_IN) == 4
    size = read.of(names.LOG_SIZE, topic="orders", partition="0")
    assert read.of(names.TOPIC_BYTES_IN, topic="orders") == size > 0
    assert read.of(names.TOPIC_BYTES_OUT, topic="orders") == size, "once: the second fetch found nothing"
    assert read.of(names.TOPIC_BYTES_OUT, topic="bills") == 0
    assert read.of(names.BYTES_OUT) == size
    assert read.of(names.TOPIC_PRODUCES, topic="orders") == read.of(names.TOPIC_PRODUCES, topic="bills") == 1
    assert read.of(names.TOPIC_FETCHES, topic="orders") == read.of(names.FETCHES) == 2
    assert read.of(names.PRODUCES) == 2


def test_what_is_refused_is_counted_as_failed_also_where_no_topic_has_the_name(host: Host) -> None:
    create(host, "orders", 1)
    produce(host, "orders", b"a", acks=7)
    produce(host, "nowhere", b"a")
    produce(host, "elsewhere", b"a")
    fetch(host, "orders", 99)
    fetch(host, "nowhere", 0)
    read = Read(host)
    assert read.of(names.TOPIC_FAILED_FETCHES, topic="orders") == 1, "its offset is out of range"
    assert read.of(names.FAILED_FETCHES) == 2
    assert read.of(names.FAILED_PRODUCES) == 3
    assert read.of(names.PRODUCES) == 3
    told = {dict(sample.labels).get("topic") for sample in read.samples}
    assert not told & {"nowhere", "elsewhere"}, "whoever invents names must not fill the memory with counters"


def test_a_topic_that_is_deleted_takes_its_counters_along_and_the_sum_stays(host: Host) -> None:
    create(host, "orders", 1)
    produce(host, "orders", b"a", b"b")
    before = Read(host).of(names.BYTES_IN)
    host.send(77, DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000), 6)
    host.run(SECOND)
    read = Read(host)
    assert read.of(names.BYTES_IN) == before > 0
    assert read.of(names.MESSAGES_IN) == 2
    assert not [sample for sample in read.samples if ("topic", "orders") in sample.labels]


def test_a_parked_fetch_and_its_session_are_told_of_while_they_last(host: Host) -> None:
    create(host, "orders", 1)
    host.now += SECOND
    read = Read(host)
    assert read.of(names.PURGATORY, delayed_operation="Fetch") == 0
    wanted = [FetchTopic(topic="orders", partitions=[FetchPartition(partition=0)])]
    asked = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_epoch=0, topics=wanted)
    host.open(78)
    host.send(78, asked, 11)
    host.run(1000)
    read = Read(host)
    assert read.of(names.PURGATORY, delayed_operation="Fetch") == 1
    assert read.of(names.PURGATORY, delayed_operation="Produce") == 0
    assert read.of(names.FETCH_SESSIONS) == 1
    host.run(SECOND)
    assert Read(host).of(names.PURGATORY, delayed_operation="Fetch") == 0


def test_the_quorum_counts_its_voters_observers_and_records(host: Host) -> None:
    first = Read(host)
    assert first.of(names.RAFT_VOTERS) == 1
    assert first.of(names.RAFT_OBSERVERS) == first.of(names.RAFT_VOTER_CHANGE) == 0
    assert first.of(names.RAFT_APPENDED) == host.node.raft.end_offset
    assert first.of(names.RAFT_FETCHED) == 0
    assert first.of(names.CURRENT_CONTROLLER) == 1
    create(host, "orders", 3)
    second = Read(host)
    assert second.of(names.RAFT_APPENDED) - first.of(names.RAFT_APPENDED) >= 4, "a topic and three topic-partitions"
    assert second.of(names.EVENTS_STARTED) > first.of(names.EVENTS_STARTED)


def test_who_does_not_vote_is_an_observer_whatever_its_role_is_called() -> None:
    """By the voters in the log, not by its configuration: a controller may be added later (KIP-853)."""
    alone = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://127.0.0.1:{CLIENT}"}
    read = Read(Host(properties=alone))
    assert read.of(names.RAFT_STATE, state="observer") == 1
    assert read.of(names.RAFT_STATE, state="unattached") == 0
    assert read.of(names.RAFT_VOTERS) == 1
    assert read.of(names.CURRENT_CONTROLLER) == -1


def test_an_observer_that_fetches_is_counted(host: Host) -> None:
    partition = FetchPartition(partition=0, current_leader_epoch=host.node.raft.epoch, last_fetched_epoch=0)
    topics = [FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])]
    host.open(5, CONTROL)
    host.send(5, FetchRequest(replica_state=ReplicaState(7, -1), max_wait_ms=0, topics=topics), 17)
    host.iterate()
    assert Read(host).of(names.RAFT_OBSERVERS) == 1


def test_registrations_tell_who_is_fenced_and_who_is_leaving(host: Host) -> None:
    """KIP-1131's numbers."""
    read = Read(host)
    assert read.of(names.BROKER_REGISTRATION, broker="1") == 30
    assert read.of(names.SHUTTING_DOWN_BROKERS) == 0
    brokers = host.node.controller.committed.brokers  # type: ignore[union-attr]
    brokers[1] = replace(brokers[1], in_controlled_shutdown=True)
    read = Read(host)
    assert read.of(names.BROKER_REGISTRATION, broker="1") == 20
    assert read.of(names.SHUTTING_DOWN_BROKERS) == 1
    brokers[1] = replace(brokers[1], fenced=True)
    read = Read(host)
    assert read.of(names.BROKER_REGISTRATION, broker="1") == 10
    assert read.of(names.SHUTTING_DOWN_BROKERS) == 0
    assert read.of(names.FENCED_BROKERS) == 1


def test_a_reassignment_is_told_of_until_it_ends_and_nobody_misses_those_it_adds(host: Host) -> None:
    """Kafka counts as under-replicated what lacks one of the replicas it had."""
    create(host, "orders", 2)
    image = host.node.broker.image  # type: ignore[union-attr]
    [topic] = image.topics

    def change(**fields: list[int]) -> Read:
        record = PartitionChangeRecord(partition_id=0, topic_id=topic, **fields)  # type: ignore[arg-type]
        image.replay(record, image.last_offset + 1, image.last_epoch)
        return Read(host)

    read = change(replicas=[1, 2], adding_replicas=[2])
    assert read.of(names.REASSIGNING) == 1
    assert read.of(names.UNDER_REPLICATED) == 0
    read = change(adding_replicas=[])
    assert read.of(names.REASSIGNING) == 0
    assert read.of(names.UNDER_REPLICATED) == 1
    assert read.of(names.PARTITION_UNDER_REPLICATED, topic="orders", partition="0") == 1
    assert read.of(names.PARTITION_UNDER_REPLICATED, topic="orders", partition="1") == 0


def test_a_snapshot_that_is_made_has_a_size_and_becomes_older() -> None:
    made = Host(properties={"metadata.log.max.record.bytes.between.snapshots": "1"})
    made.run()
    read = Read(made)
    [newest] = made.node.raft.snapshots.ids[-1:]
    assert read.of(names.SNAPSHOT_BYTES) == made.node.raft.snapshots.size_of(newest) > 0
    young = read.of(names.SNAPSHOT_AGE)
    made.now += 3 * SECOND
    assert Read(made).of(names.SNAPSHOT_AGE) == young + 3000


def test_without_a_snapshot_its_age_is_that_of_the_node(host: Host) -> None:
    read = Read(host)
    assert read.of(names.SNAPSHOT_BYTES) == 0
    assert read.of(names.SNAPSHOT_AGE) == host.now // 1000


def test_a_snapshot_that_is_loaded_is_counted() -> None:
    made = Host(properties={"metadata.log.max.record.bytes.between.snapshots": "1"})
    made.run()
    made.node.close(made.now)
    again = Host(disk=made.disk)
    again.run()
    read = Read(again)
    assert read.of(names.LOADED_SNAPSHOTS) == 2, "one for the controller, one for the broker in the same node"
    assert read.of(names.METADATA_VERSION) == METADATA_VERSION_LEVEL


def test_a_broker_tells_how_old_the_metadata_is_that_it_goes_by(host: Host) -> None:
    read = Read(host)
    applied = host.node.broker.observer.last_applied_ms  # type: ignore[union-attr]
    assert read.of(names.BROKER_APPLIED_TIMESTAMP) == applied > 0
    assert read.of(names.BROKER_APPLIED_LAG) == Clock().now_ms() - applied
    host.node.broker.observer.last_applied_ms = applied - 7000  # type: ignore[union-attr]
    assert Read(host).of(names.BROKER_APPLIED_LAG) == Clock().now_ms() - applied + 7000
