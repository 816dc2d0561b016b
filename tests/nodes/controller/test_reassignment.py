"""Reassignment (RA-01 to RA-05, RA-08, rule 29)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from squall.nodes.metadata.records import PartitionChangeRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from squall.nodes.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


def reassign(controller: Any, target: list[int] | None, number: int = 0, **fields: bool) -> int:
    asked = ReassignableTopic("events", [ReassignablePartition(number, target)])
    response = controller.ask(AlterPartitionReassignmentsRequest(topics=[asked], **fields))
    return int(response.responses[0].partitions[0].error_code)


@pytest.fixture
def wide(make_controller: Any) -> Any:
    """Six brokers, `events` on 1, 2, 3."""
    made = make_controller()
    made.bring_up(1, 2, 3, 4, 5, 6)
    made.create_topic(assignment={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"})
    return made


def test_replace_all_grows_catches_up_and_shrinks_with_the_last_in_sync(wide: Any) -> None:
    before = wide.raft.end_offset
    assert reassign(wide, [4, 5, 6]) == ErrorCode.NONE
    begun = wide.partition()
    assert (begun.replicas, begun.adding, begun.removing) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert (begun.isr, begun.leader, begun.leader_epoch) == ((1, 2, 3), 1, 0)
    wide.alter_partition(1, [1, 2, 3, 4, 5])
    assert wide.partition().replicas == begun.replicas
    answer = wide.alter_partition(1, [1, 2, 3, 4, 5, 6])
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NEW_LEADER_ELECTED
    done = wide.partition()
    assert (done.replicas, done.isr, done.adding, done.removing) == ((4, 5, 6), (4, 5, 6), (), ())
    assert (done.leader, done.leader_epoch, len(done.directories)) == (4, 1, 3)
    assert all(isinstance(record, PartitionChangeRecord) for record in wide.records(before))


def test_removing_replicas_raises_the_leader_epoch_of_a_leader_that_stays(wide: Any) -> None:
    """Rule 23. Nothing is to be caught up: it is complete with its beginning."""
    assert reassign(wide, [1, 2]) == ErrorCode.NONE
    done = wide.partition()
    assert (done.replicas, done.isr, done.leader, done.leader_epoch) == ((1, 2), (1, 2), 1, 1)


def test_adding_one_replica_completes_without_another_leader_epoch(wide: Any) -> None:
    reassign(wide, [1, 2, 3, 4])
    wide.alter_partition(1, [1, 2, 3, 4])
    done = wide.partition()
    assert (done.replicas, done.adding, done.leader_epoch) == ((1, 2, 3, 4), (), 0)


def test_cancelling_restores_the_replicas_and_is_refused_where_nothing_moves(wide: Any) -> None:
    assert reassign(wide, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    reassign(wide, [4, 5, 6])
    wide.alter_partition(1, [1, 2, 3, 4])
    assert reassign(wide, None) == ErrorCode.NONE
    back = wide.partition()
    assert (back.replicas, back.isr, back.adding, back.removing) == ((1, 2, 3), (1, 2, 3), (), ())


def test_cancelling_is_refused_when_only_those_that_come_could_lead(wide: Any) -> None:
    reassign(wide, [4, 5, 6])
    wide.alter_config("min.insync.replicas", "1")
    wide.alter_partition(1, [1, 4])
    wide.live_on(10, 2, 3, 4, 5, 6)
    assert (wide.partition().leader, wide.partition().isr) == (4, (4,))
    before = wide.partition()
    assert reassign(wide, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert wide.partition() == before


def test_another_controller_goes_on_and_lists_it(wide: Any) -> None:
    reassign(wide, [1, 4])
    wide.start()
    listed = wide.ask(ListPartitionReassignmentsRequest()).topics[0]
    one = listed.partitions[0]
    assert (listed.name, one.replicas, one.adding_replicas, one.removing_replicas) == (
        "events", [1, 4, 2, 3], [4], [2, 3],
    )  # fmt: skip
    wide.alter_partition(1, [1, 2, 3, 4])
    assert wide.partition().replicas == (1, 4)
    assert wide.ask(ListPartitionReassignmentsRequest()).topics == []


@pytest.mark.parametrize("target", [[], [1, 1], [1, 9]])
def test_targets_that_cannot_be_are_refused(wide: Any, target: list[int]) -> None:
    assert reassign(wide, target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_another_replication_factor_needs_leave(wide: Any) -> None:
    wide_answer = reassign(wide, [1, 2], allow_replication_factor_change=False)
    assert wide_answer == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("seed", range(30))
def test_random_reassignments_keep_min_isr_and_end_once_all_targets_live(wide: Any, seed: int) -> None:
    """RA-04, RA-05, RA-08 over every record; the seed is in the test's name."""
    rng = Random(seed)
    for _ in range(25):
        before = wide.partition()
        step = rng.random()
        if step < 0.4:
            reassign(wide, rng.sample(range(1, 7), rng.choice([2, 3, 4])))
        elif step < 0.5:
            if before.adding and len([one for one in before.isr if one not in before.adding]) >= 2:
                reassign(wide, None)
        elif step < 0.6:
            wide.start()
        else:
            joining = rng.choice(before.replicas)
            wide.alter_partition(before.leader, list(dict.fromkeys([*before.isr, joining])))
        after = wide.partition()
        assert after.replicas and after.leader in after.isr and len(after.isr) >= 2
        assert len(after.directories) == len(after.replicas)
        assert all(one in after.replicas for one in (*after.isr, *after.adding, *after.removing))
    now = wide.partition()
    wide.alter_partition(now.leader, list(now.replicas))
    assert (wide.partition().adding, wide.partition().removing) == ((), ())
