"""METRIC as the observer asserts it: a real node, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.told_metrics import ToldMetrics
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.broker.lifecycle import BrokerState
from squall.nodes.controller.controller import QuorumController
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from squall.nodes.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.raft.roles import Leader
from tests.nodes.node.test_node import CLIENT, SECOND, Host

ASKER = 7
ONE = {"first": 0, "last": 0}


class Watched:
    """A combined node with the topic `events`, to which a client has produced, and from which it has fetched."""

    def __init__(self) -> None:
        self.host = Host()
        self.node = self.host.node
        self.process: Any = SimpleNamespace(name="n1", incarnation=1, last_inputs=[], now=0, node=self.node)
        self.cluster = ObservedCluster()
        self.cluster.processes, self.cluster.names = {"n1": self.process}, {self.node.config.node_id: "n1"}
        self.rule = ToldMetrics(self.cluster)
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
        self.rule.traced("append", {"broker": self.node.config.node_id, "topic": "events", "partition": 0, **ONE})
        self.rule.traced("append", {"node": self.node.config.node_id, **ONE})
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

    def ends(self) -> None:
        assert len(self.host.answered(ASKER)) == 5
        self.process.now, self.cluster.images.newest_image = self.host.now, self.node.image
        self.rule.at_end()

    def says_otherwise(self, words: str) -> None:
        with pytest.raises(InvariantBroken, match=rf"^METRIC: {words}$"):
            self.ends()


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
