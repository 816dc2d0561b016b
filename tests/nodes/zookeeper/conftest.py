"""Brokers' controllers around one ensemble: which requests they send, and what the ensemble holds."""

from __future__ import annotations

from random import Random

import pytest

from squall.nodes.controller.config import ControllerConfig
from squall.nodes.metadata.image import Endpoint
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from squall.nodes.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from squall.nodes.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from squall.nodes.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from squall.nodes.protocol.requests.session import ServerRequest, ToBroker
from squall.nodes.protocol.schema import Message
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.controller.controller import ControllerOptions, ZooKeeperController
from squall.nodes.zookeeper.session import Create
from squall.nodes.zookeeper.znodes import (
    PERSISTENT,
    BrokerZnode,
    StateZnode,
    broker_path,
    decode_state,
    encode_broker,
    state_path,
)
from tests.nodes.zookeeper.ensemble import Ensemble, FakeSession

LISTENER = "PLAINTEXT"


class Clock:
    def now_ms(self) -> int:
        return 0


class Cluster:
    """An ensemble, registered brokers, and a controller in each of them."""

    def __init__(self, brokers: int = 3, mutants: Mutants = HEALTHY) -> None:
        self.now = 0
        self.ensemble = Ensemble()
        for path in PERSISTENT:
            self.ensemble.write(Create(path))
        self.sessions: dict[int, FakeSession] = {}
        self.controllers: dict[int, ZooKeeperController] = {}
        self.clients: dict[int, ZooKeeperClient] = {}
        self.sent: list[tuple[int, Message]] = []
        """Requests to brokers: (broker, request), as far as they were sent."""
        self.silent: set[int] = set()
        """Brokers that answer nothing."""
        for broker in range(1, brokers + 1):
            self.add(broker, mutants)

    def add(self, broker: int, mutants: Mutants = HEALTHY) -> None:
        session = self.sessions[broker] = self.ensemble.session()
        client = self.clients[broker] = ZooKeeperClient(session)
        self.controllers[broker] = ZooKeeperController(
            ControllerConfig(broker, "cluster"), ControllerOptions(LISTENER, LISTENER), client,
            clock=Clock(), rng=Random(broker), trace=NullTrace(), mutants=mutants,
        )  # fmt: skip
        self.register(broker)

    def register(self, broker: int) -> None:
        znode = BrokerZnode(broker, (Endpoint(LISTENER, f"b{broker}", 9092),))
        self.ensemble.write(
            Create(broker_path(broker), encode_broker(znode, 0), ephemeral=True), self.sessions[broker].id
        )

    def start(self) -> None:
        """Let every broker run for the office, in the order of their ids."""
        for controller in self.controllers.values():
            controller.registered(self.now)
        self.run()

    @property
    def controller(self) -> ZooKeeperController:
        (active,) = [one for one in self.controllers.values() if one.is_active]
        return active

    def run(self) -> None:
        """Deliver and answer everything until nothing moves."""
        for _ in range(500):
            self.now += 1000
            for broker, client in list(self.clients.items()):
                client.deliver(self.now)
                self.controllers[broker].tick(self.now)
            moved = self._answer()
            parts = (*self.clients.values(), *self.controllers.values())
            if not moved and all(one.deadline() > self.now for one in parts):
                return
        raise AssertionError("the cluster does not come to rest")

    def _answer(self) -> bool:
        moved = False
        for controller in self.controllers.values():
            requests = list(controller.requests)
            controller.requests.clear()
            for request in requests:
                assert isinstance(request.destination, ToBroker)
                broker = request.destination.id
                if broker in self.silent:
                    continue
                moved = True
                self.sent.append((broker, request.message))
                request.complete(self.now, answer_to(request.message))
        return moved

    # -- what is asked, and what there is ---------------------------------------------------------------------------

    def ask(self, body: Message) -> ServerRequest:
        request = ServerRequest(body.API_KEY, 0, body, "admin", LISTENER, 1, self.now)
        self.controller.handle(self.now, request)
        self.run()
        return request

    def create(self, topic: str, partitions: int = 1, replicas: int = 3) -> None:
        self.ask(CreateTopicsRequest(topics=[CreatableTopic(topic, partitions, replicas)]))

    def state(self, topic: str, partition: int = 0) -> StateZnode:
        node = self.ensemble.tree.nodes[state_path(topic, partition)]
        return decode_state("", node.data, node.version)

    def expire(self, broker: int) -> None:
        """End a broker's session, and with it the broker's registration."""
        self.ensemble.expire(self.sessions[broker])
        self.run()

    def sent_to(self, broker: int, api: ApiKey) -> list[Message]:
        return [message for to, message in self.sent if to == broker and api == message.API_KEY]


def answer_to(message: Message) -> Message:
    match message:
        case LeaderAndIsrRequest():
            return LeaderAndIsrResponse()
        case UpdateMetadataRequest():
            return UpdateMetadataResponse()
    assert isinstance(message, StopReplicaRequest)
    return StopReplicaResponse()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def running() -> Cluster:
    """A cluster of three brokers with a controller and a topic of one partition."""
    found = Cluster()
    found.start()
    found.create("events")
    found.sent.clear()
    return found
