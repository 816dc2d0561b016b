"""A stub controller of a ZooKeeper-era cluster: it holds the office, and moves the leader of one topic-partition.

The brokers are real. They find `/controller` taken, register, and obey what comes from its holder: this stub, which
sends LeaderAndIsr and UpdateMetadata as a controller does, one request at a time to each broker, and writes what it
decides to ZooKeeper first. So an experiment knows when a request was sent, and how long its response took.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from squall.benchmarks.experiments.parts.zookeeper_client import Client
from squall.nodes.node.dispatch import ZOOKEEPER_VERSIONS
from squall.nodes.protocol.messages.leader_and_isr import (
    FULL,
    INCREMENTAL,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from squall.nodes.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from squall.nodes.protocol.requests.session import ClientSession
from squall.nodes.protocol.schema import Message
from squall.nodes.zookeeper.session import Code, Create, GetData, SetData
from squall.nodes.zookeeper.znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    Assignment,
    BrokerZnode,
    StateZnode,
    TopicZnode,
    broker_path,
    decode_broker,
    decode_state,
    encode_controller,
    encode_state,
    encode_topic,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)

CONTROLLER_ID, EPOCH = 0, 1
PATIENCE_S = 60.0
READ_LIMIT = 1 << 20
LISTED_EVERY_S = 0.05
TOPIC_ID = bytes(range(1, 17))


@dataclass(frozen=True)
class Move:
    """One change of the leader: when the first request of it was sent, and how long each broker took to respond."""

    leader: int
    sent_at: float
    took: dict[int, float]
    """Seconds until LeaderAndIsr was answered, by broker."""

    @property
    def two_leaders_s(self) -> float:
        """How long the old leader still led after the new one did; negative if it stopped before."""
        (old,) = (took for broker, took in self.took.items() if broker != self.leader)
        return old - self.took[self.leader]


@dataclass
class BrokerConnection:
    """The controller's connection to one broker: one request in flight."""

    broker: BrokerZnode
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    session: ClientSession = field(default_factory=lambda: ClientSession("stub-controller"))
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, message: Message) -> float:
        """Send a request in its turn; return the seconds from sending it to its response. Raises AssertionError."""
        async with self.turn:
            answers: list[Message | None] = []
            version = ZOOKEEPER_VERSIONS[message.API_KEY][1]
            frame = b"".join(self.session.send(message, version, 0, 1, lambda now, answer: answers.append(answer)))
            began = time.monotonic()
            self.writer.write(len(frame).to_bytes(4, "big") + frame)
            length = int.from_bytes(await self.reader.readexactly(4), "big")
            response = await self.reader.readexactly(length)
            took = time.monotonic() - began
            self.session.received(0, response)
            assert answers and getattr(answers[0], "error_code", 0) == 0, f"broker {self.broker.id}: {answers}"
            return took


class StubController:
    """See the module. One topic of one topic-partition, with all brokers as its replicas, the first of them leads."""

    def __init__(self, client: Client, brokers: Sequence[int], topic: str) -> None:
        self.brokers = tuple(brokers)
        self.topic = topic
        self.connections: dict[int, BrokerConnection] = {}
        self._client = client
        self._state = StateZnode(self.brokers[0], 0, self.brokers, EPOCH)

    async def take_office(self) -> None:
        """Become the controller, and write the topic; the brokers must not run yet."""
        do, topic = self._client.do, self.topic
        await do(Create(CONTROLLER, encode_controller(CONTROLLER_ID, 0), ephemeral=True))
        await do(Create(CONTROLLER_EPOCH, b"%d" % EPOCH))
        await self._client.make("/brokers/topics")
        await do(Create(topic_path(topic), encode_topic(TopicZnode(TOPIC_ID, {0: Assignment(self.brokers)}))))
        await do(Create(partitions_path(topic)))
        await do(Create(partition_path(topic, 0)))
        await do(Create(state_path(topic, 0), encode_state(self._state)))

    async def meet(self, listener: str) -> None:
        """Wait until every broker is registered, connect to this listener of each, and give all of them everything."""
        async with asyncio.timeout(PATIENCE_S):
            for number in self.brokers:
                while (found := await self._registered(number)) is None:
                    await asyncio.sleep(LISTED_EVERY_S)
                endpoint = found.endpoint(listener)
                assert endpoint is not None, f"broker {number} has no listener {listener} in ZooKeeper"
                reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, limit=READ_LIMIT)
                writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections[number] = BrokerConnection(found, reader, writer)
        await self._tell(FULL)

    async def _registered(self, number: int) -> BrokerZnode | None:
        found = await self._client.do(GetData(broker_path(number)), Code.NO_NODE)
        return None if found.stat is None else decode_broker(number, found.data, found.stat.czxid)

    async def move(self, leader: int) -> Move:
        """Make a broker the leader: in ZooKeeper, then by requests to all brokers at once."""
        path = state_path(self.topic, 0)
        while True:
            found = await self._client.do(GetData(path))
            assert found.stat is not None
            now = decode_state(path, found.data, found.stat.version)
            assert leader in now.isr, f"broker {leader} is not in the ISR {now.isr}"
            self._state = StateZnode(leader, now.leader_epoch + 1, now.isr, EPOCH, now.version + 1)
            written = await self._client.do(SetData(path, encode_state(self._state), now.version), Code.BAD_VERSION)
            if written.ok:
                break
        sent_at = time.monotonic()
        return Move(leader, sent_at, await self._tell(INCREMENTAL))

    async def _tell(self, kind: int) -> dict[int, float]:
        """Send LeaderAndIsr, then UpdateMetadata. Return the seconds that the former took at each broker."""

        async def tell(number: int) -> float:
            connection = self.connections[number]
            took = await connection.ask(self._leader_and_isr(connection.broker.epoch, kind))
            await connection.ask(self.update_metadata(number))
            return took

        took = await asyncio.gather(*(tell(number) for number in self.brokers))
        return dict(zip(self.brokers, took, strict=True))

    def _leader_and_isr(self, broker_epoch: int, kind: int) -> LeaderAndIsrRequest:
        state = self._state
        one = LeaderAndIsrPartitionState(
            0, EPOCH, state.leader, state.leader_epoch, list(state.isr), state.version, list(self.brokers)
        )
        return LeaderAndIsrRequest(
            controller_id=CONTROLLER_ID,
            controller_epoch=EPOCH,
            broker_epoch=broker_epoch,
            type=kind,
            topic_states=[LeaderAndIsrTopicState(self.topic, TOPIC_ID, [one])],
        )

    def update_metadata(self, number: int) -> UpdateMetadataRequest:
        """The request that gives a broker the metadata as it is; the experiment's probe."""
        state = self._state
        one = UpdateMetadataPartitionState(
            0, EPOCH, state.leader, state.leader_epoch, list(state.isr), state.version, list(self.brokers)
        )
        live = [
            UpdateMetadataBroker(
                known.broker.id,
                [UpdateMetadataEndpoint(at.port, at.host, at.listener, 0) for at in known.broker.endpoints],
            )
            for known in self.connections.values()
        ]
        return UpdateMetadataRequest(
            controller_id=CONTROLLER_ID,
            controller_epoch=EPOCH,
            broker_epoch=self.connections[number].broker.epoch,
            topic_states=[UpdateMetadataTopicState(self.topic, TOPIC_ID, [one])],
            live_brokers=live,
        )

    async def probe(self, number: int) -> float:
        """Return the seconds that one UpdateMetadata takes at a broker."""
        return await self.connections[number].ask(self.update_metadata(number))

    def close(self) -> None:
        for connection in self.connections.values():
            connection.writer.close()
