"""Runs our brokers as processes on a real ensemble: what they write is what other clients of ZooKeeper read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.java import command
from squall.harness.loopback.ensemble import Ensemble
from squall.harness.loopback.loopback import Cluster
from tests.waiting import wait_until

PATIENCE_S = 60.0


def test_a_broker_without_its_ensemble_says_so_once_and_waits() -> None:
    with Cluster(brokers=1, zookeeper="127.0.0.1:1,127.0.0.1:2/east") as cluster:
        node = cluster.nodes[1]
        second = "no connection to ZooKeeper at 127.0.0.1:2"
        cluster.wait_for("a line for each server", lambda: second in node.log)
        first = [line for line in node.log.splitlines() if "127.0.0.1:1:" in line]
        assert len(first) == 1 and first[0].endswith("Connection refused")
        assert node.pid is not None


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with Ensemble(servers=1) as running:
        running.wait_until_ready()
        yield running


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("zookeeper")
@pytest.mark.timeout(300)
def test_brokers_serve_and_elect_another_controller_when_theirs_dies(ensemble: Ensemble) -> None:
    kazoo = KazooClient(f"{ensemble.connect}/east")
    with Cluster(brokers=3, zookeeper=f"{ensemble.connect}/east") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        cluster.wait_for("three brokers", lambda: known_brokers(admin) == 3, PATIENCE_S)
        for created in admin.create_topics([NewTopic("events", 4, 3)]).values():
            created.result(PATIENCE_S)
        assert acknowledged(cluster) == 100
        kazoo.start()
        try:
            first = json.loads(kazoo.get("/controller")[0])["brokerid"]
            assert sorted(kazoo.get_children("/brokers/ids")) == ["1", "2", "3"]
            assert len(json.loads(kazoo.get("/brokers/topics/events")[0])["partitions"]) == 4
            cluster.nodes[first].kill()
            wait_until(lambda: controller(kazoo) not in (None, first), "another controller", PATIENCE_S)
            wait_until(lambda: first not in leaders(kazoo), "other leaders", PATIENCE_S)
            assert acknowledged(cluster) == 100
        finally:
            kazoo.stop()
            kazoo.close()
        shown = shell(ensemble, "/east/brokers/topics/events/partitions/0/state")
        assert json.loads(shown)["controller_epoch"] == 2


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("zookeeper")
@pytest.mark.timeout(300)
def test_a_move_that_is_written_into_the_ensemble_runs_and_its_znode_goes(ensemble: Ensemble) -> None:
    """`/admin/reassign_partitions`, written as a tool of Kafka before 3.0 writes it, while records are acknowledged."""
    kazoo = KazooClient(f"{ensemble.connect}/west")
    with Cluster(brokers=4, zookeeper=f"{ensemble.connect}/west") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        cluster.wait_for("four brokers", lambda: known_brokers(admin) == 4, PATIENCE_S)
        topic = NewTopic("events", 2, replica_assignment=[[1, 2], [2, 1]])
        admin.create_topics([topic])["events"].result(PATIENCE_S)
        assert acknowledged(cluster) == 100
        kazoo.start()
        try:
            kazoo.create("/admin/reassign_partitions", moves({0: [3, 4], 1: [4, 1], 9: [3, 4]}))
            wait_until(lambda: not kazoo.exists("/admin/reassign_partitions"), "the znode has gone", PATIENCE_S)
            znode = json.loads(kazoo.get("/brokers/topics/events")[0])
            assert znode["partitions"] == {"0": [3, 4], "1": [4, 1]}
            assert not znode["adding_replicas"] and not znode["removing_replicas"]
            wait_until(lambda: leaders(kazoo, 2) <= {1, 3, 4}, "leaders among the replicas", PATIENCE_S)
            assert acknowledged(cluster) == 100
            kazoo.create("/admin/reassign_partitions", moves({0: [1, 2]}))
            wait_until(lambda: not kazoo.exists("/admin/reassign_partitions"), "so has the next one", PATIENCE_S)
        finally:
            kazoo.stop()
            kazoo.close()
        failed = "Failed reassignment through zk with the following errors: events-9: UNKNOWN_TOPIC_OR_PARTITION"
        assert any(failed in node.log for node in cluster.nodes.values())


def moves(replicas: Mapping[int, Sequence[int]]) -> bytes:
    parts = [{"topic": "events", "partition": number, "replicas": list(ids)} for number, ids in replicas.items()]
    return json.dumps({"version": 1, "partitions": parts}).encode()


def known_brokers(admin: AdminClient) -> int:
    try:
        return len(admin.list_topics(timeout=5).brokers)
    except KafkaException:  # none of them serves yet
        return 0


def controller(kazoo: KazooClient) -> int | None:
    try:
        return int(json.loads(kazoo.get("/controller")[0])["brokerid"])
    except NoNodeError:
        return None


def leaders(kazoo: KazooClient, partitions: int = 4) -> set[int]:
    paths = (f"/brokers/topics/events/partitions/{number}/state" for number in range(partitions))
    return {json.loads(kazoo.get(path)[0])["leader"] for path in paths}


def acknowledged(cluster: Cluster) -> int:
    """Send a hundred records with acks=all. Return how many were acknowledged."""
    outcomes: list[bool] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(100):
        producer.produce("events", b"%d" % number, on_delivery=lambda error, _: outcomes.append(error is None))
    producer.flush(PATIENCE_S)
    return sum(outcomes)


def shell(ensemble: Ensemble, path: str) -> str:
    """Return a znode's content by the shell that Apache Kafka ships."""
    arguments = ["-server", ensemble.connect, "get", path]
    ran = subprocess.run(
        command("org.apache.zookeeper.ZooKeeperMain", jars("kafka-3.9.2"), arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return next(line for line in ran.stdout.splitlines() if line.startswith("{"))
