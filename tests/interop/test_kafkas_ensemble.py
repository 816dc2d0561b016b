"""Our brokers join an ensemble that Apache Kafka 3.9 has formatted, and get their topic-partitions from its controller.

ZooKeeper is of the version that comes with Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from squall.benchmarks.experiments.parts.kafka_process import VERSION, KafkaProcess
from squall.benchmarks.experiments.parts.zookeeper_stubs import REQUEST_MAX
from squall.harness.loopback.ensemble import Ensemble
from squall.harness.loopback.loopback import Cluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.xdist_group("zookeeper")]

PATIENCE_S = 60.0
THEIRS = 100
HEAP_MB = 512


@pytest.fixture
def ensemble() -> Iterator[Ensemble]:
    with Ensemble(version=VERSION) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture
def kafka(ensemble: Ensemble) -> Iterator[KafkaProcess]:
    process = KafkaProcess(THEIRS, ensemble.connect, heap_mb=HEAP_MB, request_max=REQUEST_MAX)
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


def leaders(client: AdminClient) -> list[int]:
    try:
        found = client.list_topics("events", timeout=5).topics["events"]
    except KafkaException:
        return []
    return [found.partitions[number].leader for number in sorted(found.partitions)]
