"""A follower whose log parts from its leader's below the leader's log start (finding F-3, DP-13, DP-17).

The course needs no fault of a disk and no unclean election. Broker 2 stands still while broker 1 takes records with
acks=1 that broker 2 does not fetch, one a batch, so that its log can be cut anywhere; then broker 1 is killed. Broker 2
leads, takes batches of three records, and an administrator deletes records. When broker 1 returns, its log is cut where
its leader's log begins. With a start inside of a batch Apache Kafka's follower gives up; ours begins anew there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from squall.benchmarks.parts.kafka import KafkaCluster
from tests.clusters import Cluster

TOPIC = "events"
ON_BOTH, PARTED = 50, 95
"""Log ends: what both have, and what broker 1 has when it dies."""
BATCHES, OF_A_BATCH = 20, 3
"""What broker 2 appends as the leader."""
KEPT_FROM = 10
"""Which of these batches the deletion reaches."""
PATIENCE_S = 60.0


class Course:
    """The course on a running cluster with brokers 1 and 2, ours or Apache Kafka's."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def run(self, *, inside: bool) -> None:
        """Up to the start of broker 1, with a deletion up to the inside of a batch, or up to its beginning."""
        settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
        topic = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1, 2]], config=settings)
        self._admin.create_topics([topic])[TOPIC].result()
        self.await_state(1, [1, 2])
        self.produce(ON_BOTH // 5, 5, "all")
        self.cluster.pause(2)
        self.produce(PARTED - ON_BOTH, 1, "1")
        self.cluster.nodes[1].kill()
        self.cluster.resume(2)
        self.await_state(2, [2])
        begun = self.log_end()  # broker 2 may have fetched a little when it went on
        deleted_to = begun + KEPT_FROM * OF_A_BATCH + inside
        assert begun >= ON_BOTH and deleted_to < PARTED
        self.produce(BATCHES, OF_A_BATCH, "1")
        [deletion] = self._admin.delete_records([TopicPartition(TOPIC, 0, deleted_to)]).values()
        assert deletion.result().low_watermark == deleted_to
        self.cluster.nodes[1].start()

    def produce(self, batches: int, records: int, acks: str) -> None:
        """Whole batches of so many records, one after the other: the producer lingers until it has enough of them."""
        settings = {"bootstrap.servers": self.cluster.bootstrap, "acks": acks, "linger.ms": 60_000, "log_level": 0}
        producer = Producer({**settings, "batch.num.messages": records})
        for number in range(batches):
            for record in range(records):
                producer.produce(TOPIC, b"%d-%d" % (number, record), partition=0)
            assert producer.flush(PATIENCE_S) == 0

    def log_end(self) -> int:
        [found] = self._admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.latest()}).values()
        return int(found.result().offset)

    def state(self) -> tuple[int, list[int]]:
        """The leader, and the ISR."""
        try:
            found = self._admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions[0]
        except (KafkaException, KeyError):
            return -1, []
        return found.leader, sorted(found.isrs)

    def await_state(self, leader: int, isr: list[int]) -> None:
        self.cluster.wait_for(f"leader {leader}, ISR {isr}", lambda: self.state() == (leader, isr))


@contextmanager
def ours() -> Iterator[Any]:
    """Broker 2 must not be fenced while it stands still, which takes a tenth of a second."""
    settings = {"replica.lag.time.max.ms": "30000", "broker.session.timeout.ms": "6000"}
    with Cluster(brokers=3, controllers=1, properties=settings) as cluster:
        cluster.wait_until_ready()
        yield cluster


@pytest.mark.parametrize("inside", [False, True])
def test_our_follower_comes_back_into_the_isr(*, inside: bool) -> None:
    with ours() as cluster:
        course = Course(cluster)
        course.run(inside=inside)
        course.await_state(2, [1, 2])


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize("inside", [False, True])
def test_apache_kafkas_follower_gives_up_if_the_start_lies_inside_of_a_batch(*, inside: bool) -> None:
    """F-3. If the second half fails, Apache Kafka has mended it: say so in docs/findings.md."""
    with KafkaCluster() as cluster:
        course = Course(cluster)
        course.run(inside=inside)
        if not inside:
            course.await_state(2, [1, 2])
            return
        gave_up = f"Partition {TOPIC}-0 marked as failed"
        cluster.wait_for(gave_up, lambda: gave_up in cluster.nodes[1].log)
        assert "UnexpectedAppendOffsetException" in cluster.nodes[1].log
        assert course.state() == (2, [2])
