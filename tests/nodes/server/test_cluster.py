"""Real node processes on loopback, driven by a real Kafka client; faults are signals."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from squall.nodes.protocol.requests.headers import decode_response, encode_request
from tests.clusters import Cluster

pytestmark = pytest.mark.xdist_group("clusters")
QUIET = {"log_level": 0, "log.connection.close": False}


class Client:
    """A producer, a consumer without a group, and an admin of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failed: list[str] = []
        settings = {"bootstrap.servers": cluster.bootstrap} | QUIET
        self.admin = AdminClient(settings)
        self.producer = confluent_kafka.Producer(settings | {"enable.idempotence": True, "acks": "all"})

    def create(self, topic: str, partitions: int, replicas: int, min_isr: int = 1) -> None:
        wanted = NewTopic(topic, partitions, replicas, config={"min.insync.replicas": str(min_isr)})
        for future in self.admin.create_topics([wanted]).values():
            future.result(10)
        self.cluster.wait_for(f"leaders of {topic}", lambda: -1 not in self.leaders(topic, partitions))

    def leaders(self, topic: str, partitions: int = 1) -> list[int]:
        """The leader of each partition, -1 for none known."""
        try:
            found = self.admin.list_topics(topic, timeout=5).topics[topic].partitions
        except confluent_kafka.KafkaException:
            return [-1] * partitions
        return [found[number].leader if number in found else -1 for number in range(partitions)]

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        found = self.admin.list_topics(topic, timeout=5).topics[topic].partitions
        return sorted(found[partition].isrs)

    def produce(self, topic: str, values: list[bytes], partitions: int = 1) -> None:
        def delivered(error: object, message: confluent_kafka.Message) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acknowledged[message.partition(), message.offset()] = message.value()

        for number, value in enumerate(values):
            self.producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
        assert self.producer.flush(30) == 0, self.cluster.logs()

    def consume(self, topic: str, partitions: int, count: int) -> dict[tuple[int, int], bytes]:
        settings = {"bootstrap.servers": self.cluster.bootstrap, "group.id": "none", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer(settings | QUIET)
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
        found: dict[tuple[int, int], bytes] = {}

        def enough() -> bool:
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found[message.partition(), message.offset()] = message.value()
            return len(found) >= count

        try:
            self.cluster.wait_for(f"{count} records of {topic}", enough)
        finally:
            consumer.close()
        return found


def values(name: str, count: int) -> list[bytes]:
    return [f"{name}-{number}".encode() for number in range(count)]


@pytest.fixture(scope="module")
def combined() -> Iterator[Client]:
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        yield Client(cluster)


@pytest.fixture(scope="module")
def separate() -> Iterator[Client]:
    with Cluster(brokers=3, controllers=3) as cluster:
        cluster.wait_until_ready()
        yield Client(cluster)


def test_one_combined_node_is_a_cluster(combined: Client) -> None:
    combined.create("single", 1, 1)
    combined.produce("single", values("a", 200))
    assert combined.consume("single", 1, 200) == combined.acknowledged
    assert not combined.failed


def test_a_topic_can_be_deleted_and_created_again_empty(combined: Client) -> None:
    combined.create("again", 1, 1)
    combined.producer.produce("again", b"old", partition=0)
    assert combined.producer.flush(10) == 0
    combined.admin.delete_topics(["again"])["again"].result(10)
    combined.cluster.wait_for("the topic is gone", lambda: "again" not in combined.admin.list_topics(timeout=5).topics)
    combined.create("again", 1, 1)
    first = confluent_kafka.Consumer({"bootstrap.servers": combined.cluster.bootstrap, "group.id": "none"} | QUIET)
    try:
        assert first.get_watermark_offsets(confluent_kafka.TopicPartition("again", 0), timeout=10) == (0, 0)
    finally:
        first.close()


def test_what_was_acknowledged_is_read_from_three_brokers(separate: Client) -> None:
    separate.create("three", 3, 3, min_isr=2)
    separate.produce("three", values("t", 3000), partitions=3)
    assert separate.consume("three", 3, 3000) == separate.acknowledged
    assert not separate.failed


def test_a_new_leader_serves_after_a_kill_and_the_old_one_returns_to_the_isr(separate: Client) -> None:
    separate.acknowledged.clear()
    separate.create("failover", 1, 3, min_isr=2)
    separate.produce("failover", values("before", 100))
    [old] = separate.leaders("failover")
    separate.cluster.nodes[old].kill()
    separate.cluster.wait_for("another leader", lambda: separate.leaders("failover")[0] not in (-1, old))
    separate.produce("failover", values("after", 100))
    separate.cluster.nodes[old].start()
    separate.cluster.wait_for("all in sync", lambda: separate.in_sync("failover") == [1, 2, 3])
    assert separate.consume("failover", 1, 200) == separate.acknowledged
    assert not separate.failed


def test_the_cluster_outlives_its_active_controller(separate: Client) -> None:
    def active() -> int:
        """The last leader that any living controller has reported."""
        said = [line for node in separate.cluster.controllers for line in node.log.splitlines() if "leads the" in line]
        latest = max(said, key=lambda line: int(line.rsplit(" ", 1)[1]))
        return int(latest.split(" controller ")[1].split(" ")[0])

    killed = active()
    separate.cluster.nodes[killed].kill()
    separate.cluster.wait_for("another controller", lambda: active() != killed)
    separate.create("afterwards", 2, 3)
    separate.cluster.nodes[killed].start()


# -- bytes that are no requests ------------------------------------------------------------------------------------


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def api_versions() -> bytes:
    return b"".join(encode_request(ApiKey.API_VERSIONS, 3, 7, "probe", ApiVersionsRequest("probe", "1")))


MALFORMED = {
    "a negative length": struct.pack(">i", -2) + b"x" * 20,
    "a length beyond the limit": struct.pack(">i", 2**31 - 1),
    "another protocol": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "an empty frame": frame(b""),
    "a header cut short": frame(b"\x00\x03\x00"),
    "an API nobody has": frame(struct.pack(">hhih", 999, 0, 1, -1)),
    "a version nobody has": frame(struct.pack(">hhih", 3, 99, 1, -1)),
    "a client id longer than its frame": frame(struct.pack(">hhih", 3, 1, 1, 30000)),
    "a body cut short": frame(api_versions()[:-3]),
    "an array of two thousand million": frame(struct.pack(">hhihi", 3, 1, 1, -1, 2**31 - 1)),
    "rubbish": frame(bytes(range(256)) * 8),
}


def ask_versions(port: int) -> ApiVersionsResponse:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(frame(api_versions()))
        received = b""
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            chunk = connection.recv(65536)
            assert chunk, "the node closed the connection"
            received += chunk
    correlation_id, response = decode_response(ApiKey.API_VERSIONS, 3, received[4:])
    assert correlation_id == 7
    assert isinstance(response, ApiVersionsResponse)
    return response


@pytest.mark.parametrize("listener", ["broker", "controller"])
@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_request_ends_its_connection_and_the_node_lives_on(
    combined: Client, listener: str, content: bytes
) -> None:
    ports = combined.cluster.ports if listener == "broker" else combined.cluster.controller_ports
    with socket.create_connection(("127.0.0.1", ports[1]), timeout=10) as connection:
        connection.sendall(content)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b"", "the connection must be closed"
    assert ask_versions(ports[1]).error_code == 0


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_a_peer_that_leaves_within_a_frame_is_forgotten(combined: Client, listener: str) -> None:
    ports = combined.cluster.ports if listener == "broker" else combined.cluster.controller_ports
    with socket.create_connection(("127.0.0.1", ports[1]), timeout=10) as connection:
        connection.sendall(struct.pack(">i", 1000) + b"half of it")
    assert ask_versions(ports[1]).error_code == 0


def test_listeners_offer_what_is_theirs(combined: Client) -> None:
    on_broker = {row.api_key for row in ask_versions(combined.cluster.ports[1]).api_keys}
    on_controller = {row.api_key for row in ask_versions(combined.cluster.controller_ports[1]).api_keys}
    assert ApiKey.PRODUCE in on_broker
    assert ApiKey.PRODUCE not in on_controller
    assert ApiKey.VOTE in on_controller
    assert ApiKey.VOTE not in on_broker


# -- starting and stopping -----------------------------------------------------------------------------------------


def test_sigterm_stops_every_role_cleanly_and_all_is_there_after_a_restart() -> None:
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        client = Client(cluster)
        client.create("kept", 1, 1)
        client.produce("kept", values("k", 50))
        [node] = cluster.brokers
        assert node.stop() == 0, node.log
        assert (node.directory / "data" / ".kafka_cleanshutdown").exists()
        node.log_path.unlink()
        node.start()
        cluster.wait_until_ready()
        assert client.consume("kept", 1, 50) == client.acknowledged


def test_a_mutant_says_so_in_the_log() -> None:
    with Cluster.combined(mutants=("ack-before-replication",)) as cluster:
        cluster.wait_until_ready()
        assert "MUTANT ack-before-replication" in cluster.brokers[0].log
