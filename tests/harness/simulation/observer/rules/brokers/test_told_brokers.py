"""TOLD as the observer asserts it: what the active controller answers to a broker is so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.brokers.told_brokers import ToldBrokers
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.records import RECOVERED, RECOVERING
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
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
    TopicDataResponse,
)
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message

TOPIC_ID = bytes(range(16))
NOW = 100


class Watched:
    """An active controller that knows broker 3 of epoch 7, leader of t-0, and broker 4 of epoch 8, in its ISR."""

    def __init__(self) -> None:
        self.rule = ToldBrokers(None)  # type: ignore[arg-type]
        self.leader, self.follower = (
            SimpleNamespace(
                id=number, epoch=epoch, incarnation_id=bytes([number] * 16), active=True, in_controlled_shutdown=False
            )
            for number, epoch in ((3, 7), (4, 8))
        )
        self.registration = SimpleNamespace(
            leader=3, leader_epoch=5, partition_epoch=9, replicas=(3, 4), isr=(3, 4), recovery_state=RECOVERED
        )
        topic = SimpleNamespace(name="t", partitions={0: self.registration})
        self.image: Any = SimpleNamespace(
            brokers={3: self.leader, 4: self.follower}, topics={TOPIC_ID: topic}, next_producer_id=3000, last_offset=50
        )
        self.process: Any = SimpleNamespace(name="c1", incarnation=1, now=NOW)
        config = SimpleNamespace(control_listeners=[SimpleNamespace(listener="CONTROLLER")], cluster_id="ours")
        self.node: Any = SimpleNamespace(controller=SimpleNamespace(image=self.image), config=config)
        self.rule.turned(self.process, self.node)
        self.listener = "CONTROLLER"
        self.arrived = NOW

    def answers(self, key: ApiKey, asked: Message, told: Message) -> None:
        self.node.controller.image = self.image
        request = ServerRequest(int(key), 3, asked, "b3", self.listener, 5, self.arrived)
        request.answer = Answer(response=told)
        self.rule.answered(self.process, self.node, request)

    def heartbeat(self, *, epoch: int = 7, applied: int = 7, error: int = 0, fence: bool = False, stop: bool = False,
                  **told: bool) -> None:  # fmt: skip
        asked = BrokerHeartbeatRequest(3, epoch, applied, want_fence=fence, want_shut_down=stop)
        response = BrokerHeartbeatResponse(error_code=error, is_caught_up=True, is_fenced=False)
        for name, value in told.items():
            setattr(response, name, value)
        self.answers(ApiKey.BROKER_HEARTBEAT, asked, response)

    def registers(self, *, incarnation: int, error: int = 0, epoch: int = -1, cluster: str = "ours") -> None:
        asked = BrokerRegistrationRequest(3, cluster, bytes([incarnation] * 16), [Listener("PLAINTEXT", "h3", 9092, 0)])
        self.answers(ApiKey.BROKER_REGISTRATION, asked, BrokerRegistrationResponse(0, error, epoch))

    def proposes(
        self,
        error: int = 0,
        *,
        isr: dict[int, int] | None = None,
        sender: tuple[int, int] = (3, 7),
        leader_epoch: int = 5,
        partition_epoch: int = 9,
        recovery: int = RECOVERED,
        told: dict[str, Any] | None = None,
    ) -> None:
        """Broker 3 proposes an ISR, by default of itself and 4. `told` are the fields of a wrong answer."""
        members = {3: 7, 4: 8} if isr is None else isr
        states = [BrokerState(one, epoch) for one, epoch in members.items()]
        part = PartitionDataRequest(
            0, leader_epoch, new_isr_with_epochs=states, leader_recovery_state=recovery, partition_epoch=partition_epoch
        )
        asked = AlterPartitionRequest(*sender, [TopicDataRequest(TOPIC_ID, [part])])
        result = PartitionDataResponse(0, error, sender[0], leader_epoch, list(members), recovery, partition_epoch)
        for name, value in (told or {}).items():
            setattr(result, name, value)
        told_all = AlterPartitionResponse(topics=[TopicDataResponse(TOPIC_ID, [result])])
        self.answers(ApiKey.ALTER_PARTITION, asked, told_all)


def breaks(sentence: str) -> Any:
    return pytest.raises(InvariantBroken, match=rf"^TOLD: c1 answers b3: .*{sentence}")


# -- the broker epoch -----------------------------------------------------------------------------------------------


def test_only_a_registration_that_does_not_hold_is_stale() -> None:
    with breaks("STALE_BROKER_EPOCH to broker 3 of epoch 7, which is registered with it"):
        Watched().heartbeat(error=ErrorCode.STALE_BROKER_EPOCH)
    Watched().heartbeat(epoch=6, error=ErrorCode.STALE_BROKER_EPOCH)


def test_a_broker_that_is_not_registered_is_stale() -> None:
    watched = Watched()
    del watched.image.brokers[3]
    watched.heartbeat(error=ErrorCode.STALE_BROKER_EPOCH)


def test_an_active_controller_says_that_it_is_none_to_nobody() -> None:
    with breaks("NOT_CONTROLLER to broker 3 of epoch 7, which an active controller has no reason for"):
        Watched().heartbeat(error=ErrorCode.NOT_CONTROLLER)


def test_one_that_is_not_active_any_more_may_say_so() -> None:
    watched = Watched()
    watched.image = None
    watched.heartbeat(error=ErrorCode.NOT_CONTROLLER)


def test_what_a_combined_node_gets_as_a_broker_is_forwarded() -> None:
    watched = Watched()
    watched.listener = "PLAINTEXT"
    watched.heartbeat(error=ErrorCode.NOT_CONTROLLER)


# -- registrations --------------------------------------------------------------------------------------------------


def test_a_registered_incarnation_is_told_its_epoch() -> None:
    with breaks("NONE and epoch 6, it is another"):
        Watched().registers(incarnation=3, epoch=6)
    Watched().registers(incarnation=3, epoch=7)


def test_another_incarnation_may_have_registered_before_the_answer_leaves() -> None:
    Watched().registers(incarnation=9, epoch=6)


def test_a_duplicate_is_another_incarnation() -> None:
    with breaks("DUPLICATE_BROKER_REGISTRATION, no other incarnation is registered"):
        Watched().registers(incarnation=3, error=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    Watched().registers(incarnation=9, error=ErrorCode.DUPLICATE_BROKER_REGISTRATION)


def test_a_refused_registration_may_be_repeated_and_accepted_before_the_refusal_leaves() -> None:
    """Seed 999656 of worlds: the refusal rested on what was not committed yet, and waited for that."""
    watched = Watched()
    watched.arrived = NOW - 1
    watched.registers(incarnation=3, error=ErrorCode.DUPLICATE_BROKER_REGISTRATION)


def test_another_cluster_is_refused_and_this_one_is_not() -> None:
    with breaks("INCONSISTENT_CLUSTER_ID, it names the cluster ours"):
        Watched().registers(incarnation=9, error=ErrorCode.INCONSISTENT_CLUSTER_ID)
    Watched().registers(incarnation=9, error=ErrorCode.INCONSISTENT_CLUSTER_ID, cluster="theirs")


# -- heartbeats -----------------------------------------------------------------------------------------------------


def test_a_broker_has_caught_up_with_its_registration_or_has_not() -> None:
    with breaks("has applied 6, that it has caught up: True; its epoch is 7"):
        Watched().heartbeat(applied=6)
    Watched().heartbeat(applied=6, is_caught_up=False, is_fenced=True)


def test_a_broker_is_fenced_for_a_reason() -> None:
    with breaks("that it is fenced, which it has no reason to be"):
        Watched().heartbeat(is_fenced=True)
    Watched().heartbeat(fence=True, is_fenced=True)


def test_a_broker_that_stops_stays_fenced() -> None:
    watched = Watched()
    watched.leader.in_controlled_shutdown = True
    watched.heartbeat(is_fenced=True)


def test_a_broker_that_asks_to_be_fenced_is() -> None:
    with breaks("that it may stop: False, and is fenced: False"):
        Watched().heartbeat(fence=True)


def test_only_a_broker_that_wants_to_stop_may() -> None:
    with breaks("that it may stop: True, and is fenced: True"):
        Watched().heartbeat(should_shut_down=True, is_fenced=True)
    Watched().heartbeat(stop=True, should_shut_down=True, is_fenced=True)


def test_a_broker_that_may_stop_is_fenced_and_one_that_waits_is_not() -> None:
    with breaks("wants to stop, that it may stop: True, and is fenced: False"):
        Watched().heartbeat(stop=True, should_shut_down=True)
    Watched().heartbeat(stop=True)


# -- producer ids ---------------------------------------------------------------------------------------------------


def test_a_block_of_producer_ids_ends_where_the_next_one_begins() -> None:
    asked = AllocateProducerIdsRequest(3, 7)
    with breaks("the block of producer ids from 2500 to 3500; the next one is 3000"):
        Watched().answers(ApiKey.ALLOCATE_PRODUCER_IDS, asked, AllocateProducerIdsResponse(0, 0, 2500, 1000))
    Watched().answers(ApiKey.ALLOCATE_PRODUCER_IDS, asked, AllocateProducerIdsResponse(0, 0, 2000, 1000))


# -- accepted proposals ---------------------------------------------------------------------------------------------


def test_a_proposal_that_changes_nothing_is_accepted_with_what_holds() -> None:
    Watched().proposes()


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"leader_id": 4}, "it has leader 3 of epoch 5"),
        ({"leader_epoch": 6}, "it has leader 3 of epoch 5"),
        ({"isr": [3]}, r"it answers with ISR \[3\]"),
        ({"leader_recovery_state": RECOVERING}, "and leader recovery state 1"),
        ({"partition_epoch": 11}, "and partition epoch 9"),
    ],
)
def test_an_accepted_proposal_is_answered_as_it_was_made(told: dict[str, Any], sentence: str) -> None:
    with breaks(rf"NONE to the ISR \[3, 4\] of t-0; .*{sentence}"):
        Watched().proposes(told=told)


def test_an_accepted_isr_is_what_the_topic_partition_has() -> None:
    watched = Watched()
    watched.registration.isr = (3,)
    with breaks(r"it has leader 3 of epoch 5, ISR \[3\] and partition epoch 9"):
        watched.proposes()


def test_a_topic_partition_may_have_changed_again_before_the_answer_leaves() -> None:
    watched = Watched()
    watched.registration.isr, watched.registration.partition_epoch = (3,), 10
    watched.proposes()


def test_every_proposal_is_answered() -> None:
    part = PartitionDataRequest(0, 5, new_isr_with_epochs=[BrokerState(3, 7)], partition_epoch=9)
    asked = AlterPartitionRequest(3, 7, [TopicDataRequest(TOPIC_ID, [part])])
    with breaks("1 proposals of ISRs with 0 results"):
        Watched().answers(ApiKey.ALTER_PARTITION, asked, AlterPartitionResponse())


# -- refused proposals ----------------------------------------------------------------------------------------------


def test_a_proposal_of_an_older_epoch_is_fenced_and_of_this_one_is_not() -> None:
    with breaks(r"FENCED_LEADER_EPOCH to the ISR \[3, 4\] of t-0; it has leader 3, leader epoch 5"):
        Watched().proposes(ErrorCode.FENCED_LEADER_EPOCH)
    Watched().proposes(ErrorCode.FENCED_LEADER_EPOCH, leader_epoch=4)


def test_a_proposal_for_an_older_partition_epoch_is_refused_and_for_this_one_is_not() -> None:
    with breaks("INVALID_UPDATE_VERSION"):
        Watched().proposes(ErrorCode.INVALID_UPDATE_VERSION)
    Watched().proposes(ErrorCode.INVALID_UPDATE_VERSION, partition_epoch=8)


def test_a_newer_epoch_than_the_controller_knows_shows_that_it_is_deposed() -> None:
    with breaks("NOT_CONTROLLER"):
        Watched().proposes(ErrorCode.NOT_CONTROLLER)
    Watched().proposes(ErrorCode.NOT_CONTROLLER, leader_epoch=6)
    Watched().proposes(ErrorCode.NOT_CONTROLLER, partition_epoch=10)


def test_a_leader_that_changes_with_the_isr_has_a_newer_epoch() -> None:
    with breaks("NEW_LEADER_ELECTED"):
        Watched().proposes(ErrorCode.NEW_LEADER_ELECTED)
    watched = Watched()
    watched.registration.leader_epoch = 6
    watched.proposes(ErrorCode.NEW_LEADER_ELECTED)


def test_a_member_is_ineligible_if_it_is_not_active_or_has_restarted() -> None:
    with breaks("INELIGIBLE_REPLICA"):
        Watched().proposes(ErrorCode.INELIGIBLE_REPLICA)
    Watched().proposes(ErrorCode.INELIGIBLE_REPLICA, isr={3: 7, 4: 6})
    watched = Watched()
    watched.follower.active = False
    watched.proposes(ErrorCode.INELIGIBLE_REPLICA)


def test_a_refusal_that_has_waited_may_name_what_is_over() -> None:
    watched = Watched()
    watched.arrived = NOW - 1
    watched.proposes(ErrorCode.INELIGIBLE_REPLICA)


@pytest.mark.parametrize("in_that_turn", [True, False])
def test_a_topic_may_be_deleted_between_a_refusal_and_its_answer(in_that_turn: bool) -> None:
    """Seed 155 of worlds: both requests came in one turn, and a fetch in it committed what they waited for."""
    watched = Watched()
    watched.image.topics.clear()
    watched.image.last_offset += in_that_turn
    if in_that_turn:
        watched.proposes(ErrorCode.INVALID_UPDATE_VERSION, partition_epoch=8)
    else:
        with breaks("there is no such topic-partition"):
            watched.proposes(ErrorCode.INVALID_UPDATE_VERSION, partition_epoch=8)


@pytest.mark.parametrize(
    "proposal",
    [
        {"isr": {4: 8}},
        {"isr": {3: 7, 5: 1}},
        {"sender": (4, 8)},
        {"recovery": RECOVERING},
        {"recovery": 7},
    ],
)
def test_what_no_leader_may_propose_is_invalid(proposal: dict[str, Any]) -> None:
    Watched().proposes(ErrorCode.INVALID_REQUEST, **proposal)


def test_a_recovering_leader_may_propose_itself() -> None:
    watched = Watched()
    watched.registration.recovery_state = RECOVERING
    with breaks("INVALID_REQUEST"):
        watched.proposes(ErrorCode.INVALID_REQUEST, isr={3: 7}, recovery=RECOVERING)


def test_a_leader_that_proposes_its_replicas_is_not_invalid() -> None:
    with breaks("INVALID_REQUEST"):
        Watched().proposes(ErrorCode.INVALID_REQUEST)


def test_a_topic_partition_that_exists_is_not_unknown() -> None:
    with breaks("UNKNOWN_TOPIC_ID to the ISR .* it exists"):
        Watched().proposes(ErrorCode.UNKNOWN_TOPIC_ID)
    watched = Watched()
    watched.image.topics.clear()
    watched.proposes(ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_rarity_of_buggify_leaves_a_proposal_alone() -> None:
    Watched().proposes(ErrorCode.OPERATION_NOT_ATTEMPTED)


def test_any_other_error_is_no_answer_to_a_proposal() -> None:
    with breaks("UNKNOWN_SERVER_ERROR"):
        Watched().proposes(ErrorCode.UNKNOWN_SERVER_ERROR)
