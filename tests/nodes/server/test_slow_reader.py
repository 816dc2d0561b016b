"""A peer that asks and does not listen, on real sockets: what it can make a node hold is bounded."""

from __future__ import annotations

import socket
import struct
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from squall.nodes.node.channels import FETCHES_MAX, UNSENT_MAX
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from squall.nodes.protocol.requests.headers import decode_response, encode_request
from tests.clusters import Cluster, NodeProcess

pytestmark = pytest.mark.xdist_group("clusters")
TOPIC = "large"
RECORDS, RECORD_BYTES = 24, 1_000_000
ANSWER_BYTES = RECORDS * RECORD_BYTES
FETCHES = 60
VERSION = 12


def frame(correlation: int, message: FetchRequest | ApiVersionsRequest, version: int) -> bytes:
    content = b"".join(encode_request(message.API_KEY, version, correlation, "slow", message))
    return struct.pack(">i", len(content)) + content


def receive(connection: socket.socket, size: int) -> bytearray:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(min(1 << 20, size - len(received)))
        assert chunk, "the node closed the connection"
        received += chunk
    return received


def answer(connection: socket.socket) -> bytearray:
    return receive(connection, int.from_bytes(receive(connection, 4), "big"))


def resident(node: NodeProcess) -> int:
    with open(f"/proc/{node.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def be_served(port: int) -> None:
    """Others are answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(frame(1, ApiVersionsRequest("test", "1"), 3))
        answer(connection)


def test_pipelined_fetches_that_nobody_reads_are_not_answered_into_memory() -> None:
    """Sixty fetches of 24 MB each, 1.4 GB in all, and not a byte of them read."""
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 2_000_000, "allow.auto.create.topics": True}
        )
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for created in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
            created.result(10)
        for _ in range(RECORDS):
            producer.produce(TOPIC, bytes(RECORD_BYTES), partition=0)
        assert producer.flush(30) == 0
        [node] = cluster.nodes.values()
        before = resident(node)
        wanted = FetchPartition(fetch_offset=0, partition_max_bytes=ANSWER_BYTES * 2)
        fetch = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=ANSWER_BYTES * 2,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        with socket.create_connection(("127.0.0.1", cluster.ports[1]), timeout=20) as connection:
            for number in range(FETCHES):
                connection.sendall(frame(number, fetch, VERSION))
            most = 0
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                be_served(cluster.ports[1])
                most = max(most, resident(node))
            bound = UNSENT_MAX + (FETCHES_MAX + 1) * ANSWER_BYTES
            assert most - before < bound, f"{(most - before) >> 20} MB more than before, {bound >> 20} are allowed"
            for number in range(3):
                correlation, response = decode_response(ApiKey.FETCH, VERSION, answer(connection))
                assert correlation == number
                assert isinstance(response, FetchResponse)
                assert len(response.responses[0].partitions[0].records or b"") > ANSWER_BYTES
