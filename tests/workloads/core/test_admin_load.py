"""Shares of seldom operations, and side topics that come and go beside the load."""

from __future__ import annotations

import msgspec
import pytest
from pydantic import ValidationError

from squall.workloads.core.admin_load import SIDE_PARTITIONS, EveryNth, TopicChurn, period_of, with_share
from squall.workloads.core.generator import WAIT, Context, Generator, Reads
from squall.workloads.core.operation import (
    CREATE_PARTITIONS,
    CREATE_TOPIC,
    DELETE_RECORDS,
    DELETE_TOPIC,
    LIST_OFFSETS,
    POLL,
    REOPEN,
    SEEK,
    SEND,
    Operation,
)
from squall.workloads.log import LogOptions, LogWorkload

ONE_FREE = Context(now=0, free=0b1, threads=0b1, processes={0: 0}, clients={0: 7})
NONE_FREE = Context(now=0, free=0, threads=0b1, processes={0: 0}, clients={0: 7})
POLLS = Reads("events", 0)
QUESTIONS = Reads("events", 0, LIST_OFFSETS)


def first_operations(generator: Generator, count: int) -> list[Operation]:
    made = []
    for _ in range(count):
        answer, generator = generator.op(ONE_FREE)
        assert isinstance(answer, Operation)
        made.append(answer)
    return made


def test_every_nth_operation_is_of_the_seldom_kind() -> None:
    made = first_operations(EveryNth(3, QUESTIONS, POLLS), 7)
    assert [one.f for one in made] == [POLL, POLL, LIST_OFFSETS, POLL, POLL, LIST_OFFSETS, POLL]


def test_an_answer_that_is_no_operation_does_not_count() -> None:
    generator: Generator = EveryNth(2, QUESTIONS, POLLS)
    for _ in range(5):
        answer, generator = generator.op(NONE_FREE)
        assert answer == WAIT
    assert [one.f for one in first_operations(generator, 2)] == [POLL, LIST_OFFSETS]


@pytest.mark.parametrize(("share", "period"), [(0.0, 0), (0.5, 2), (0.34, 3), (0.1, 10), (0.01, 100)])
def test_a_share_says_every_how_many_operations(share: float, period: int) -> None:
    assert period_of(share) == period


def test_without_a_share_nothing_is_changed() -> None:
    assert with_share(0.0, QUESTIONS, POLLS) is POLLS


def test_side_topics_are_made_enlarged_and_deleted_one_after_the_other() -> None:
    made = first_operations(TopicChurn(), 4)
    assert [(one.f, one.topic) for one in made] == [
        (CREATE_TOPIC, "side-0"),
        (CREATE_PARTITIONS, "side-0"),
        (DELETE_TOPIC, "side-0"),
        (CREATE_TOPIC, "side-1"),
    ]
    assert {one.partition for one in made} == {None}, "side topics are no topic-partitions to be judged"
    assert SIDE_PARTITIONS == 2


# -- in the workload ------------------------------------------------------------------------------------------------


def workload(**options: object) -> LogWorkload:
    return LogWorkload(LogOptions.model_validate({"producers": 1, "consumers": 1, "in_flight": 1, **options}), {"a": 1})


def test_by_default_there_are_only_sends_and_polls() -> None:
    plain = workload()
    assert [plan.role for plan in plain.shard(0, 1).clients] == ["producer", "consumer"]
    assert plain.total_threads == 4


def test_the_admin_client_has_one_thread_of_its_own_after_all_others() -> None:
    """All other threads keep their numbers, so that schedules keep their meaning."""
    churning = workload(admin="6/min")
    plans = churning.shard(0, 2).clients
    assert [(plan.role, plan.client, plan.threads) for plan in plans if plan.role == "admin"] == [("admin", 4, (4,))]
    assert not [plan for plan in churning.shard(1, 2).clients if plan.role == "admin"]
    assert churning.total_threads == workload().total_threads + 1
    assert churning.final_shard().clients == workload().final_shard().clients


def test_consumers_ask_for_log_ends_and_delete_by_share() -> None:
    generator = workload(list_offsets=0.5, delete_records=0.25).shard(0, 1).generator
    context = Context(now=0, free=0b10, threads=0b11, processes={0: 0, 1: 1}, clients={0: 0, 1: 1})
    made = []
    for _ in range(8):
        answer, generator = generator.op(context)
        assert isinstance(answer, Operation)
        made.append(answer.f)
    assert made == [POLL, LIST_OFFSETS, POLL, DELETE_RECORDS, LIST_OFFSETS, POLL, LIST_OFFSETS, DELETE_RECORDS]


def test_clients_of_both_kinds_crash_and_consumers_go_back_by_share() -> None:
    """Crash and reopen clients, seek."""
    generator = workload(seek=0.25, reopen=0.2).shard(0, 1).generator
    made: dict[int, list[str]] = {0: [], 1: []}
    for thread, names in made.items():
        context = Context(now=0, free=1 << thread, threads=0b11, processes={0: 0, 1: 1}, clients={0: 0, 1: 1})
        for now in range(10):
            answer, generator = generator.op(msgspec.structs.replace(context, now=now * 10**9))
            assert isinstance(answer, Operation)
            names.append(answer.f)
    assert made[1] == [POLL, POLL, POLL, SEEK, REOPEN, POLL, POLL, POLL, SEEK, REOPEN]
    assert made[0] == [SEND, SEND, SEND, SEND, REOPEN] * 2


def test_consumers_stand_in_racks_in_turn_and_the_final_reader_in_none() -> None:
    """KIP-392; what the final reads show is the leader's."""
    racked = workload(consumers=3, consumer_racks=("r1", "r2"))
    assert [one.rack for one in racked.shard(0, 1).clients if one.role == "consumer"] == ["r1", "r2", "r1"]
    assert [one.rack for one in racked.final_shard().clients] == [None, None]


def test_a_share_of_more_than_half_is_refused() -> None:
    with pytest.raises(ValidationError):
        LogOptions(list_offsets=0.6)
