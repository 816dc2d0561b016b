"""One combined node in the hands of a test that plays its host: the turn, the flush, and the outbox."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.config import NodeConfig
from squall.nodes.metadata.records import NoOpRecord, encode_record
from squall.nodes.node.node import Close, Connect, Node, NodeError, Pause, Send
from squall.nodes.ports import NullTrace, Trace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from squall.nodes.protocol.messages.describe_quorum import DescribeQuorumRequest
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from squall.nodes.protocol.requests.headers import correlation_id_of, decode_response, encode_request
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.config import TOPIC as METADATA_TOPIC
from squall.nodes.raft.config import TOPIC_ID as METADATA_TOPIC_ID

SECOND = 1_000_000
CLIENT, CONTROL = 9092, 9093
LISTENERS = {CLIENT: "PLAINTEXT", CONTROL: "CONTROLLER"}
TURN_REQUESTS_MAX = 5
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": f"1@127.0.0.1:{CONTROL}",
    "controller.listener.names": "CONTROLLER",
    "listeners": f"PLAINTEXT://127.0.0.1:{CLIENT},CONTROLLER://127.0.0.1:{CONTROL}",
    "log.dirs": "/data",
    "turn.requests.max": str(TURN_REQUESTS_MAX),
    "queued.max.requests": "20",
}


class Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class Host:
    """Runs a node's iterations, and connects it to itself, as a combined node needs."""

    def __init__(
        self, disk: SimDisk | None = None, properties: Mapping[str, str] | None = None, trace: Trace | None = None
    ) -> None:
        self.disk = disk or SimDisk(Random(1))
        self.now = 0
        config = NodeConfig.of(PROPERTIES | dict(properties or {}))
        self.node = Node(config, disk=self.disk, clock=Clock(), rng=Random(2), trace=trace or NullTrace(), now=0)
        self.sent: list[tuple[int, bytes]] = []
        self.effects: list[object] = []
        self._peers: dict[int, int] = {}
        self._last = 1000
        self._correlation = 0

    def iterate(self) -> None:
        """One iteration; the node's connections to itself are carried at once."""
        self.node.tick(self.now)
        self.node.turn(self.now)
        self.node.flush(self.now)
        released, self.node.outbox[:] = list(self.node.outbox), []
        for effect in released:
            self._carry(effect)

    def _carry(self, effect: object) -> None:
        if isinstance(effect, Connect):
            self._last += 1
            self._peers[effect.connection], self._peers[self._last] = self._last, effect.connection
            self.node.opened(self.now, effect.connection, None)
            self.node.opened(self.now, self._last, LISTENERS[effect.port])
        elif isinstance(effect, Send) and effect.connection in self._peers:
            self.node.received(self.now, self._peers[effect.connection], bytearray(b"".join(effect.chunks)))
        elif isinstance(effect, Send):
            self.sent.append((effect.connection, b"".join(effect.chunks)))
        else:
            self.effects.append(effect)

    def run(self, duration: int = 5 * SECOND) -> None:
        """Follow the node's deadlines for a while."""
        end = self.now + duration
        while self.now < end:
            self.iterate()
            self.now = max(self.now + 10, min(self.node.deadline(), end))

    def open(self, connection: int, port: int = CLIENT) -> None:
        self.node.opened(self.now, connection, LISTENERS[port])

    def send(self, connection: int, message: Message, version: int) -> int:
        self._correlation += 1
        frame = b"".join(encode_request(message.API_KEY, version, self._correlation, "test", message))
        self.node.received(self.now, connection, bytearray(frame))
        return self._correlation

    def answered(self, connection: int) -> list[int]:
        """Correlation ids of what a connection was sent."""
        return [correlation_id_of(frame) for to, frame in self.sent if to == connection]


@pytest.fixture
def host() -> Host:
    made = Host()
    made.run()
    assert made.node.broker is not None
    assert made.node.broker.is_serving
    return made


def test_a_combined_node_elects_itself_registers_and_serves(host: Host) -> None:
    """QC-24."""
    host.open(1)
    host.send(1, MetadataRequest(), 12)
    host.iterate()
    [(_, frame)] = host.sent
    _, response = decode_response(ApiKey.METADATA, 12, frame)
    assert isinstance(response, MetadataResponse)
    assert [broker.node_id for broker in response.brokers] == [1]


def test_clients_are_not_served_before_the_broker_is_unfenced() -> None:
    """BL-02, BL-03: their requests wait in the channel."""
    host = Host()
    host.open(1)
    asked = host.send(1, MetadataRequest(), 12)
    host.iterate()
    assert host.answered(1) == []
    host.run()
    assert host.answered(1) == [asked]


def test_a_node_that_may_read_on_from_a_paused_connection_is_called_at_once(host: Host) -> None:
    """`worlds` seed 355: an answer after the flush had made room, and the next turn was far away."""
    host.open(1)
    host.iterate()
    assert host.node.deadline() > host.now
    connection = host.node.connections.find(1)
    assert connection is not None
    host.node.connections._pause(connection)
    assert host.node.deadline() == 0
    host.iterate()
    assert not connection.paused and host.node.deadline() > host.now


def test_inputs_are_only_queued(host: Host) -> None:
    host.open(1)
    host.send(1, MetadataRequest(), 12)
    assert host.node.outbox == []
    assert host.node.deadline() <= host.now, "queued work makes the next turn due"


def test_a_turn_takes_all_control_requests_and_leaves_data_for_the_next(host: Host) -> None:
    """CL-24: a backlog of data holds up neither control requests nor their answers."""
    host.open(1, CLIENT)
    host.open(2, CONTROL)
    data = [host.send(1, MetadataRequest(), 12) for _ in range(2 * TURN_REQUESTS_MAX)]
    control = [host.send(2, DescribeQuorumRequest(), 2) for _ in range(30)]
    host.iterate()
    assert host.answered(2) == control
    assert host.answered(1) == []
    assert host.node.deadline() <= host.now, "the rest makes the next turn due"
    host.iterate()
    assert host.answered(1) == data[:TURN_REQUESTS_MAX]
    assert host.node.deadline() <= host.now
    host.iterate()
    assert host.answered(1) == data


def test_control_requests_without_end_do_not_starve_the_data_plane(host: Host) -> None:
    host.open(1, CLIENT)
    host.open(2, CONTROL)
    data = [host.send(1, MetadataRequest(), 12) for _ in range(2 * TURN_REQUESTS_MAX)]
    for _ in range(4):
        host.send(2, DescribeQuorumRequest(), 2)
        host.iterate()
    assert host.answered(1) == data, "every other turn is theirs"


def test_a_heartbeat_leaves_before_the_data_that_came_in_with_it(host: Host) -> None:
    """CL-24: what a broker has to say to the controller is not held up by what its clients ask."""
    interval = 2 * SECOND
    assert host.node.broker is not None
    host.now = host.node.broker.lifecycle.deadline()
    assert host.now < 10 * interval
    host.open(1, CLIENT)
    asked = host.send(1, MetadataRequest(), 12)
    host.iterate()
    assert len(host.node.control) == 1, "its own, in a node that is both"
    assert host.answered(1) == []
    host.iterate()
    host.iterate()
    assert host.answered(1) == [asked]


def test_a_turn_takes_large_data_requests_up_to_a_number_of_bytes() -> None:
    """CL-24: few large requests take as long as many small ones."""
    host = Host(properties={"turn.bytes.max": "100"})
    host.run()
    host.open(1, CLIENT)
    asked = [host.send(1, MetadataRequest(topics=[MetadataRequestTopic(name="t" * 60)]), 12) for _ in range(3)]
    host.iterate()
    assert host.answered(1) == asked[:2], "the second one passes the bound, and there it ends"
    host.iterate()
    assert host.answered(1) == asked


def test_a_flood_pauses_its_connections_and_no_others(host: Host) -> None:
    host.open(1, CLIENT)
    host.open(2, CONTROL)
    for _ in range(25):
        host.send(1, MetadataRequest(), 12)
    host.send(2, DescribeQuorumRequest(), 2)
    host.iterate()
    assert [effect for effect in host.effects if isinstance(effect, Pause)] == [Pause(1)]


def test_api_versions_are_those_of_the_listener(host: Host) -> None:
    host.open(1, CONTROL)
    host.send(1, ApiVersionsRequest("test", "1"), 3)
    host.iterate()
    _, response = decode_response(ApiKey.API_VERSIONS, 3, host.sent[0][1])
    assert isinstance(response, ApiVersionsResponse)
    offered = [row.api_key for row in response.api_keys]
    assert ApiKey.VOTE in offered
    assert ApiKey.PRODUCE not in offered


@pytest.mark.parametrize(
    ("listener", "asked", "error", "ids"),
    [
        (CONTROL, 2, ErrorCode.NONE, [1]),
        (CONTROL, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE, []),
        (CLIENT, 2, ErrorCode.MISMATCHED_ENDPOINT_TYPE, []),
    ],
)
def test_a_controllers_listener_describes_controllers(
    host: Host, listener: int, asked: int, error: ErrorCode, ids: list[int]
) -> None:
    """KIP-919: admin clients with `bootstrap.controllers` begin with this."""
    host.open(1, listener)
    host.send(1, DescribeClusterRequest(endpoint_type=asked), 2)
    host.iterate()
    _, response = decode_response(ApiKey.DESCRIBE_CLUSTER, 2, host.sent[0][1])
    assert isinstance(response, DescribeClusterResponse)
    assert (response.error_code, [one.broker_id for one in response.brokers]) == (error, ids)
    if ids:
        assert (response.controller_id, response.brokers[0].port, response.endpoint_type) == (1, CONTROL, 2)


def test_api_versions_tell_the_levels_of_features(host: Host) -> None:
    """KIP-584: what the cluster has, and what this node could work at; level 0 is for clients that can read it."""
    for version in (3, 4):
        host.open(version, CONTROL)
        host.send(version, ApiVersionsRequest("test", "1"), version)
    host.iterate()
    for (_, frame), version in zip(host.sent, (3, 4), strict=True):
        _, response = decode_response(ApiKey.API_VERSIONS, version, frame)
        assert isinstance(response, ApiVersionsResponse)
        finalized = {one.name: one.max_version_level for one in response.finalized_features}
        assert finalized == {"metadata.version": 23, "eligible.leader.replicas.version": 1}
        assert response.finalized_features_epoch >= 0
        supported = [one.name for one in response.supported_features]
        assert supported == ["metadata.version", "eligible.leader.replicas.version"][: version - 2]


def test_an_api_versions_request_from_the_future_is_answered_in_version_0(host: Host) -> None:
    host.open(1)
    frame = b"".join(encode_request(ApiKey.API_VERSIONS, 3, 1, "test", ApiVersionsRequest("test", "1")))
    host.node.received(host.now, 1, bytearray(frame[:2] + b"\x00\x09" + frame[4:]))
    host.iterate()
    _, response = decode_response(ApiKey.API_VERSIONS, 0, host.sent[0][1])
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.api_keys


@pytest.mark.parametrize("port", [CLIENT, CONTROL])
def test_a_malformed_frame_closes_its_connection_only(host: Host, port: int) -> None:
    host.open(1, port)
    host.open(2, port)
    host.node.received(host.now, 1, bytearray(b"no request"))
    asked = host.send(2, ApiVersionsRequest("test", "1"), 3)
    host.iterate()
    assert Close(1) in host.effects
    assert host.answered(2) == [asked]


@pytest.mark.parametrize("api_key", [4, 5, 6, 7], ids=["LeaderAndIsr", "StopReplica", "UpdateMetadata", "Shutdown"])
@pytest.mark.parametrize("port", [CLIENT, CONTROL])
def test_orders_of_a_controller_of_the_zookeeper_era_are_refused(host: Host, port: int, api_key: int) -> None:
    """DP-12: what a replica is, it learns from committed metadata; nobody can tell it over a connection."""
    assert host.node.broker is not None
    image = host.node.broker.image.fingerprint()
    host.open(1, port)
    header = struct.pack(">hhih", api_key, 0, 1, -1)
    host.node.received(host.now, 1, bytearray(header + bytes(200)))
    host.iterate()
    assert Close(1) in host.effects
    assert host.node.broker.image.fingerprint() == image


def test_metadata_is_durable_before_anybody_hears_of_it(host: Host) -> None:
    """QC-20: nothing of what was said before a power loss is forgotten."""
    last = host.node.raft.high_watermark
    assert last > 0
    host.disk.lose_power()
    again = Host(host.disk)
    assert again.node.raft.end_offset >= last
    assert again.node.raft.epoch >= host.node.raft.epoch


def test_after_close_a_node_does_nothing_more(host: Host) -> None:
    host.node.close(host.now)
    host.node.turn(host.now)
    host.node.flush(host.now)
    assert host.node.deadline() == 2**63 - 1
    assert host.disk.exists(".kafka_cleanshutdown")


def test_a_directory_of_another_node_is_refused(host: Host) -> None:
    other = PROPERTIES | {"node.id": "2", "controller.quorum.voters": "2@127.0.0.1:9093"}
    with pytest.raises(NodeError, match=r"meta\.properties: node\.id=1 but the configuration says 2"):
        Node(NodeConfig.of(other), disk=host.disk, clock=Clock(), rng=Random(2), trace=NullTrace(), now=0)


def test_only_a_leaders_records_leave_before_it_has_made_them_durable(host: Host) -> None:
    """X14: what an answer to a fetch holds is no promise; what a client is told is one."""
    host.open(5, CONTROL)
    end = host.node.raft.end_offset
    partition = FetchPartition(partition=0, fetch_offset=end, last_fetched_epoch=host.node.raft.epoch)
    partition.current_leader_epoch = host.node.raft.epoch
    topics = [FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])]
    fetch = FetchRequest(replica_state=ReplicaState(7, -1), max_wait_ms=500, topics=topics)
    told_of_the_high_watermark = host.send(5, fetch, 17)
    host.iterate()
    host.send(5, fetch, 17)
    host.iterate()
    assert host.answered(5) == [told_of_the_high_watermark], "the other one waits for records"
    host.open(6, CONTROL)
    host.send(6, CreateTopicsRequest(topics=[CreatableTopic("orders", 1, 1)], timeout_ms=1000), 7)
    node = host.node
    node.turn(host.now)
    durable = node.raft.log.durable_offset
    early = node.release_early()
    assert [effect.connection for effect in early if isinstance(effect, Send)] == [5]
    assert node.raft.log.durable_offset == durable < node.raft.end_offset, "no flush has taken place"
    assert not any(isinstance(effect, Send) and effect.connection in (5, 6) for effect in node.outbox)
    node.flush(host.now)
    assert [effect.connection for effect in node.outbox if isinstance(effect, Send) and effect.connection == 6] == [6]


def test_an_early_answer_does_not_overtake_those_before_it_on_its_connection(host: Host) -> None:
    node = host.node
    node.turn(host.now)
    node.raft.append(host.now, [[encode_record(NoOpRecord())]])
    node.outbox[:] = [Send(1, [b"first"]), Send(1, [b"fetched"], True), Send(2, [b"fetched"], True), Close(2)]
    assert node.release_early() == [Send(2, [b"fetched"], True)]
    assert node.outbox == [Send(1, [b"first"]), Send(1, [b"fetched"], True), Close(2)]


def test_where_nothing_is_to_be_flushed_nothing_leaves_early(host: Host) -> None:
    host.node.outbox[:] = [Send(2, [b"fetched"], True)]
    assert host.node.release_early() == []
    assert host.node.outbox == [Send(2, [b"fetched"], True)]
