"""IS-04 as the observer asserts it: a leader keeps the ISR that it has proposed until it knows how that ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.isr.pending_changes import PendingChanges
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey, alter_partition
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from squall.nodes.protocol.requests.session import Answer, ServerRequest

TOPIC_ID = bytes(range(16))


class Leader:
    """Broker 1 leads t-0 in leader epoch 4, and partition epoch 8."""

    def __init__(self) -> None:
        self.rule = PendingChanges(SimpleNamespace(names={1: "b1"}))  # type: ignore[arg-type]
        self.replica = SimpleNamespace(
            broker=1, topic="t", topic_id=TOPIC_ID, partition=0, leader_epoch=4, partition_epoch=8, is_leader=True,
            is_changing_isr=False, proposal=None,
        )  # fmt: skip
        self.process: Any = SimpleNamespace(name="b1", node=SimpleNamespace())

    def traces(self, name: str, topic_id: bytes = TOPIC_ID) -> None:
        replica = self.replica
        epochs = {"leader_epoch": replica.leader_epoch, "partition_epoch": replica.partition_epoch}
        self.rule.traced(name, {"broker": 1, "topic_id": topic_id, "partition": 0, **epochs})

    def proposes(self, *, at_once_again: bool = False) -> None:
        for _ in range(1 + at_once_again):
            self.traces("isr_proposed")
        self.is_examined(changing=True)

    def is_examined(self, *, changing: bool = False, awaits_metadata: bool = False) -> None:
        self.replica.is_changing_isr = changing
        self.replica.proposal = SimpleNamespace() if changing and not awaits_metadata else None
        self.rule.replica_examined(SimpleNamespace(process=self.process, replica=self.replica), 0)  # type: ignore[arg-type]

    def is_answered(self, error: int, *, partition_epoch: int = 8, leader_epoch: int = 4) -> None:
        """A controller answers a proposal, whether or not that ever arrives."""
        proposal = alter_partition.PartitionDataRequest(0, leader_epoch=4, partition_epoch=partition_epoch)
        asked = AlterPartitionRequest(1, 7, [alter_partition.TopicDataRequest(TOPIC_ID, [proposal])])
        part = alter_partition.PartitionDataResponse(0, error, leader_epoch=leader_epoch)
        told = AlterPartitionResponse(topics=[alter_partition.TopicDataResponse(TOPIC_ID, [part])])
        request = ServerRequest(int(ApiKey.ALTER_PARTITION), 3, asked, "node-1", "CONTROLLER", 5, 0)
        request.answer = Answer(response=told)
        self.rule.answered(self.process, self.process.node, request)


def test_a_change_that_is_forgotten_breaks_is_04() -> None:
    leader = Leader()
    leader.proposes()
    leader.is_examined(changing=True)
    with pytest.raises(
        InvariantBroken, match=r"^IS-04: t-0: leader b1 has forgotten .* epoch 4 and partition epoch 8,"
    ):
        leader.is_examined()


def test_so_does_one_that_is_made_again_within_a_turn() -> None:
    with pytest.raises(InvariantBroken, match=r"^IS-04"):
        Leader().proposes(at_once_again=True)


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_an_error_that_may_follow_a_success_ends_nothing(error: ErrorCode) -> None:
    leader = Leader()
    leader.proposes()
    leader.is_answered(error)
    with pytest.raises(InvariantBroken, match=r"^IS-04"):
        leader.is_examined()


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_a_controller_may_end_it_by_its_answer(error: ErrorCode) -> None:
    leader = Leader()
    leader.proposes()
    leader.is_answered(error)
    leader.is_examined()
    leader.proposes()
    with pytest.raises(InvariantBroken, match=r"^IS-04"):  # one answer ends one change
        leader.is_examined()


def test_the_answer_to_another_proposal_does_not_end_it() -> None:
    leader = Leader()
    leader.proposes()
    leader.is_answered(ErrorCode.INELIGIBLE_REPLICA, partition_epoch=7)
    with pytest.raises(InvariantBroken, match=r"^IS-04"):
        leader.is_examined()


def test_a_change_may_end_with_a_newer_partition_epoch() -> None:
    leader = Leader()
    leader.proposes()
    leader.replica.partition_epoch = 9
    leader.is_examined()
    leader.proposes()
    leader.replica.leader_epoch = 5
    leader.is_examined()


def test_who_leads_no_more_has_nothing_under_way() -> None:
    leader = Leader()
    leader.proposes()
    leader.replica.is_leader = False
    leader.is_examined()


def test_neither_has_the_next_process() -> None:
    leader = Leader()
    leader.proposes()
    leader.traces("isr_proposed")
    leader.rule.died(leader.process)
    leader.is_examined()


@pytest.mark.parametrize("answers", [[], [ErrorCode.NONE]], ids=["unanswered", "accepted"])
def test_a_change_that_is_left_to_metadata_for_nothing_breaks_is_04(answers: list[int]) -> None:
    leader = Leader()
    leader.proposes()
    for error in answers:
        leader.is_answered(error)
    with pytest.raises(InvariantBroken, match=r"^IS-04: t-0: leader b1 of epoch 4 leaves it to metadata"):
        leader.is_examined(changing=True, awaits_metadata=True)


@pytest.mark.parametrize(("error", "epoch"), [(ErrorCode.NONE, 5), (ErrorCode.INVALID_UPDATE_VERSION, 0)])
def test_metadata_decide_after_an_answer_that_does_not(error: ErrorCode, epoch: int) -> None:
    leader = Leader()
    leader.proposes()
    leader.is_answered(error, leader_epoch=epoch)
    leader.is_examined(changing=True, awaits_metadata=True)


def test_another_topic_of_that_name_is_another_matter() -> None:
    """Seed 976412 of worlds: the former one was deleted in the turn in which it proposed."""
    leader = Leader()
    leader.traces("isr_proposed", topic_id=bytes(16))
    leader.proposes()


class Sender:
    """A broker that leads t-0 and has proposed an ISR; `carries` says whether its sender knows of that."""

    def __init__(self, leader: Leader, *, carries: bool) -> None:
        proposal = SimpleNamespace(isr=((1, 7), (2, 8)))
        replica = SimpleNamespace(leader_epoch=4, proposal=proposal)
        self.hosted = SimpleNamespace(topic="t", partition=0, replica=replica)
        broker = SimpleNamespace(
            replicas=SimpleNamespace(by_id=lambda topic_id, partition: self.hosted),
            isr_sender=SimpleNamespace(carries=lambda hosted: carries),
        )
        leader.process.node.broker = broker
        self.leader = leader
        leader.proposes()

    def takes_a_turn(self) -> None:
        self.leader.rule.turned(self.leader.process, self.leader.process.node)


def test_a_change_that_is_not_sent_breaks_is_04() -> None:
    with pytest.raises(InvariantBroken, match=r"^IS-04: t-0: leader b1 of epoch 4 has proposed the ISR \[1, 2\], and"):
        Sender(Leader(), carries=False).takes_a_turn()


def test_a_change_that_waits_for_another_is_legal() -> None:
    Sender(Leader(), carries=True).takes_a_turn()


def test_a_change_that_metadata_have_ended_need_not_be_sent() -> None:
    sender = Sender(Leader(), carries=False)
    sender.hosted.replica.proposal = None
    sender.takes_a_turn()
