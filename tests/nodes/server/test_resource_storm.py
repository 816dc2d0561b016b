"""A resource storm against a real broker and a real controller: nobody dies, memory stays bounded, no session ends.

Everything here comes from strangers without any credential. What a stranger may command as long as there is no
authentication (to unregister a broker, to register under its id) is left out: that is obeyed, not survived. The frames
in bulk come from `frame_storm.py`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from squall.nodes.node.metrics import metric_names as names
from squall.nodes.protocol.compression import Compression
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from squall.nodes.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.records import Record, build_batch, seal
from squall.nodes.protocol.requests.headers import decode_response, encode_request
from squall.nodes.protocol.schema import Message
from tests.clusters import Cluster, NodeProcess
from tests.nodes.protocol.test_record_times import bomb
from tests.nodes.server import frame_storm

pytestmark = [pytest.mark.xdist_group("clusters"), pytest.mark.timeout(1200)]

RESIDENT_MAX = 600 << 20
SESSION_MS = 6000
STRANGER_WAITS_MAX_S = 10.0
"""For memory that others hold: the budget's patience, and one closed connection after the other."""
SERVED_MIN = 0.5
"""Of what is sent at once; the rest is sent again."""
TOPIC = "storm"


def framed(message: Message, version: int, correlation: int = 1) -> bytes:
    content = b"".join(encode_request(message.API_KEY, version, correlation, "storm", message))
    return struct.pack(">i", len(content)) + content


def connected(port: int, timeout_s: float = 20) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=timeout_s)


def received(connection: socket.socket) -> bytes:
    def exactly(size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            chunk = connection.recv(size - len(parts))
            if not chunk:
                raise ConnectionError("closed")
            parts += chunk
        return bytes(parts)

    return exactly(int.from_bytes(exactly(4), "big"))


def asked(port: int, message: Message, version: int, timeout_s: float = 20) -> Message:
    with connected(port, timeout_s) as connection:
        connection.sendall(framed(message, version))
        return decode_response(message.API_KEY, version, received(connection))[1]


@dataclass
class Watch:
    """Samples the nodes' resident memory until stopped."""

    nodes: list[NodeProcess]
    resident: dict[int, int] = field(default_factory=dict)
    during: dict[str, int] = field(default_factory=dict)
    phase: str = ""
    _over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._sample)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _sample(self) -> None:
        while not self._over.wait(0.02):
            for node in self.nodes:
                with contextlib.suppress(OSError, StopIteration, TypeError), open(f"/proc/{node.pid}/status") as status:
                    line = next(line for line in status if line.startswith("VmRSS:"))
                    size = int(line.split()[1]) * 1024
                    self.resident[node.node_id] = max(self.resident.get(node.node_id, 0), size)
                    self.during[self.phase] = max(self.during.get(self.phase, 0), size)


class Storm:
    """The inputs, one after the other, each with connections of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        [self.broker] = cluster.ports.values()
        [self.controller] = cluster.controller_ports.values()
        self.both = (self.broker, self.controller)
        self.waited_s = 0.0
        """How long a stranger waited for an answer, at most."""

    def still_served(self) -> None:
        """Others are answered in time, if not at once: a connection that holds all memory is closed first."""
        began = time.monotonic()
        while True:
            left = began + STRANGER_WAITS_MAX_S - time.monotonic()
            assert left > 0, self.cluster.logs()
            with contextlib.suppress(OSError):
                found = asked(self.broker, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9, left)
                assert isinstance(found, MetadataResponse) and found.topics[0].error_code == 0
                self.waited_s = max(self.waited_s, time.monotonic() - began)
                return

    def create(self, name: str, partitions: int) -> None:
        request = CreateTopicsRequest(topics=[CreatableTopic(name, partitions, 1)], timeout_ms=20_000)
        answer = asked(self.broker, request, 5)
        assert isinstance(answer, CreateTopicsResponse) and answer.topics[0].error_code == 0, answer
        self.wait_for_leaders(name, partitions)

    def wait_for_leaders(self, name: str, partitions: int) -> None:
        def all_led() -> bool:
            found = asked(self.broker, MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
            assert isinstance(found, MetadataResponse)
            return len([one for one in found.topics[0].partitions if one.leader_id >= 0]) == partitions

        self.cluster.wait_for(f"{name} is led", all_led, 60)

    def produce(self, records: bytearray, partition: int = 0) -> int:
        data = TopicProduceData(TOPIC, [PartitionProduceData(partition, records)])
        answer = asked(self.broker, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]), 9)
        assert isinstance(answer, ProduceResponse)
        return answer.responses[0].partition_responses[0].error_code

    # -- the inputs -----------------------------------------------------------------------------------------------

    def lengths_without_frames(self) -> None:
        """Four bytes claim a hundred megabytes, on sixty connections to each."""
        with contextlib.ExitStack() as stack:
            for port in self.both:
                for _ in range(60):
                    stack.enter_context(connected(port)).sendall(struct.pack(">i", 100 << 20) + bytes(2))
            self.still_served()

    def frames_that_never_end(self) -> None:
        """Forty frames of a hundred megabytes each, of which as much is sent as the node takes."""
        with contextlib.ExitStack() as stack:
            ways = [stack.enter_context(connected(self.broker)) for _ in range(40)]
            for way in ways:
                way.sendall(struct.pack(">i", 100 << 20))
                way.setblocking(False)
            until = time.monotonic() + 2
            while time.monotonic() < until:
                for way in ways:
                    with contextlib.suppress(OSError):
                        way.send(bytes(1 << 20))
            self.still_served()

    def empty_topic_partitions(self) -> None:
        """45 MB of Produce, in which each topic-partition takes six bytes."""
        head = b"".join(encode_request(ApiKey.PRODUCE, 9, 1, "storm", ProduceRequest(acks=1, topic_data=[])))[:-2]
        count = (45 << 20) // 6
        body = b"\x02" + b"\x02t" + varint(count + 1) + bytes(6) * count + b"\x00\x00"
        for _ in range(3):
            with connected(self.broker) as connection, contextlib.suppress(OSError):
                connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
                connection.recv(1)
        self.still_served()

    def gzip_bombs(self) -> None:
        """55 bytes of ListOffsets look for a time in a batch of a hundred kilobytes that holds a hundred megabytes."""
        assert self.produce(bomb(100 << 20), partition=1) == 0
        topics = [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(1, -1, 8_000)])]
        with connected(self.broker) as connection:
            for number in range(10):
                connection.sendall(framed(ListOffsetsRequest(replica_id=-1, topics=topics), 6, number))
            began = time.monotonic()
            for _ in range(10):
                received(connection)
            assert time.monotonic() - began < 20
        self.still_served()

    def claimed_records(self) -> None:
        batch = build_batch([Record(value=b"v")], compression=Compression.GZIP)
        batch[57:61], batch[23:27] = struct.pack(">i", 2**31 - 1), struct.pack(">i", 2**31 - 2)
        seal(batch)
        for _ in range(100):
            assert self.produce(bytearray(batch)) == 87, "INVALID_RECORD"

    def unread_fetches(self) -> None:
        """Eighty connections ask ten times for 24 MB each, and read nothing."""
        for _ in range(24):
            assert self.produce(build_batch([Record(value=bytes(1_000_000))])) == 0
        wanted = FetchPartition(fetch_offset=0, partition_max_bytes=2**31 - 1)
        topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
        fetch = framed(FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=2**31 - 1, topics=topics), 12)
        with contextlib.ExitStack() as stack:
            for _ in range(80):
                way = stack.enter_context(connected(self.broker))
                way.sendall(fetch * 10)
            # The nodes' memory is watched meanwhile, and may grow as long as nobody reads.
            time.sleep(4)
            self.still_served()

    def idle_connections(self, count: int) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(count // 2):
                for port in self.both:
                    with contextlib.suppress(OSError):
                        stack.enter_context(connected(port))
            self.still_served()

    def begun_frames(self, count: int) -> None:
        """Each connection sends the first quarter of a megabyte of a frame, and all are ready to be read at once."""
        begin = struct.pack(">i", 100 << 20) + bytes(256 << 10)
        with contextlib.ExitStack() as stack:
            ways: list[socket.socket] = []
            for _ in range(count):
                with contextlib.suppress(OSError):
                    ways.append(stack.enter_context(connected(self.broker)))
                    ways[-1].setblocking(False)
            for way in ways:
                with contextlib.suppress(OSError):
                    way.send(begin)
            self.still_served()

    def many_topic_partitions(self, count: int) -> None:
        self.create("wide", count)
        [node] = self.cluster.ports

        def hosts_all() -> bool:
            return self.cluster.metrics(node).value("kafka_server_partition_count") >= count

        self.cluster.wait_for("the broker hosts all", hosts_all, 120)
        answer = asked(self.broker, DeleteTopicsRequest(topic_names=["wide"], timeout_ms=20_000), 5)
        assert answer.responses[0].error_code == 0  # type: ignore[attr-defined]
        self.still_served()

    def forged_frames(self, count: int, seed: int) -> None:
        """Structure-aware frames to both planes, until the nodes have looked at `count` of them. Some never are: those
        behind one that ended its connection, and on a busy machine those that the sender has given up.
        """
        before = self.served()
        sent = served = 0
        while served < count:
            missing = count - served
            frame_storm.run(self.broker, self.controller, missing, seed)
            sent, seed = sent + missing, seed + 1
            looked_at = self.served() - before
            assert looked_at - served >= SERVED_MIN * missing, self.cluster.logs()
            served = looked_at
        print(f"{sent} forged frames, {served} of them served, with what others asked", flush=True)
        self.still_served()

    def served(self) -> int:
        """Requests that the nodes have answered since they started."""
        return sum(int(sum(self.cluster.metrics(node).values(names.REQUESTS.name))) for node in self.cluster.nodes)

    def longest_silence_ms(self) -> float:
        """What the controller waited for the broker's heartbeat, at most."""
        [controller] = self.cluster.controller_ports
        return self.cluster.metrics(controller).value(names.LONGEST_SILENCE.name)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def weather(frames: int, idle: int, partitions: int) -> None:
    properties = {
        "broker.session.timeout.ms": str(SESSION_MS),
        "broker.heartbeat.interval.ms": "1000",
        "message.max.bytes": "2000000",
    }
    with Cluster(brokers=1, controllers=1, properties=properties) as cluster:
        cluster.wait_until_ready()
        storm = Storm(cluster)
        storm.create(TOPIC, 2)
        nodes = list(cluster.nodes.values())
        pids = [node.pid for node in nodes]
        watch = Watch(nodes)
        inputs = {
            "lengths": storm.lengths_without_frames,
            "endless frames": storm.frames_that_never_end,
            "empty topic-partitions": storm.empty_topic_partitions,
            "gzip bombs": storm.gzip_bombs,
            "claimed records": storm.claimed_records,
            "unread fetches": storm.unread_fetches,
            "idle connections": lambda: storm.idle_connections(idle),
            "begun frames": lambda: storm.begun_frames(idle),
            "many topic-partitions": lambda: storm.many_topic_partitions(partitions),
            "forged frames": lambda: storm.forged_frames(frames, seed=1),
        }
        with watch.running():
            for name, blow in inputs.items():
                watch.phase, began = name, time.monotonic()
                blow()
                took, size = time.monotonic() - began, watch.during.get(name, 0) >> 20
                silence = storm.longest_silence_ms()
                print(f"{name:<24} {took:6.1f} s, {size} MB resident, {silence:.0f} ms silence at most", flush=True)
        assert [node.pid for node in nodes] == pids and all(node.pid is not None for node in nodes), cluster.logs()
        assert max(watch.resident.values()) <= RESIDENT_MAX, f"{watch.during}\n{cluster.logs()}"
        most = ", ".join(f"{size >> 20} MB of node {node}" for node, size in watch.resident.items())
        print(f"resident at most {most}; a stranger waited {storm.waited_s:.1f} s at most", flush=True)
        assert silence <= SESSION_MS, cluster.logs()
        logs = "".join(node.log for node in nodes)
        assert "received no heartbeat in time" not in logs, cluster.logs()


def test_a_short_resource_storm_kills_nobody() -> None:
    weather(frames=20_000, idle=1_200, partitions=200)


@pytest.mark.full
def test_a_resource_storm_of_a_million_frames_kills_nobody() -> None:
    weather(frames=1_000_000, idle=4_000, partitions=4_000)
