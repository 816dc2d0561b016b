"""What a broker does in a ZooKeeper-era cluster: registration, ISR changes, requests of controllers, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from squall.nodes.metadata.image import MetadataDelta, MetadataImage
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
)
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from squall.nodes.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from squall.nodes.protocol.messages.leader_and_isr import (
    FULL,
    INCREMENTAL,
    UNKNOWN,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from squall.nodes.protocol.messages.stop_replica import (
    EPOCH_DURING_DELETE,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from squall.nodes.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToActiveController
from squall.nodes.protocol.schema import Message
from squall.nodes.zookeeper.brokers.broker_agent import BrokerAgent
from squall.nodes.zookeeper.brokers.isr_writer import PROPAGATION_DELAY
from squall.nodes.zookeeper.brokers.requested_metadata import RequestedMetadata
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.session import Create, Exists, SetData
from squall.nodes.zookeeper.znodes import (
    CONFIG_CHANGES,
    ISR_CHANGES,
    TOPIC_CONFIGS,
    StateZnode,
    decode_isr_change,
    decode_state,
    encode_config,
    encode_config_change,
    encode_state,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from tests.nodes.zookeeper.conftest import LISTENER, Clock
from tests.nodes.zookeeper.ensemble import Ensemble, FakeSession

OWN, TOPIC_ID = 1, bytes(range(16))
PATH = state_path("events", 0)


@dataclass(eq=False)
class BrokerSide:
    """The agent of broker 1 with its image, in an ensemble that holds the state of one topic-partition."""

    mutants: Mutants = HEALTHY
    now: int = 0
    registered: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ensemble = Ensemble()
        self.session: FakeSession = self.ensemble.session()
        self.client = ZooKeeperClient(self.session)
        self.image = MetadataImage()
        self.source = RequestedMetadata(OWN, self.image, NullTrace())
        self.agent = BrokerAgent(
            OWN, "cluster", self.client, self.image, self.source,
            clock=Clock(), trace=NullTrace(), registered=self.registered.append, mutants=self.mutants,
        )  # fmt: skip
        self.answers: list[Message | None] = []

    def run(self) -> None:
        self.client.deliver(self.now)
        self.agent.tick(self.now)
        self.client.deliver(self.now)

    def ask(self, message: Message) -> Message | None:
        """What the agent answers to a request of the broker."""
        self.answers.clear()
        request = OutboundRequest(
            ToActiveController(), message, 1000, lambda now, response: self.answers.append(response)
        )
        assert self.agent.submit(self.now, request)
        self.run()
        return self.answers[0] if self.answers else None

    def register(self) -> Message | None:
        return self.ask(BrokerRegistrationRequest(OWN, "cluster", listeners=[Listener(LISTENER, "b1", 9092, 0)]))

    def obey(self, body: Message) -> list[MetadataDelta]:
        """Handle a request of a controller; return what it changed."""
        self.request = ServerRequest(body.API_KEY, 0, body, "node-2", LISTENER, 1, self.now)
        self.agent.handle(self.now, self.request)
        self.run()
        deltas = list(self.source.advance())
        self.agent.applied()
        return deltas

    def error(self) -> int:
        assert self.request.answer is not None and self.request.answer.response is not None
        return int(self.request.answer.response.error_code)  # type: ignore[attr-defined]

    # -- the topic-partition ----------------------------------------------------------------------------------------

    def store(self, state: StateZnode) -> None:
        for path in (topic_path("events"), partitions_path("events"), partition_path("events", 0)):
            self.ensemble.write(Create(path))
        self.ensemble.write(Create(PATH, encode_state(state)))

    def stored(self) -> StateZnode:
        node = self.ensemble.tree.nodes[PATH]
        return decode_state(PATH, node.data, node.version)

    def alter(self, isr: tuple[int, ...], version: int, leader_epoch: int = 3) -> PartitionDataResponse:
        part = PartitionDataRequest(0, leader_epoch, [BrokerState(one) for one in isr], partition_epoch=version)
        answer = self.ask(AlterPartitionRequest(OWN, 7, [TopicDataRequest(TOPIC_ID, [part])]))
        assert isinstance(answer, AlterPartitionResponse)
        return answer.topics[0].partitions[0]


@pytest.fixture
def side() -> BrokerSide:
    found = BrokerSide()
    found.register()
    list(found.source.advance())
    return found


def led(leader: int = OWN, leader_epoch: int = 3, version: int = 5, isr: tuple[int, ...] = (1, 2, 3)) -> Message:
    return orders([state_of(leader, leader_epoch, version, isr)])


def state_of(leader: int, leader_epoch: int, version: int, isr: tuple[int, ...]) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(0, 1, leader, leader_epoch, list(isr), version, [1, 2, 3])


def orders(
    states: list[LeaderAndIsrPartitionState], *, epoch: int = 1, broker_epoch: int = 99, kind: int = FULL
) -> LeaderAndIsrRequest:
    topics = [LeaderAndIsrTopicState("events", TOPIC_ID, states)] if states else []
    return LeaderAndIsrRequest(2, False, epoch, broker_epoch, kind, topics)


def update(
    brokers: tuple[int, ...] = (1, 2), *, epoch: int = 1, broker_epoch: int = 99, leader: int = 2, leader_epoch: int = 4
) -> UpdateMetadataRequest:
    part = UpdateMetadataPartitionState(0, 1, leader, leader_epoch, [2, 3], 6, [1, 2, 3])
    return UpdateMetadataRequest(
        2, False, 0, epoch, broker_epoch, [UpdateMetadataTopicState("events", TOPIC_ID, [part])],
        [UpdateMetadataBroker(one, [UpdateMetadataEndpoint(9092, f"b{one}", LISTENER)]) for one in brokers],
    )  # fmt: skip


# -- registration ---------------------------------------------------------------------------------------------------


def test_the_broker_epoch_is_the_czxid_of_the_brokers_znode(side: BrokerSide) -> None:
    """KIP-380."""
    czxid = side.ensemble.tree.nodes["/brokers/ids/1"].czxid
    assert side.registered and side.agent.registration.epoch == czxid
    beat = side.ask(BrokerHeartbeatRequest(OWN, czxid, 0, want_fence=False))
    assert isinstance(beat, BrokerHeartbeatResponse) and (beat.error_code, beat.is_fenced) == (0, False)


def test_a_registration_whose_answer_was_lost_holds() -> None:
    side = BrokerSide()
    side.session.loses = 20
    answer = side.register()
    assert isinstance(answer, BrokerRegistrationResponse) and answer.error_code == 0


def test_the_znode_of_a_former_session_has_to_expire_first() -> None:
    """BL-05: as long as it is there, another incarnation may live."""
    side = BrokerSide()
    former = side.ensemble.session()
    side.register()
    side.ensemble.expire(side.session)
    side.ensemble.write(Create("/brokers/ids/1", b"{}", ephemeral=True), former.id)
    side.run()
    answer = side.register()
    assert isinstance(answer, BrokerRegistrationResponse)
    assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    side.ensemble.expire(former)
    again = side.register()
    assert isinstance(again, BrokerRegistrationResponse) and again.error_code == 0


def test_after_expiry_a_heartbeat_demands_another_registration(side: BrokerSide) -> None:
    """ZK-11."""
    epoch = side.agent.registration.epoch
    side.ensemble.expire(side.session)
    side.run()
    beat = side.ask(BrokerHeartbeatRequest(OWN, epoch, 0))
    assert isinstance(beat, BrokerHeartbeatResponse) and beat.error_code == ErrorCode.STALE_BROKER_EPOCH
    side.register()
    assert side.agent.registration.epoch > epoch


@pytest.mark.parametrize(
    ("response", "allowed"),
    [
        (ControlledShutdownResponse(), True),
        (ControlledShutdownResponse(0, [RemainingPartition("events", 0)]), False),
        (ControlledShutdownResponse(int(ErrorCode.STALE_BROKER_EPOCH)), False),
    ],
)
def test_a_broker_stops_when_the_controller_says_that_nothing_remains(
    side: BrokerSide, response: Message, allowed: bool
) -> None:
    """ZK-08."""
    epoch = side.agent.registration.epoch
    side.ask(BrokerHeartbeatRequest(OWN, epoch, 0, want_shut_down=True))
    (request,) = side.agent.requests
    assert request.message == ControlledShutdownRequest(OWN, epoch)
    request.complete(0, response)
    (beat,) = side.answers
    assert isinstance(beat, BrokerHeartbeatResponse) and beat.should_shut_down is allowed


# -- the ISR --------------------------------------------------------------------------------------------------------


@pytest.fixture
def leading(side: BrokerSide) -> BrokerSide:
    side.store(StateZnode(OWN, 3, (1, 2, 3), 1))
    side.obey(led(version=0))
    return side


def test_a_leader_writes_its_isr_and_the_version_is_the_partition_epoch(leading: BrokerSide) -> None:
    """ZK-07."""
    answer = leading.alter((1, 2), version=0)
    assert (answer.error_code, answer.isr, answer.partition_epoch, answer.leader_epoch) == (0, [1, 2], 1, 3)
    assert leading.stored() == StateZnode(OWN, 3, (1, 2), 1, version=1)


def test_an_isr_of_an_older_version_is_refused(leading: BrokerSide) -> None:
    """ZK-07: the controller has decided something since."""
    decided = StateZnode(2, 4, (2, 3), 1)
    leading.ensemble.write(SetData(PATH, encode_state(decided), 0))
    assert leading.alter((1, 2), version=0).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert leading.stored().leader == 2


def test_an_isr_whose_answer_was_lost_is_found_to_be_written(leading: BrokerSide) -> None:
    leading.session.loses = 1
    answer = leading.alter((1, 2), version=0)
    assert (answer.error_code, answer.partition_epoch) == (0, 1)


def test_changes_of_many_isrs_are_announced_together_and_later(leading: BrokerSide) -> None:
    leading.alter((1, 2), version=0)
    leading.alter((1, 2, 3), version=1)
    assert leading.ensemble.children(ISR_CHANGES) == []
    leading.now += PROPAGATION_DELAY
    leading.run()
    (name,) = leading.ensemble.children(ISR_CHANGES)
    path = f"{ISR_CHANGES}/{name}"
    assert decode_isr_change(path, leading.ensemble.data(path)) == [("events", 0)]


def test_blocks_of_producer_ids_do_not_overlap(side: BrokerSide) -> None:
    found = [side.ask(AllocateProducerIdsRequest(OWN, 1)) for _ in range(2)]
    assert all(isinstance(one, AllocateProducerIdsResponse) for one in found)
    first, second = (one for one in found if isinstance(one, AllocateProducerIdsResponse))
    assert second.producer_id_start == first.producer_id_start + first.producer_id_len


# -- requests of controllers ----------------------------------------------------------------------------------------


def test_a_full_request_begins_and_names_this_brokers_registration(side: BrokerSide) -> None:
    """DA-04: the lifecycle of the broker sees what it would see in the metadata log."""
    *_, delta = side.obey(led())
    assert list(delta.partitions) == [(TOPIC_ID, 0)]
    assert side.image.brokers[OWN].epoch == 99 and side.image.last_offset >= 99
    assert side.source.names_all, "logs that it does not name are strays"
    assert side.error() == 0


@pytest.mark.parametrize("kind", [None, UNKNOWN, INCREMENTAL])
def test_apache_kafkas_requests_begin_too_and_tell_no_strays(side: BrokerSide, kind: int | None) -> None:
    """Its ZooKeeper controller sends no full request: what a broker has may come in several."""
    side.obey(update() if kind is None else orders([state_of(OWN, 4, 8, (1,))], kind=kind))
    assert side.image.brokers[OWN].epoch == 99 and side.image.last_offset >= 99
    assert not side.source.names_all


def test_the_types_of_a_request_are_those_of_apache_kafka() -> None:
    """ZK-06: read otherwise, its incremental request would have our logs put aside."""
    assert (UNKNOWN, INCREMENTAL, FULL) == (0, 1, 2)


def test_the_last_of_several_requests_tells_that_all_are_named(side: BrokerSide) -> None:
    """ZK-06: our controller divides what it has to say of many topic-partitions."""
    side.obey(orders([state_of(OWN, 4, 8, (1,))], kind=INCREMENTAL))
    assert side.image.brokers[OWN].epoch == 99 and not side.source.names_all
    side.obey(orders([], kind=FULL))
    assert side.source.names_all and side.image.brokers[OWN].epoch == 99


def test_clients_are_given_the_controller_that_sent_last(side: BrokerSide) -> None:
    """ZK-01: it is a broker; each request names it."""
    assert side.source.controller_id == -1
    side.obey(update())
    assert side.source.controller_id == update().controller_id


def test_another_incarnation_is_registered_by_its_own_request(side: BrokerSide) -> None:
    side.obey(led())
    side.obey(update())
    assert side.source.names_all and side.image.brokers[OWN].epoch == 99
    side.obey(orders([], broker_epoch=120, kind=INCREMENTAL))
    assert not side.source.names_all and side.image.brokers[OWN].epoch == 120


def test_metadata_reaches_the_image_and_no_replica(side: BrokerSide) -> None:
    """ZK-06, DP-12: replicas are configured by LeaderAndIsr only."""
    side.obey(led())
    (delta,) = side.obey(update((1, 2, 3)))
    assert not delta.partitions
    found = side.image.topics[TOPIC_ID].partitions[0]
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (2, 4, 6)
    assert sorted(side.image.brokers) == [1, 2, 3]


def test_a_leader_is_told_when_the_image_has_caught_up_with_its_own_isr(side: BrokerSide) -> None:
    """DP-12: it takes no settings from an image that is behind its ISR (`zookeeper-operations`, seed 1)."""
    side.obey(led(leader_epoch=3, version=5))
    (delta,) = side.obey(update(leader=OWN, leader_epoch=3))
    assert list(delta.partitions) == [(TOPIC_ID, 0)]


@pytest.mark.parametrize("named_in", [None, 3])
def test_a_leader_epoch_that_no_leader_and_isr_has_named_reaches_no_replica(
    side: BrokerSide, named_in: int | None
) -> None:
    if named_in is not None:
        side.obey(led(leader_epoch=named_in))
    (delta,) = side.obey(update(leader=OWN, leader_epoch=4))
    assert not delta.partitions


def test_a_replica_that_was_deleted_is_told_nothing(side: BrokerSide) -> None:
    side.obey(led(leader_epoch=3))
    delete = StopReplicaTopicState("events", [StopReplicaPartitionState(0, -1, True)])
    side.obey(StopReplicaRequest(2, False, 1, 99, [delete]))
    (delta,) = side.obey(update(leader=OWN, leader_epoch=3))
    assert not delta.partitions


def test_an_older_state_never_replaces_a_newer_one(side: BrokerSide) -> None:
    """ZK-14, EP-03."""
    side.obey(led(leader=2, leader_epoch=5, version=9))
    side.obey(orders([state_of(OWN, 4, 8, (1,))]))
    side.obey(update())
    assert side.image.topics[TOPIC_ID].partitions[0].leader_epoch == 5


@pytest.mark.parametrize("make", [lambda **epochs: orders([], **epochs), update])
def test_requests_of_a_deposed_controller_or_for_an_earlier_incarnation_are_refused(
    side: BrokerSide, make: Callable[..., Message]
) -> None:
    """ZK-14, KIP-380."""
    side.obey(make(epoch=4))
    assert side.error() == 0
    assert side.obey(make(epoch=3)) == []
    assert side.error() == ErrorCode.STALE_CONTROLLER_EPOCH
    side.obey(make(epoch=4, broker_epoch=side.agent.registration.epoch - 1))
    assert side.error() == ErrorCode.STALE_BROKER_EPOCH


def test_a_deleted_replica_goes_and_a_stopped_one_stays(side: BrokerSide) -> None:
    side.obey(led())
    stop = StopReplicaTopicState("events", [StopReplicaPartitionState(0, 4, False)])
    (delta,) = side.obey(StopReplicaRequest(2, False, 1, 99, [stop]))
    assert not delta.removed_topics and side.image.brokers[OWN].in_controlled_shutdown
    delete = StopReplicaTopicState("events", [StopReplicaPartitionState(0, EPOCH_DURING_DELETE, True)])
    (delta,) = side.obey(StopReplicaRequest(2, False, 1, 99, [delete]))
    assert list(delta.removed_topics[TOPIC_ID].partitions) == [0]
    assert side.image.topic("events") is None


def test_a_stop_of_an_older_leader_epoch_is_ignored(side: BrokerSide) -> None:
    """ZK-14: a StopReplica that was overtaken deletes nothing."""
    side.obey(led(leader_epoch=8))
    stop = StopReplicaTopicState("events", [StopReplicaPartitionState(0, 7, True)])
    (delta,) = side.obey(StopReplicaRequest(2, False, 1, 99, [stop]))
    assert not delta.removed_topics and side.image.topic("events") is not None


def test_a_topic_of_the_same_name_and_another_id_replaces_the_former(side: BrokerSide) -> None:
    side.obey(led())
    other = LeaderAndIsrTopicState("events", bytes(16), [state_of(1, 0, 0, (1,))])
    (delta,) = side.obey(LeaderAndIsrRequest(2, False, 1, 99, FULL, [other]))
    assert list(delta.removed_topics) == [TOPIC_ID]
    assert side.image.topic_ids == {"events": bytes(16)}


# -- settings -------------------------------------------------------------------------------------------------------


def test_settings_of_a_topic_are_read_before_it_is_led(side: BrokerSide) -> None:
    """IS-01: with the default min ISR a leader could commit what the topic's own forbids."""
    side.ensemble.write(Create(f"{TOPIC_CONFIGS}/events", encode_config({"min.insync.replicas": "2"})))
    first, second = side.obey(led())
    assert list(first.configs) == [(2, "events")] and list(second.partitions) == [(TOPIC_ID, 0)]
    assert side.image.topic_settings("events") == {"min.insync.replicas": "2"}


def test_an_announced_change_of_settings_is_read(side: BrokerSide) -> None:
    """ZK-04."""
    side.obey(led())
    side.ensemble.write(Create(f"{TOPIC_CONFIGS}/events", encode_config({"min.insync.replicas": "3"})))
    change = encode_config_change("topics/events")
    side.ensemble.write(Create(f"{CONFIG_CHANGES}/config_change_", change, sequential=True))
    side.run()
    list(side.source.advance())
    assert side.image.topic_settings("events") == {"min.insync.replicas": "3"}


def test_the_persistent_znodes_are_there_after_the_first_registration(side: BrokerSide) -> None:
    """ZK-03."""
    for path in ("/brokers/topics", "/config/changes", "/admin/delete_topics", ISR_CHANGES, "/cluster/id"):
        assert side.ensemble.tree.read(Exists(path)).ok, path
