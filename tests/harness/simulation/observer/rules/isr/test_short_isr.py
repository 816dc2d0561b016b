"""DP-06 as the observer asserts it of appends: below min ISR a leader refuses acks=all before it appends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.isr.short_isr import ShortIsr
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest

AFTER_APPEND = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class Leader:
    """Leads t-0 with min ISR 2, and has been examined at time 0 with this ISR."""

    def __init__(self, *isr: int) -> None:
        self.rule = ShortIsr(None)  # type: ignore[arg-type]
        self.replica = SimpleNamespace(
            topic="t", topic_id=b"id", partition=0, leader_epoch=4, partition_epoch=8, is_leader=True, min_isr=2
        )
        hosted = SimpleNamespace(replica=self.replica)
        replicas = SimpleNamespace(by_name=lambda *_: hosted)
        self.process: Any = SimpleNamespace(name="b1", now=0)
        self.node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=replicas))
        self.has(0, *isr)

    def has(self, now: int, *isr: int) -> None:
        self.process.now, self.replica.isr = now, isr
        self.rule.replica_examined(SimpleNamespace(process=self.process, replica=self.replica), 0)  # type: ignore[arg-type]

    def answers(self, error: int, *, received_at: int = 50) -> None:
        part = TopicProduceResponse("t", [PartitionProduceResponse(0, error)])
        request = ServerRequest(int(ApiKey.PRODUCE), 9, ProduceRequest(), "client", "PLAINTEXT", 5, received_at)
        request.answer = Answer(response=ProduceResponse(responses=[part]))
        self.rule.answered(self.process, self.node, request)


@pytest.mark.parametrize("error", AFTER_APPEND)
def test_an_append_below_min_isr_breaks_dp_06(error: ErrorCode) -> None:
    with pytest.raises(
        InvariantBroken, match=rf"^DP-06: b1 answers .* by {error.name}; .* ISR is \(1,\), and min ISR 2"
    ):
        Leader(1).answers(error)


def test_what_only_acks_all_has_after_an_append_is_judged() -> None:
    leader = Leader(1)
    leader.answers(ErrorCode.NOT_ENOUGH_REPLICAS)
    leader.answers(ErrorCode.NONE)  # as acks=1 has


@pytest.mark.parametrize("error", AFTER_APPEND)
def test_an_isr_that_shrank_after_the_append_leaves_the_outcome_open(error: ErrorCode) -> None:
    leader = Leader(1, 2)
    leader.has(100, 1)
    leader.answers(error, received_at=100)
    with pytest.raises(InvariantBroken, match=r"^DP-06"):
        leader.answers(error, received_at=101)


def test_an_isr_that_has_grown_since_may_shrink_again() -> None:
    leader = Leader(1)
    leader.has(100, 1, 2)
    leader.has(200, 1)
    leader.answers(ErrorCode.REQUEST_TIMED_OUT, received_at=150)


def test_min_isr_may_have_changed_unseen_with_the_partition_epoch() -> None:
    leader = Leader(1)
    leader.replica.partition_epoch = 10
    leader.answers(ErrorCode.REQUEST_TIMED_OUT)


def test_the_next_process_has_seen_nothing_yet() -> None:
    leader = Leader(1)
    leader.rule.died(leader.process)
    leader.answers(ErrorCode.REQUEST_TIMED_OUT)
