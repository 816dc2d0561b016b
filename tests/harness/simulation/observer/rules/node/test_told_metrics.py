"""METRIC as the observer asserts it: a real node, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node import told_metrics
from squall.harness.simulation.observer.rules.node.told_metrics import LOOK_EACH, ToldMetrics, collected
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.broker.broker import Broker
from squall.nodes.broker.lifecycle import BrokerState
from squall.nodes.controller.controller import QuorumController
from squall.nodes.node.channels import Connections
from squall.nodes.node.metrics import controller_metrics
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.metric_names import Metric
from squall.nodes.node.metrics.samples import Labels
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from squall.nodes.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.raft.roles import Leader
from tests.nodes.node.test_node import CLIENT, SECOND, Host

ASKER = 7
LABELS = (("topic", "events"), ("partition", "0"))


class Watched:
    """A combined node with the topic `events`, to which a client has produced, and from which it has fetched."""

    def __init__(self) -> None:
        self.process: Any = SimpleNamespace(name="n1", incarnation=1, last_inputs=[], now=0, node=None)
        self.cluster = ObservedCluster()
        self.cluster.processes, self.cluster.names = {"n1": self.process}, {1: "n1"}
        self.rule = ToldMetrics(self.cluster)
        self.host = Host(trace=_Traced(self.rule))
        self.node = self.process.node = self.host.node
        self.process.disk = self.host.disk
        self.node.connections.on_answer = partial(self.rule.answered, self.process, self.node)
        self._see("opened", self.node.opened)
        self._see("closed", self.node.closed)
        self.host.run()
        self.host.open(ASKER, CLIENT)
        self.ask(CreateTopicsRequest(topics=[CreatableTopic("events", 1, 1)], timeout_ms=1000), 7)
        batch = build_batch([Record(value=b"v")], timestamp=1)
        for topic in ("events", "nowhere"):
            data = [TopicProduceData(topic, [PartitionProduceData(0, batch)])]
            self.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9)
        for offset in (0, 1_000):
            parts = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=4_000)]
            self.ask(FetchRequest(max_bytes=4_000, topics=[FetchTopic(topic="events", partitions=parts)]), 12)

    def _see(self, name: str, method: Callable[..., None]) -> None:
        """Have the rule see an input of the node, as it does after the turn that takes it."""

        def seen(now: int, connection: int, *more: object) -> None:
            method(now, connection, *more)
            self.process.last_inputs = [(seen, (connection, *more))]
            self.rule.turned(self.process, self.node)

        seen.__name__ = name
        setattr(self.node, name, seen)

    def ask(self, message: Any, version: int) -> None:
        self.host.send(ASKER, message, version)
        self.host.run(SECOND // 2)

    @property
    def controller(self) -> QuorumController:
        assert self.node.controller is not None
        return self.node.controller

    @property
    def broker(self) -> Broker:
        assert self.node.broker is not None
        return self.node.broker

    def ends(self) -> None:
        assert len(self.host.answered(ASKER)) == 5
        self.process.now, self.cluster.images.newest_image = self.host.now, self.node.image
        self.cluster.metadata.records[1] = self.node.raft.end_offset
        self.rule.at_end()

    def is_looked_at(self) -> None:
        """The turn after which the gauges are looked at within the run."""
        self.process.now = self.host.now
        for _ in range(LOOK_EACH):
            self.rule.images_examined(self.process, self.node)

    def says_otherwise(self, words: str) -> None:
        with pytest.raises(InvariantBroken, match=rf"^METRIC: {words}$"):
            self.ends()


class _Traced:
    """The trace of a node, of which the rule sees what it asks for."""

    def __init__(self, rule: ToldMetrics) -> None:
        self._rule = rule

    def event(self, name: str, **fields: object) -> None:
        if name in self._rule.events:
            self._rule.traced(name, fields)


def test_what_a_node_says_of_itself_is_what_was_seen() -> None:
    watched = Watched()
    assert watched.node.broker is not None
    counted = watched.node.broker.traffic.total()
    assert (counted.produces, counted.produce_failures, counted.fetches, counted.fetch_failures) == (2, 1, 2, 1)
    assert counted.bytes_out > 0
    watched.ends()


@pytest.mark.parametrize(
    ("counter", "words"),
    [
        ("produces", "kafka_server_total_produce_requests_total: n1 says 3, and it is 2"),
        ("produce_failures", "kafka_server_failed_produce_requests_total: n1 says 2, and it is 0 to 1"),
        ("messages_in", "kafka_server_messages_in_total: n1 says 2, and it is 1"),
        ("fetch_failures", "kafka_server_failed_fetch_requests_total: n1 says 2, and it is 1"),
        ("bytes_out", "kafka_server_bytes_out_total: n1 says [0-9]+, and it is [0-9]+"),
    ],
)
def test_a_counter_that_counts_too_much_breaks_metric(counter: str, words: str) -> None:
    watched = Watched()
    assert watched.node.broker is not None
    topic = watched.node.broker.traffic.of("events")
    setattr(topic, counter, getattr(topic, counter) + 1)
    watched.says_otherwise(words)


def test_a_leader_of_the_quorum_that_says_it_is_not_the_active_controller_breaks_metric(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched()
    monkeypatch.setattr(QuorumController, "is_active", property(lambda self: False))
    watched.says_otherwise("active controllers: the controllers together says 0, and it is 1")


def test_before_an_election_is_over_no_controller_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 70004 of voter-crash-storm: the leader resigned as the last fault ended, and the run was soon over."""
    watched = Watched()
    monkeypatch.setattr(QuorumController, "is_active", property(lambda self: False))
    assert isinstance(watched.node.raft.role, Leader)
    watched.node.raft.role.high_watermark = None
    watched.ends()


def test_a_broker_that_says_it_is_fenced_when_all_is_whole_breaks_metric() -> None:
    watched = Watched()
    assert watched.node.broker is not None
    watched.node.broker.lifecycle.state = BrokerState.FENCED
    watched.says_otherwise("kafka_server_broker_state: n1 says 1, and it is 3")


def test_connections_and_answers_are_counted() -> None:
    watched = Watched()
    watched.node.connections.opened_count["PLAINTEXT"] += 1
    watched.says_otherwise("connections to PLAINTEXT: n1 says [0-9]+, and it is [0-9]+")
    watched.node.connections.opened_count["PLAINTEXT"] -= 1
    (api,) = [times for key, times in watched.node.data_times.by_api.items() if key == 0]
    api.count -= 1
    watched.says_otherwise("answered requests of Produce: n1 says 1, and it is 2")


def test_once_a_connection_has_ended_more_may_have_been_sent_than_was_seen() -> None:
    watched = Watched()
    assert watched.node.broker is not None
    watched.node.closed(watched.host.now, ASKER)
    topic = watched.node.broker.traffic.of("events")
    topic.bytes_out += 100
    watched.ends()
    topic.bytes_out = 0
    watched.says_otherwise("kafka_server_bytes_out_total: n1 says 0, and it is [0-9]+ or more")


def test_metadata_records_are_counted_by_the_part_that_a_node_has() -> None:
    watched = Watched()
    watched.node.raft.log.written_records -= 1
    watched.says_otherwise("kafka_server_raft_append_records_total: n1 says [0-9]+, and it is [0-9]+")
    watched.node.raft.log.written_records += 1
    watched.node.raft.log.fetched_records += 1
    watched.says_otherwise("kafka_server_raft_fetch_records_total: n1 says 1, and it is 0")


def test_followers_fetch_what_they_append_and_no_more_than_they_are_sent() -> None:
    """What they were sent may be lost with a connection, or refused."""
    watched = Watched()
    done = watched.rule._of(watched.process)
    done.replicated, done.sent = 70, 90
    watched.says_otherwise("kafka_server_replication_bytes_in_total: n1 says 0, and it is 70 to 90")
    done.replicated = 0
    watched.ends()


def test_each_change_of_an_isr_ends_well_or_fails() -> None:
    """One that is accepted may fail nevertheless: the answer was lost."""
    watched = Watched()
    sender, done = watched.broker.isr_sender, watched.rule._of(watched.process)
    sender.sent_count, sender.shrinks, done.accepted = 2, 1, 2
    watched.says_otherwise("changes of ISRs that have ended: n1 says 1, and it is 2")
    sender.failures = 1
    watched.ends()
    sender._under_way = {(bytes(16), 0): None}  # type: ignore[dict-item]
    watched.says_otherwise("changes of ISRs that have ended: n1 says 2, and it is 1")
    sender.failures, sender.expands, sender._under_way = 0, 1, {}
    watched.ends()
    done.accepted = 1
    watched.says_otherwise("committed changes of ISRs: n1 says 2, and it is 0 to 1")


def test_a_controller_counts_what_it_has_decided() -> None:
    watched = Watched()
    watched.node.controller_times.count -= 1
    watched.says_otherwise("kafka_controller_.*: n1 says [0-9]+, and it is [0-9]+")
    watched.node.closed(watched.host.now, ASKER)
    watched.says_otherwise("kafka_controller_.*: n1 says [0-9]+, and it is [0-9]+ or more")
    watched.node.controller_times.count += 2
    watched.ends()


def test_elections_that_were_committed_are_counted() -> None:
    """EL-04: those of this controller, which led the quorum in epoch 1."""
    watched = Watched()
    watched.cluster.metadata.eligible_elections[1] += 1
    watched.says_otherwise("kafka_controller_election_from_eligible_leader_replicas_total: n1 says 0, and it is 1")
    watched.controller._changes.eligible_elections = 1
    watched.ends()
    watched.cluster.metadata.eligible_elections[2] += 1
    watched.ends()
    watched.controller._changes.eligible_elections = 2
    watched.says_otherwise("kafka_controller_election_from_eligible_leader_replicas_total: n1 says 2, and it is 1")


def test_elections_that_were_lost_with_the_leadership_may_be_counted() -> None:
    watched = Watched()
    watched.controller._changes.unclean_elections = 1
    watched.rule._of(watched.process).written[3] += 1
    watched.node.raft.log.written_records += 1
    watched.ends()


def test_logs_and_snapshots_are_what_the_disk_has() -> None:
    watched = Watched()
    directory = watched.broker.replicas.all()[0].replica.log.directory
    watched.host.disk.open(f"{directory}/00000000000000000000.log").append(b"foreign")
    watched.says_otherwise("kafka_log_size of events-0: n1 says [0-9]+, and it is [0-9]+")


@pytest.mark.parametrize(
    ("metric", "labels"),
    [
        (names.RAFT_STATE, (("state", "leader"),)),
        (names.RAFT_STATE, (("state", "observer"),)),
        (names.RAFT_LEADER, ()),
        (names.CURRENT_CONTROLLER, ()),
        (names.RAFT_EPOCH, ()),
        (names.RAFT_HIGH_WATERMARK, ()),
        (names.COMMITTED_OFFSET, ()),
        (names.RAFT_END_OFFSET, ()),
        (names.RAFT_END_EPOCH, ()),
        (names.RAFT_OBSERVERS, ()),
        (names.SNAPSHOT_BYTES, ()),
        (names.LOADED_SNAPSHOTS, ()),
        (names.NEW_CONTROLLERS, ()),
        (names.METADATA_VERSION, ()),
        (names.SHUTTING_DOWN_BROKERS, ()),
        (names.APPLIED_OFFSET, ()),
        (names.BROKER_APPLIED_OFFSET, ()),
        (names.UNDER_MIN_ISR, ()),
        (names.AT_MIN_ISR, ()),
        (names.REASSIGNING, ()),
        (names.IN_SYNC, LABELS),
        (names.REPLICA_COUNT, LABELS),
        (names.PARTITION_UNDER_REPLICATED, LABELS),
        (names.PARTITION_UNDER_MIN_ISR, LABELS),
        (names.PARTITION_AT_MIN_ISR, LABELS),
        (names.LOG_START, LABELS),
        (names.LOG_END, LABELS),
        (names.LOG_SEGMENTS, LABELS),
        (names.PURGATORY, (("delayed_operation", "Produce"),)),
        (names.BYTES_IN, ()),
        (names.REPLICATION_IN, ()),
        (names.EVENTS_STARTED, ()),
    ],
)
def test_a_gauge_that_is_off_by_one_breaks_metric(
    monkeypatch: pytest.MonkeyPatch, metric: Metric, labels: Labels
) -> None:
    watched = Watched()
    watched.ends()
    monkeypatch.setattr(told_metrics, "collected", _but_for_one((metric, labels)))
    watched.says_otherwise(f"{metric.name}( of .*)?: n1 says [0-9]+, and it is [0-9]+")


def _but_for_one(wrong: tuple[Metric, Labels]) -> Callable[[Node, int], dict[tuple[Metric, Labels], float]]:
    """What a node says by its metrics, one of them larger than it is."""

    def told(node: Node, now: int) -> dict[tuple[Metric, Labels], float]:
        found = collected(node, now)
        found[wrong] += 1
        return found

    return told


def test_within_a_run_the_isrs_are_those_of_the_image() -> None:
    watched = Watched()
    watched.is_looked_at()
    watched.broker.replicas.all()[0].replica.state = replace(
        watched.broker.replicas.all()[0].replica.state, min_insync_replicas=0
    )
    with pytest.raises(InvariantBroken, match=r"^METRIC: kafka_cluster_at_min_isr of events-0: n1 says 0, and it is 1"):
        watched.is_looked_at()


def test_a_leader_that_knows_more_than_its_image_may_say_so() -> None:
    """The controller's answer to AlterPartition arrives before the record."""
    watched = Watched()
    replica = watched.broker.replicas.all()[0].replica
    replica.state = replace(replica.state, min_insync_replicas=0)
    replica.partition_epoch += 1
    watched.is_looked_at()


def test_a_controller_says_how_each_broker_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    watched.is_looked_at()
    monkeypatch.setattr(controller_metrics, "registration_state", lambda broker: controller_metrics.FENCED)
    with pytest.raises(InvariantBroken, match="broker_registration_state of 1: n1 says 10, and it is 30"):
        watched.is_looked_at()


def test_parked_requests_are_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    parts = [FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=4_000)]
    topics = [FetchTopic(topic="events", partitions=parts)]
    watched.ask(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=4_000, topics=topics), 12)
    assert len(watched.broker.parked) == 1
    watched.is_looked_at()
    monkeypatch.setattr(Connections, "parked", lambda self, channel: [])
    with pytest.raises(InvariantBroken, match="kafka_server_purgatory_size of Fetch: n1 says 0, and it is 1"):
        watched.is_looked_at()
