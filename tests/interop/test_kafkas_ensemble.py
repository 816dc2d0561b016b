"""Our brokers join an ensemble that Apache Kafka 3.9 has formatted, and get their topic-partitions from its controller.

ZooKeeper is of the version that comes with Kafka. Moves are asked for by `/admin/reassign_partitions`, which Kafka's
controller reads and ours as well.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from squall.benchmarks.experiments.parts.kafka_process import VERSION, KafkaProcess
from squall.benchmarks.experiments.parts.zookeeper_client import REQUEST_MAX
from squall.harness.loopback.ensemble import Ensemble
from squall.harness.loopback.loopback import Cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.xdist_group("zookeeper")]

PATIENCE_S = 60.0
THEIRS = 100
HEAP_MB = 512
MOVES_BY_KAFKA, MOVES_BY_US = 80, 20
SEND_EVERY_S = 0.005
REQUESTED = "/admin/reassign_partitions"


@pytest.fixture
def ensemble() -> Iterator[Ensemble]:
    with Ensemble(version=VERSION) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture
def kafka(ensemble: Ensemble) -> Iterator[KafkaProcess]:
    process = KafkaProcess(THEIRS, ensemble.connect, heap_mb=HEAP_MB, request_max=REQUEST_MAX, session_ms=18_000)
    try:
        process.start()
        process.wait_for(process.texts.started, timeout_s=PATIENCE_S)
        yield process
    finally:
        process.close()


def test_our_brokers_join_and_lead_what_kafkas_controller_gives_them(ensemble: Ensemble, kafka: KafkaProcess) -> None:
    with Cluster(brokers=2, zookeeper=ensemble.connect, properties={"cluster.id": cluster_id(ensemble)}) as cluster:
        theirs, ours = admin(f"127.0.0.1:{kafka.port}"), admin(cluster.bootstrap)
        wait_until(lambda: brokers(theirs) == {1, 2, THEIRS}, "Kafka knows our brokers", PATIENCE_S)
        topic = NewTopic("events", 2, replica_assignment=[[1, 2], [2, 1]])
        theirs.create_topics([topic])["events"].result(PATIENCE_S)
        wait_until(lambda: leaders(ours) == [1, 2], "our brokers lead", PATIENCE_S)
        send(cluster.bootstrap, range(100))
        cluster.nodes[1].stop()
        wait_until(lambda: leaders(ours) == [2, 2], "the other one leads", PATIENCE_S)
        send(cluster.bootstrap, range(100, 200))
        cluster.nodes[1].start()
        wait_until(lambda: in_sync(ours) == [{1, 2}, {1, 2}], "it has caught up", PATIENCE_S)
        assert set(everything(cluster.bootstrap)) == set(range(200))
        logs = [
            path.name for path in (cluster.directory / "node-1" / "data").iterdir() if path.name.startswith("events-")
        ]
        assert sorted(logs) == ["events-0", "events-1"], "it has kept its logs, and none is a stray"


def send(bootstrap: str, numbers: Sequence[int]) -> None:
    """Send records to the first topic-partition with acks=all; all must be acknowledged."""
    refused: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in numbers:
        producer.produce("events", b"%d" % number, partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0 and not refused, refused[:3]


def test_no_acknowledged_record_is_lost_in_a_hundred_moves(ensemble: Ensemble, kafka: KafkaProcess) -> None:
    """Leader and replicas move from broker to broker of ours, by Kafka's controller; when it is killed, by our own."""
    with Cluster(brokers=3, zookeeper=ensemble.connect, properties={"cluster.id": cluster_id(ensemble)}) as cluster:
        theirs = admin(f"127.0.0.1:{kafka.port}")
        wait_until(lambda: brokers(theirs) == {1, 2, 3, THEIRS}, "Kafka knows our brokers", PATIENCE_S)
        topic = NewTopic("events", 1, replica_assignment=[[1, 2]], config={"min.insync.replicas": "2"})
        theirs.create_topics([topic])["events"].result(PATIENCE_S)
        kazoo = KazooClient(ensemble.connect)
        kazoo.start()
        try:
            with Sending(cluster.bootstrap) as sending:
                move(kazoo, range(1, MOVES_BY_KAFKA + 1))
                assert controller(kazoo) == THEIRS
                kafka.kill()
                wait_until(lambda: controller(kazoo) in (1, 2, 3), "one of ours is the controller", PATIENCE_S)
                move(kazoo, range(MOVES_BY_KAFKA + 1, MOVES_BY_KAFKA + MOVES_BY_US + 1))
                assert controller(kazoo) in (1, 2, 3)
        finally:
            kazoo.stop()
            kazoo.close()
        assert len(sending.acknowledged) > 10 * (MOVES_BY_KAFKA + MOVES_BY_US), "there was load all the time"
        lost = sending.acknowledged - set(everything(cluster.bootstrap))
        assert not lost, f"{len(lost)} of {len(sending.acknowledged)} acknowledged records are lost"


class Sending:
    """Sends numbered records with acks=all until it is left; `acknowledged` are those that were."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[int] = set()
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Sending:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)

    def _send(self) -> None:
        number = 0
        while not self._over.wait(SEND_EVERY_S):
            value = number
            self._producer.produce(
                "events",
                b"%d" % value,
                on_delivery=lambda error, _, value=value: self.acknowledged.add(value) if error is None else None,
            )
            self._producer.poll(0)
            number += 1


def move(kazoo: KazooClient, numbers: Sequence[int]) -> None:
    """Move the topic-partition to the next two brokers, so many times; each move ends before the next."""
    for number in numbers:
        replicas = [number % 3 + 1, (number + 1) % 3 + 1]
        part = {"topic": "events", "partition": 0, "replicas": replicas}
        kazoo.create(REQUESTED, json.dumps({"version": 1, "partitions": [part]}).encode())
        wait_until(lambda: not kazoo.exists(REQUESTED), f"move {number} has ended", PATIENCE_S)
        znode = json.loads(kazoo.get("/brokers/topics/events")[0])
        assert znode["partitions"] == {"0": replicas}, f"after move {number}"


def everything(bootstrap: str) -> list[int]:
    """The numbers of all records in the topic-partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
    place = TopicPartition("events", 0, 0)
    try:
        end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1]
        consumer.assign([place])
        found: list[int] = []
        while len(found) < end:
            batch = consumer.consume(min(1000, end - len(found)), timeout=PATIENCE_S)
            assert batch, f"{len(found)} of {end} records were read"
            found += [int(one.value()) for one in batch if one.error() is None]
        return found
    finally:
        consumer.close()


def controller(kazoo: KazooClient) -> int | None:
    try:
        return int(json.loads(kazoo.get("/controller")[0])["brokerid"])
    except NoNodeError:
        return None


def cluster_id(ensemble: Ensemble) -> str:
    kazoo = KazooClient(ensemble.connect)
    kazoo.start()
    try:
        return str(json.loads(kazoo.get("/cluster/id")[0])["id"])
    finally:
        kazoo.stop()
        kazoo.close()


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def brokers(client: AdminClient) -> set[int]:
    try:
        return set(client.list_topics(timeout=5).brokers)
    except KafkaException:
        return set()


def in_sync(client: AdminClient) -> list[set[int]]:
    try:
        found = client.list_topics("events", timeout=5).topics["events"]
    except KafkaException:
        return []
    return [set(found.partitions[number].isrs) for number in sorted(found.partitions)]


def leaders(client: AdminClient) -> list[int]:
    try:
        found = client.list_topics("events", timeout=5).topics["events"]
    except KafkaException:
        return []
    return [found.partitions[number].leader for number in sorted(found.partitions)]
