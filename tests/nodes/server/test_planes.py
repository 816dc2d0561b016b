"""The two planes as processes: data goes on without controllers, fencing closes no port, one node may grow."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataResponse
from squall.nodes.protocol.requests.headers import decode_response, encode_request
from tests.clusters import Cluster

pytestmark = pytest.mark.xdist_group("clusters")
QUIET = {"log_level": 0, "log.connection.close": False}
RECORDS_PER_SECOND = 200
CATCH_UP_S = 0.2
"""What a busy machine has kept from being sent for longer than this is not sent at all: a backlog would make the rate
before the blackout that of the catching up."""
BASELINE_S = 5.0
KILL_AT_MOST_AFTER_S = 60.0
STALL_S = 3.0


class SteadyLoad:
    """So many records a second with acks=all; remembers when each was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.acknowledged: list[float] = []
        self.failed: list[str] = []
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0} | QUIET
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more records; all that were sent have their end."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def rate(self, since: float, until: float) -> float:
        return sum(since <= at < until for at in self.acknowledged) / (until - since)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            self._producer.produce(self._topic, b"steady", partition=0, on_delivery=self._delivered)
            due = max(due + 1 / RECORDS_PER_SECOND, time.monotonic() - CATCH_UP_S)
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)  # which ends with the first delivery that it tells of

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.append(time.monotonic())
        else:
            self.failed.append(str(error))


@contextmanager
def steady_load(cluster: Cluster, topic: str) -> Iterator[SteadyLoad]:
    load = SteadyLoad(cluster, topic)
    load.start()
    try:
        yield load
    finally:
        load.stop()


def create(cluster: Cluster, topic: str, replicas: list[list[int]], min_isr: int = 1) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap} | QUIET)
    new = NewTopic(topic, len(replicas), replica_assignment=replicas, config={"min.insync.replicas": str(min_isr)})
    admin.create_topics([new])[topic].result(10)
    cluster.wait_for(f"all of {topic} in sync", lambda: in_sync(admin, topic) == len(replicas[0]))
    return admin


def in_sync(admin: AdminClient, topic: str) -> int:
    """The size of the ISR of topic-partition 0; 0 while the topic is not there."""
    found = admin.list_topics(topic, timeout=5).topics[topic].partitions
    return len(found[0].isrs) if 0 in found else 0


@pytest.mark.full
@pytest.mark.timeout(400)
@pytest.mark.parametrize("blackout_s", [12.0, 120.0])
def test_the_data_plane_needs_no_controllers_until_the_isr_must_change(blackout_s: float) -> None:
    """DP-10, P06: 90 % of the rate with all controllers dead; a dead follower then stalls acks=all, and only until the
    quorum is back. In simulation it is part of every test run."""
    with Cluster(brokers=3, controllers=3) as cluster:
        cluster.wait_until_ready()
        admin = create(cluster, "steady", [[1, 2, 3]], min_isr=2)
        with steady_load(cluster, "steady") as load:
            cluster.wait_for("the first acknowledgement", lambda: load.acknowledged)
            began = time.monotonic()
            # A rate is measured over this time.
            time.sleep(BASELINE_S)
            dark = time.monotonic()
            for node in cluster.controllers:
                node.kill()
            # So is the rate without controllers.
            time.sleep(min(blackout_s, KILL_AT_MOST_AFTER_S))
            killed = time.monotonic()
            cluster.nodes[3].kill()
            # During which nothing may be acknowledged.
            time.sleep(max(STALL_S, blackout_s - (killed - dark)))
            back = time.monotonic()
            for node in cluster.controllers:
                node.start()
            cluster.wait_for("acknowledgements with the quorum", lambda: load.acknowledged[-1] > back)
        before, during = load.rate(began, dark), load.rate(dark, killed)
        assert before >= 0.9 * RECORDS_PER_SECOND
        assert during >= 0.9 * before, f"{during:.0f}/s without controllers, {before:.0f}/s with them"
        stalled = [at for at in load.acknowledged if killed + 1 <= at < back]
        assert not stalled, "no acks=all success while the ISR cannot shrink"
        assert not load.failed
        cluster.wait_for("an ISR of two in every broker's metadata", lambda: in_sync(admin, "steady") == 2)
        assert all("has stopped" not in node.log and node.pid for node in cluster.brokers[:2])


class Asker:
    """One connection to a broker, kept."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), 10)
        self._correlation = 0

    def brokers(self) -> list[int]:
        """The brokers that are in metadata."""
        self._correlation += 1
        frame = b"".join(encode_request(ApiKey.METADATA, 12, self._correlation, "asker", MetadataRequest()))
        self._connection.sendall(len(frame).to_bytes(4, "big") + frame)
        answer = self._received(int.from_bytes(self._received(4), "big"))
        _, response = decode_response(ApiKey.METADATA, 12, answer)
        assert isinstance(response, MetadataResponse)
        return sorted(broker.node_id for broker in response.brokers)

    def _received(self, length: int) -> bytes:
        received = b""
        while len(received) < length:
            chunk = self._connection.recv(length - len(received))
            assert chunk, "the broker closed the connection"
            received += chunk
        return received


def test_a_running_broker_that_is_fenced_leaves_metadata_and_closes_no_port() -> None:
    """BL-06: after a pause longer than its session it goes on with the connections and the ports it had."""
    with Cluster(brokers=2, controllers=1) as cluster:
        cluster.wait_until_ready()
        kept, other = Asker(cluster.ports[1]), Asker(cluster.ports[2])
        assert kept.brokers() == [1, 2]
        cluster.pause(1)
        cluster.wait_for("broker 1 fenced", lambda: other.brokers() == [2])
        controller = cluster.metrics(101)
        assert controller.value("kafka_controller_fenced_broker_count") == 1
        assert controller.value("kafka_controller_timed_out_broker_heartbeat_count") == 1
        cluster.resume(1)
        cluster.wait_for("broker 1 unfenced", lambda: other.brokers() == [1, 2])
        # Broker 1 may still have the metadata from before it was fenced, which name both as well.
        cluster.wait_for("both in what broker 1 answers", lambda: kept.brokers() == [1, 2])
        cluster.wait_for("a new connection is served", lambda: Asker(cluster.ports[1]).brokers() == [1, 2])
        assert cluster.nodes[1].log.count("listens on PLAINTEXT") == 1


def test_the_smallest_cluster_is_one_combined_node_and_brokers_join_it_live() -> None:
    """QC-24."""
    with Cluster(brokers=3, controllers=1, combined=True, start=False) as cluster:
        cluster.nodes[1].start()
        cluster.wait_until_ready()
        alone = create(cluster, "alone", [[1]])
        with steady_load(cluster, "alone") as load:
            cluster.wait_for("acknowledgements", lambda: load.acknowledged)
            for node in (2, 3):
                cluster.nodes[node].start()
            cluster.wait_until_ready()
            create(cluster, "together", [[2, 3, 1]], min_isr=3)
        assert not load.failed
        assert in_sync(alone, "together") == 3
        with steady_load(cluster, "together") as load:
            cluster.wait_for("acknowledgements of three", lambda: load.acknowledged)
        metrics = cluster.metrics(1)
        assert metrics.value("kafka_controller_active_controller_count") == 1
        assert metrics.value("kafka_server_broker_state") == 3
        assert metrics.value("kafka_network_requests_total", plane="control", request="BrokerHeartbeat") > 0
        assert metrics.value("kafka_network_requests_total", plane="data", request="Produce") > 0
