"""DP-16 as the observer asserts it: what has been deleted is never delivered again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.harness.simulation.observer.rules.clients.deleted_records import DeletedRecords
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.records import FenceBrokerRecord, UnfenceBrokerRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.workloads.core.operation import DELETE_RECORDS, OK, POLL, Completion, Event, Operation
from tests.harness.simulation.observer.observed import TOPIC, Cluster

NOW = 1_000_000


def with_three() -> Cluster:
    cluster = Cluster()
    for value in (10, 11, 12):
        cluster.append(0, value, "b1", "b2", "b3")
    cluster.commit("b1", "b2", "b3")
    return cluster


def deletes(
    cluster: Cluster,
    low_watermark: int,
    *,
    at: int = 100,
    leader_epoch: int = 0,
    on: tuple[str, ...] = ("b1", "b2", "b3"),
) -> None:
    """B1 answers that everything below this is deleted, as it is on these brokers."""
    for name in on:
        cluster.replica(name).log.start_offset = low_watermark
    cluster.processes["b1"].now = NOW
    operation = Operation(DELETE_RECORDS, 9, 9, 4, 0, TOPIC, 0)
    completion = Completion(OK, log_start=low_watermark, leader_epoch=leader_epoch, node=1)
    cluster.observer.client_event(Event(operation, at - 50, completion, at))


def polls(cluster: Cluster, *offsets: int, since: int = 101, node: int = 2) -> None:
    operation = Operation(POLL, 9, 9, 4, 0, TOPIC, 0)
    values = tuple(10 + offset for offset in offsets)
    completion = Completion(OK, offsets=offsets, values=values, position=offsets[0], node=node)
    cluster.observer.client_event(Event(operation, since, completion, since + 5))


def test_records_below_an_acknowledged_low_watermark_break_dp_16() -> None:
    cluster = with_three()
    deletes(cluster, 2)
    with pytest.raises(InvariantBroken, match=r"^DP-16: events-0: client 4 was given offset 1 by b2, .* below 2 had"):
        polls(cluster, 1, 2)


def test_a_response_before_every_replica_has_deleted_breaks_dp_16() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^DP-16: events-0: b1 says that .* below 2 is deleted, .* b3 begins at 0"
    ):
        deletes(with_three(), 2, on=("b1", "b2"))


def answers(cluster: Cluster, low_watermark: int, *, received_at: int = 50, error: int = 0, looks: bool = True) -> None:
    """B1 gives this answer, which need not arrive anywhere."""
    told = DeleteRecordsPartitionResult(0, low_watermark, error)
    request = ServerRequest(
        int(ApiKey.DELETE_RECORDS), 2, DeleteRecordsRequest(), "client", "PLAINTEXT", 5, received_at
    )
    request.answer = Answer(response=DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(TOPIC, [told])]))
    process = cluster.processes["b1"]
    if looks:
        cluster.show("b1")
    for rule in cluster.observer._rules.all:
        if isinstance(rule, DeletedRecords):
            rule.answered(process, process.node, request)  # type: ignore[arg-type]


def test_the_answer_is_judged_when_it_is_given() -> None:
    """It may be on its way for long, and the followers delete meanwhile."""
    cluster = with_three()
    cluster.delete_before(2)
    cluster.raise_start("b2", 2)
    answers(cluster, 0)
    answers(cluster, -1, error=int(ErrorCode.REQUEST_TIMED_OUT))
    answers(cluster, 2, received_at=0)  # all brokers became active after that
    with pytest.raises(
        InvariantBroken, match=r"^DP-16: events-0: b1 says that .* below 2 is deleted, .* b3 begins at 0"
    ):
        answers(cluster, 2)


def test_the_leader_does_not_know_of_an_incarnation_that_lost_its_disk() -> None:
    """Seed 986497 of worlds: nothing of the metadata reached the leader since the wiped broker has come back."""
    cluster = with_three()
    cluster.delete_before(2)
    cluster.raise_start("b2", 2)
    cluster.show("b1")
    cluster.processes["b3"].incarnation = 2
    answers(cluster, 2)


def test_an_answer_need_not_wait_for_a_broker_that_is_fenced_in_the_same_turn() -> None:
    """Seed 983036 of worlds: the leader applied that b3 was fenced, and answered at once."""
    cluster = with_three()
    cluster.delete_before(2)
    cluster.raise_start("b2", 2)
    cluster.show("b1")
    image = cluster.processes["b1"].image
    image.brokers[3] = replace(image.brokers[3], fenced=True)
    answers(cluster, 2, looks=False)


def test_a_broker_that_was_unfenced_after_the_request_may_not_have_counted() -> None:
    """Seed 943603 of worlds: the leader answered while it was fenced. So did seed 1022028, where it led later."""
    cluster = with_three()
    cluster.decide(FenceBrokerRecord(id=3, epoch=2))
    cluster.processes["b1"].now = NOW
    cluster.decide(UnfenceBrokerRecord(id=3, epoch=2))
    deletes(cluster, 2, on=("b1", "b2"))
    polls(cluster, 1, 2, node=3)
    with pytest.raises(InvariantBroken, match=r"^DP-16: "):
        polls(cluster, 1, 2, node=2)


def test_a_broker_that_is_down_deletes_later() -> None:
    cluster = with_three()
    cluster.processes["b3"].up = False
    deletes(cluster, 2, on=("b1", "b2"))


def test_a_replica_that_is_being_added_may_be_unknown_to_the_leader() -> None:
    cluster = with_three()
    cluster.change(isr=[1, 2], adding_replicas=[3])
    deletes(cluster, 2, on=("b1", "b2"))


def test_records_from_the_low_watermark_on_may_be_delivered() -> None:
    cluster = with_three()
    deletes(cluster, 2)
    polls(cluster, 2)


def test_a_poll_that_began_before_the_deletion_was_acknowledged_may_have_them() -> None:
    cluster = with_three()
    deletes(cluster, 2)
    polls(cluster, 1, 2, since=99)


def test_a_broker_that_was_fenced_then_did_not_count() -> None:
    cluster = with_three()
    cluster.decide(FenceBrokerRecord(id=2, epoch=1))
    deletes(cluster, 2, on=("b1", "b3"))
    polls(cluster, 1, 2, node=2)
    with pytest.raises(InvariantBroken, match=r"^DP-16"):
        polls(cluster, 1, 2, node=3)


def test_a_declared_loss_begins_another_log() -> None:
    cluster = with_three()
    deletes(cluster, 2)
    watched = next(iter(cluster.observer.cluster.watched.values()))
    cluster.observer.cluster.client_checker.lost(watched.promised, 3)
    polls(cluster, 1, 2)


@pytest.mark.parametrize(("leader_epoch", "legal"), [(0, True), (1, False)])
def test_a_deposed_leader_deletes_what_a_declared_loss_has_replaced(leader_epoch: int, legal: bool) -> None:
    """B3 leads since an unclean election, with offset 0 only; the deletion was acknowledged afterwards."""
    cluster = Cluster(unclean_leader_election_enable="true")
    for value in (10, 11, 12):
        cluster.append(0, value, "b1", "b2", "b3")
    cluster.commit("b1", "b2", "b3")
    cluster.change(isr=[1, 2])
    cluster.truncate("b3", 1)
    cluster.change(isr=[3], leader=3, leader_recovery_state=1)
    replica = cluster.replica("b3")
    replica.is_leader, replica.leader_epoch, replica.maximal_isr = True, 1, (3,)
    cluster.show("b3")
    for value in (13, 14):
        cluster.append(1, value, "b3")
    cluster.commit("b3")
    deletes(cluster, 3, leader_epoch=leader_epoch)
    operation = Operation(POLL, 9, 9, 4, 0, TOPIC, 0)
    read = Completion(OK, offsets=(1, 2), values=(13, 14), position=1, node=3, leader_epoch=1)
    told = Event(operation, 101, read, 105)
    if legal:
        cluster.observer.client_event(told)
    else:
        with pytest.raises(InvariantBroken, match=r"^DP-16"):
            cluster.observer.client_event(told)
