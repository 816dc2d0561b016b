"""A controller that leads a quorum of one, on a simulated disk: requests in, responses after commit."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.controller.config import ControllerConfig
from squall.nodes.controller.controller import QuorumController
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.metadata.records import NoOpRecord, decode_record
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.compiler import decode, encode_bytes
from squall.nodes.protocol.messages import APIS
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from squall.nodes.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from squall.nodes.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.replica import RaftReplica

SECOND = 1_000_000
MIN_ISR_2 = {"min.insync.replicas": "2"}


class Clock:
    def now_ms(self) -> int:
        return 1_000


class Controller:
    """`ask` sends a request and settles; `begin` sends it and leaves it waiting for its commit."""

    def __init__(self, mutants: Mutants = HEALTHY, *, buggify: Buggify = OFF, **settings: Any) -> None:
        self.now = 0
        self.mutants = mutants
        self.buggify = buggify
        self.config = ControllerConfig(node_id=1, cluster_id="cluster", **settings)
        self.disk = SimDisk(Random(0))
        self.start()

    def start(self) -> None:
        """A new incarnation on the same disk, active."""
        raft_config = RaftConfig(1, "cluster", bytes(16), (Voter(1, "host", 9093),))
        self.raft = RaftReplica(
            raft_config, disk=self.disk, clock=Clock(), rng=Random(1), trace=NullTrace(), now=self.now
        )
        self.controller = QuorumController(
            self.config, self.raft,
            rng=Random(2), trace=NullTrace(), now=self.now, mutants=self.mutants, buggify=self.buggify,
        )  # fmt: skip
        self.pass_time(0)
        assert self.controller.is_active

    @property
    def image(self) -> MetadataImage:
        return self.controller.committed

    def settle(self) -> None:
        """What a host does in one iteration."""
        for _ in range(5):
            self.raft.tick(self.now)
            self.controller.tick(self.now)
            self.raft.flush(self.now)
            self.controller.advance(self.now)

    def pass_time(self, seconds: float) -> None:
        end = self.now + round(seconds * SECOND)
        while min(self.controller.deadline(), self.raft.deadline()) <= end:
            self.now = max(self.now, min(self.controller.deadline(), self.raft.deadline()))
            self.settle()
        self.now = end
        self.settle()

    def begin(self, body: Message, version: int | None = None) -> ServerRequest:
        api = APIS[body.API_KEY]
        version = api.versions[1] if version is None else version
        message = decode(api.request, version, encode_bytes(body, version))
        request = ServerRequest(api.key, version, message, "test", "CONTROLLER", 1, self.now)
        self.controller.handle(self.now, request)
        return request

    def ask(self, body: Message, version: int | None = None) -> Any:
        request = self.begin(body, version)
        self.settle()
        assert request.answer is not None and request.answer.response is not None
        response = request.answer.response
        return decode(type(response), request.api_version, encode_bytes(response, request.api_version))

    def records(self, since: int = 0) -> list[Message]:
        """Committed records from an offset on, without control records and idle ones."""
        found = []
        for batch in self.raft.committed(since):
            if not batch.is_control:
                found += [decode_record(value) for value in batch.values]
        return [record for record in found if not isinstance(record, NoOpRecord)]

    # -- brokers ----------------------------------------------------------------------------------------------

    def register(self, broker: int, incarnation: int = 1, *, clean: bool = False) -> Any:
        """`clean`: the broker can show that its last incarnation, as the controller knows it, stopped cleanly."""
        return self.ask(
            BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id="cluster",
                incarnation_id=incarnation.to_bytes(16, "big"),
                listeners=[Listener(name="PLAINTEXT", host=f"host{broker}", port=9092)],
                previous_broker_epoch=self.image.brokers[broker].epoch if clean else -1,
            )
        )

    def heartbeat(self, broker: int, epoch: int | None = None, offset: int | None = None, **wishes: bool) -> Any:
        epoch = self.image.brokers[broker].epoch if epoch is None else epoch
        offset = self.image.last_offset if offset is None else offset
        return self.ask(
            BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, current_metadata_offset=offset, **wishes)
        )

    def bring_up(self, *brokers: int) -> None:
        for broker in brokers:
            self.register(broker)
            self.heartbeat(broker)

    def fence(self, *brokers: int) -> None:
        """Let the sessions of these brokers end, one after the other, while the other unfenced ones live on."""
        for broker in brokers:
            others = [one.id for one in self.image.brokers.values() if not one.fenced and one.id != broker]
            self.live_on(10, *others)
            assert self.image.brokers[broker].fenced

    def return_of(self, broker: int, *, clean: bool) -> None:
        """A fenced broker's next incarnation registers and is unfenced."""
        incarnation = int.from_bytes(self.image.brokers[broker].incarnation_id, "big") + 1
        self.register(broker, incarnation, clean=clean)
        self.heartbeat(broker)

    def live_on(self, seconds: float, *brokers: int) -> None:
        """Let time pass while these brokers keep sending heartbeats."""
        for _ in range(round(seconds / 2)):
            self.pass_time(2)
            for broker in brokers:
                self.heartbeat(broker)

    def alter_config(
        self, name: str, value: str | None, topic: str | None = "events", *, operation: int = 0, **fields: bool
    ) -> Any:
        """The answer for the one setting of a topic, or of the cluster if `topic` is None."""
        kind, resource = (2, topic) if topic is not None else (4, "")
        alteration = AlterConfigsResource(kind, resource, [AlterableConfig(name, operation, value)])
        return self.ask(IncrementalAlterConfigsRequest([alteration], **fields)).responses[0]

    def keep_eligible_leaders(self, level: int, **fields: Any) -> Any:
        update = FeatureUpdateKey(ELIGIBLE_LEADER_REPLICAS, level, upgrade_type=1 if level else 2)
        return self.ask(UpdateFeaturesRequest(feature_updates=[update], **fields), 1).results[0]

    # -- topics -----------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str = "events",
        *,
        partitions: int = 1,
        factor: int = 3,
        assignment: Mapping[int, list[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> Any:
        manual = assignment is not None
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if manual else partitions,
            replication_factor=-1 if manual else factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
                for number, replicas in (assignment or {}).items()
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        return self.ask(CreateTopicsRequest(topics=[topic], validate_only=validate_only)).topics[0]

    def partition(self, name: str = "events", number: int = 0) -> PartitionRegistration:
        found = self.image.partition(name, number)
        assert found is not None
        return found

    def alter_partition(
        self,
        sender: int,
        isr: Mapping[int, int] | list[int],
        *,
        broker_epoch: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        topic: str = "events",
        number: int = 0,
        recovery_state: int = 0,
    ) -> Any:
        """A proposal; what is not given is as the controller has it. `isr` maps members to broker epochs."""
        members = isr if isinstance(isr, Mapping) else {one: self.image.brokers[one].epoch for one in isr}
        registration = self.partition(topic, number)
        found = self.image.topic(topic)
        assert found is not None
        data = PartitionDataRequest(
            partition_index=number,
            leader_epoch=registration.leader_epoch if leader_epoch is None else leader_epoch,
            partition_epoch=registration.partition_epoch if partition_epoch is None else partition_epoch,
            leader_recovery_state=recovery_state,
            new_isr_with_epochs=[BrokerState(broker_id=one, broker_epoch=epoch) for one, epoch in members.items()],
        )
        return self.ask(
            AlterPartitionRequest(
                broker_id=sender,
                broker_epoch=self.image.brokers[sender].epoch if broker_epoch is None else broker_epoch,
                topics=[TopicDataRequest(topic_id=found.id, partitions=[data])],
            )
        )


@pytest.fixture
def make_controller() -> type[Controller]:
    return Controller


@pytest.fixture
def controller() -> Controller:
    """Three brokers up, and topic `events` with one partition on 1, 2, 3."""
    return with_events(Controller())


@pytest.fixture
def durable() -> Controller:
    """The same with a min ISR of 2."""
    return with_events(Controller(), MIN_ISR_2)


@pytest.fixture
def controller_without_elr() -> Controller:
    """The same at level 0 of eligible.leader.replicas.version (EL-06)."""
    return with_events(Controller(eligible_leader_replicas=False))


def with_events(made: Controller, configs: Mapping[str, str] | None = None) -> Controller:
    made.bring_up(1, 2, 3)
    made.create_topic(assignment={0: [1, 2, 3]}, configs=configs)
    return made
