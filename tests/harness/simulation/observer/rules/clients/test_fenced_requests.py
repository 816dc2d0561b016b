"""EP-03, BL-05 and IS-07 as the observer asserts them: a node compares the epoch of each request that it serves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.fenced_requests import FencedRequests
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey, alter_partition, begin_quorum_epoch, vote
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from squall.nodes.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.messages.vote import VoteRequest, VoteResponse
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message

TOPIC_ID = bytes(range(16))


class Watched:
    """A combined node in quorum epoch 5 whose controller knows broker 3 by epoch 7, and whose broker leads t-0 in 4."""

    def __init__(self) -> None:
        self.rule = FencedRequests(None)  # type: ignore[arg-type]
        self.brokers = {3: SimpleNamespace(id=3, epoch=7)}
        image = SimpleNamespace(last_offset=9, brokers=self.brokers)
        self.replica = SimpleNamespace(topic="t", partition=0, leader_epoch=4, is_leader=True)
        replicas = SimpleNamespace(
            by_id=lambda topic_id, number: SimpleNamespace(replica=self.replica) if topic_id == TOPIC_ID else None
        )
        self.node: Any = SimpleNamespace(
            controller=SimpleNamespace(image=image),
            broker=SimpleNamespace(replicas=replicas),
            raft=SimpleNamespace(epoch=5),
            config=SimpleNamespace(control_listeners=[SimpleNamespace(listener="CONTROLLER")]),
        )
        self.process: Any = SimpleNamespace(name="n1", incarnation=1, now=0)
        self.turn(0)

    def turn(self, now: int) -> None:
        self.process.now = now
        self.rule.turned(self.process, self.node)

    def registers_again(self, now: int, epoch: int) -> None:
        self.brokers[3] = SimpleNamespace(id=3, epoch=epoch)
        self.node.controller.image.last_offset = epoch
        self.turn(now)

    def answers(
        self, key: ApiKey, asked: Message, told: Message, *, received_at: int = 50, listener: str = "CONTROLLER"
    ) -> None:
        request = ServerRequest(int(key), 1, asked, "client", listener, 5, received_at)
        request.answer = Answer(response=told)
        self.rule.answered(self.process, self.node, request)

    def heartbeat(self, epoch: int, error: int = 0, **how: Any) -> None:
        asked, told = BrokerHeartbeatRequest(3, epoch), BrokerHeartbeatResponse(error_code=error)
        self.answers(ApiKey.BROKER_HEARTBEAT, asked, told, **how)


# -- brokers --------------------------------------------------------------------------------------------------------


def test_a_heartbeat_of_an_earlier_incarnation_that_is_accepted_breaks_bl_05() -> None:
    with pytest.raises(InvariantBroken, match=r"^BL-05: controller n1 accepts BROKER_HEARTBEAT of broker 3 with .* 6;"):
        Watched().heartbeat(6)


def test_one_that_is_refused_or_names_the_registration_is_sound() -> None:
    Watched().heartbeat(6, ErrorCode.STALE_BROKER_EPOCH)
    Watched().heartbeat(7)


def test_an_answer_may_come_after_the_broker_has_registered_again() -> None:
    watched = Watched()
    watched.registers_again(100, 12)
    watched.heartbeat(7, received_at=100)
    with pytest.raises(InvariantBroken, match=r"^BL-05"):
        watched.heartbeat(7, received_at=101)


def test_a_new_controller_has_known_nobody_before() -> None:
    watched = Watched()
    watched.node.raft.epoch = 6
    watched.turn(100)
    watched.heartbeat(6, received_at=90)


def test_what_a_combined_node_gets_as_a_broker_is_forwarded() -> None:
    Watched().heartbeat(6, listener="PLAINTEXT")


# -- proposals ------------------------------------------------------------------------------------------------------


def proposes(leader: int, leader_epoch: int, partition_epoch: int, error: int = 0) -> None:
    """Broker 3 proposes an ISR for leader epoch 4 and partition epoch 8, and is answered with these."""
    one = alter_partition.PartitionDataRequest(0, leader_epoch=4, partition_epoch=8)
    asked = AlterPartitionRequest(3, 7, [alter_partition.TopicDataRequest(TOPIC_ID, [one])])
    part = alter_partition.PartitionDataResponse(
        0, error, leader_id=leader, leader_epoch=leader_epoch, partition_epoch=partition_epoch
    )
    told = AlterPartitionResponse(topics=[alter_partition.TopicDataResponse(TOPIC_ID, [part])])
    Watched().answers(ApiKey.ALTER_PARTITION, asked, told)


@pytest.mark.parametrize(("leader", "leader_epoch", "partition_epoch"), [(1, 4, 9), (3, 5, 9), (3, 4, 10), (3, 4, 7)])
def test_a_proposal_of_other_epochs_that_is_accepted_breaks_is_07(
    leader: int, leader_epoch: int, partition_epoch: int
) -> None:
    with pytest.raises(InvariantBroken, match=r"^IS-07: controller n1 accepts an ISR that broker 3 proposes"):
        proposes(leader, leader_epoch, partition_epoch)


@pytest.mark.parametrize("partition_epoch", [8, 9])
def test_a_proposal_may_change_something_or_nothing(partition_epoch: int) -> None:
    proposes(3, 4, partition_epoch)


def test_a_proposal_that_is_refused_may_be_outdated() -> None:
    proposes(1, 5, 12, ErrorCode.FENCED_LEADER_EPOCH)


# -- the quorum -----------------------------------------------------------------------------------------------------


def asks_for_a_vote(epoch: int, error: int = 0, *, whole: int = 0) -> None:
    asked = VoteRequest(topics=[vote.TopicDataRequest("m", [vote.PartitionDataRequest(0, replica_epoch=epoch)])])
    part = vote.PartitionDataResponse(0, error, leader_epoch=5)
    Watched().answers(ApiKey.VOTE, asked, VoteResponse(whole, [vote.TopicDataResponse("m", [part])]))


def test_a_vote_request_of_an_earlier_epoch_that_is_not_refused_breaks_ep_03() -> None:
    with pytest.raises(InvariantBroken, match=r"^EP-03: n1 is in epoch 5 of the quorum, and .* VoteRequest of epoch 4"):
        asks_for_a_vote(4)
    asks_for_a_vote(4, ErrorCode.FENCED_LEADER_EPOCH)
    asks_for_a_vote(4, whole=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asks_for_a_vote(5)


def test_so_does_news_of_a_former_leader() -> None:
    one = begin_quorum_epoch.PartitionDataRequest(0, leader_id=2, leader_epoch=3)
    asked = BeginQuorumEpochRequest(topics=[begin_quorum_epoch.TopicDataRequest("m", [one])])
    part = begin_quorum_epoch.PartitionDataResponse(0)
    told = BeginQuorumEpochResponse(topics=[begin_quorum_epoch.TopicDataResponse("m", [part])])
    with pytest.raises(InvariantBroken, match=r"^EP-03: .* BeginQuorumEpochRequest of epoch 3"):
        Watched().answers(ApiKey.BEGIN_QUORUM_EPOCH, asked, told)


# -- leader epochs --------------------------------------------------------------------------------------------------


def fetches(epoch: int, error: int = 0, *, follower: bool = False, leads: bool = True) -> None:
    watched = Watched()
    watched.replica.is_leader = leads
    asked = FetchRequest(
        replica_state=ReplicaState(2 if follower else -1, 1),
        topics=[FetchTopic(TOPIC_ID, "", [FetchPartition(0, epoch)])],
    )
    told = FetchResponse(responses=[FetchableTopicResponse(TOPIC_ID, "", [PartitionData(0, error)])])
    watched.answers(ApiKey.FETCH, asked, told, listener="PLAINTEXT")


@pytest.mark.parametrize("epoch", [3, 5])
def test_a_fetch_of_another_leader_epoch_that_is_served_breaks_ep_03(epoch: int) -> None:
    with pytest.raises(
        InvariantBroken, match=rf"^EP-03: n1 answers FetchRequest about t-0 .* leader epoch {epoch}; .* 4"
    ):
        fetches(epoch)


def test_a_client_that_names_no_epoch_is_served_also_by_a_follower() -> None:
    fetches(-1)
    fetches(-1, leads=False)


def test_a_fetch_of_another_leader_epoch_may_be_refused() -> None:
    fetches(3, ErrorCode.FENCED_LEADER_EPOCH)
    fetches(5, ErrorCode.UNKNOWN_LEADER_EPOCH)


def test_a_follower_is_served_by_the_leader_alone() -> None:
    fetches(4, follower=True)
    with pytest.raises(InvariantBroken, match=r"^EP-03: n1 serves a follower of t-0, which it does not lead"):
        fetches(4, follower=True, leads=False)
