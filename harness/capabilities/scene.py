"""A small simulated cluster in which records are produced, and what was seen of it: the material of the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from squall.harness.scenario.cluster import await_whole, create_topics
from squall.harness.simulation.world.recording_network import Frame, RecordingNetwork, path_to
from squall.harness.simulation.world.world import CLIENT_ADDRESS, ClusterShape, SimWorld
from squall.harness.specification.following import Follower, Recorded
from squall.nodes.node.node import Node
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import NativeAdmin
from squall.workloads.clients.native.connection import KafkaConnection

TOPIC, REPLICAS, NODES = "events", 3, 3
MARKER = b"the-content-of-a-record"
PRODUCE_VERSION = 9
READY_S, ANSWER_S, QUIET_S = 30.0, 5.0, 3
RECORDS = 5
SECOND = 1_000_000


@dataclass
class Seen:
    """What one run of the scene showed. Hosts have their names; `clients` is the client's."""

    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By host: the roles of its process."""
    apis: dict[tuple[str, str], set[ApiKey]] = field(default_factory=dict)
    """By sender's and receiver's kind (`broker`, `controller`, `client`): the requests."""
    content_at: set[str] = field(default_factory=set)
    """The hosts that a produced record's content was sent to."""
    produce_path: list[tuple[str, str, str]] = field(default_factory=list)
    """The chain of messages of one acknowledged write: from, to, what."""
    leader: str = ""
    errors: dict[str, int] = field(default_factory=dict)
    """By broker: the error of a write that was sent to it."""
    logs: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By broker: where the topic-partition's log begins and ends there."""
    quorum_roles: dict[str, str] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    """Actions of the specifications that the trace consists of."""


class Scene:
    """Runs once; `play` returns what was seen. Raises SpecificationBroken for a trace that is not allowed."""

    def __init__(self, config: Mapping[str, str] | None = None) -> None:
        self._follower = Follower()
        trace = Recorded(NullTrace(), self._follower)
        shape = ClusterShape(NODES, NODES, config=dict(config or {}))
        self._world = SimWorld(shape, 1, topics={TOPIC: 1}, trace=trace, network=RecordingNetwork)
        self._follower.watch(self._world)
        self._kinds = {place.address: place.roles[0] for place in self._world.places} | {CLIENT_ADDRESS: "client"}
        self._names = {place.address: place.name for place in self._world.places} | {CLIENT_ADDRESS: "client"}
        network = self._world.network
        assert isinstance(network, RecordingNetwork)
        self._network = network
        self._network.marker = MARKER
        self._seen = Seen(roles={place.name: place.roles for place in self._world.places})

    def play(self) -> Seen:
        self._world.start()
        self._world.kernel.run_until_complete(self._prepare())
        self._world.kernel.run_for(QUIET_S * SECOND)
        self._world.kernel.run_until_complete(self._produce())
        self._world.kernel.run_for(QUIET_S * SECOND)
        self._note_frames()
        self._note_nodes()
        self._seen.actions = dict(self._follower.taken())
        self._world.switch_off()
        return self._seen

    async def _prepare(self) -> None:
        admin = NativeAdmin(self._world.connector(), self._world.bootstrap())
        await await_whole(admin, NODES, {}, READY_S)
        await create_topics(admin, (Topic(TOPIC, 1, REPLICAS),), READY_S)
        await await_whole(admin, NODES, {TOPIC: 1}, READY_S)
        await admin.close()

    async def _produce(self) -> None:
        """Write to every broker; only the leader accepts, which then takes some more."""
        brokers = {self._names[address]: (address, port) for address, port in self._world.bootstrap()}
        for name, address in brokers.items():
            connection = await KafkaConnection.connect(self._world.connector(), *address, "capabilities")
            self._seen.errors[name] = await self._write(connection)
            if self._seen.errors[name] == 0:
                self._seen.leader = name
                for _ in range(RECORDS):
                    await self._write(connection)
                self._note_path()
            connection.close()

    async def _write(self, connection: KafkaConnection) -> int:
        batch = memoryview(bytearray(build_batch([Record(value=MARKER)])))
        data = [TopicProduceData(TOPIC, [PartitionProduceData(0, batch)])]
        request = ProduceRequest(acks=-1, timeout_ms=int(ANSWER_S * 1000), topic_data=data)
        answer = await connection.request(request, PRODUCE_VERSION, ProduceResponse, ANSWER_S)
        return answer.responses[0].partition_responses[0].error_code

    def _note_path(self) -> None:
        frames = self._network.frames
        response = [one for one in frames if one.target == CLIENT_ADDRESS][-1]
        self._seen.produce_path = [
            (self._names[one.source], self._names[one.target], _what(one))
            for one in path_to(frames, response, CLIENT_ADDRESS)
        ]

    def _note_frames(self) -> None:
        for one in self._network.frames:
            if one.api is not None:
                between = self._kinds[one.source], self._kinds[one.target]
                self._seen.apis.setdefault(between, set()).add(one.api)
            if one.marked:
                self._seen.content_at.add(self._names[one.target])

    def _note_nodes(self) -> None:
        for name, process in self._world.processes.items():
            assert isinstance(process.node, Node)
            self._seen.quorum_roles[name] = self._quorum_role(process.node)
            if process.node.broker is not None:
                hosted = process.node.broker.replicas.by_name(TOPIC, 0)
                assert hosted is not None
                self._seen.logs[name] = (hosted.replica.log.start_offset, hosted.replica.log.end_offset)

    @staticmethod
    def _quorum_role(node: Node) -> str:
        return node.raft.role.name if node.raft.votes else "observer"


def _what(frame: Frame) -> str:
    return "response" if frame.api is None else frame.api.name.title().replace("_", "")
