"""Controlled shutdown (CS-01 to CS-04, rule 26)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from squall.nodes.metadata.records import BrokerRegistrationChangeRecord, FenceBrokerRecord, PartitionChangeRecord
from squall.nodes.protocol.errors import ErrorCode


def wish(controller: Any, broker: int) -> Any:
    return controller.heartbeat(broker, want_shut_down=True)


def test_the_mark_comes_first_then_leadership_and_isr_move_in_one_batch(controller: Any) -> None:
    before = controller.raft.end_offset
    response = wish(controller, 1)
    assert (response.error_code, response.should_shut_down, response.is_fenced) == (ErrorCode.NONE, False, False)
    mark, moved = controller.records(before)
    assert isinstance(mark, BrokerRegistrationChangeRecord) and mark.in_controlled_shutdown == 1
    assert isinstance(moved, PartitionChangeRecord)
    assert (controller.partition().leader, controller.partition().isr) == (2, (2, 3))
    assert [len(batch.values) for batch in controller.raft.committed(before) if len(batch.values) > 1] == [2]


def test_permission_waits_for_every_active_broker_to_know_and_then_fences(controller: Any) -> None:
    """CS-04: a broker whose fetch is starved withholds the permission."""
    wish(controller, 1)
    behind = controller.image.last_offset - 1
    assert not wish(controller, 1).should_shut_down
    controller.heartbeat(2)
    controller.heartbeat(3, offset=behind)
    assert not wish(controller, 1).should_shut_down
    assert not controller.image.brokers[1].fenced
    controller.heartbeat(3)
    before = controller.raft.end_offset
    response = wish(controller, 1)
    assert (response.should_shut_down, response.is_fenced) == (True, True)
    assert [type(record) for record in controller.records(before)] == [FenceBrokerRecord]


def test_who_leads_nothing_may_stop_at_once_and_leaves_its_isrs(controller: Any) -> None:
    assert wish(controller, 3).should_shut_down
    assert controller.partition().isr == (1, 2)
    assert controller.register(3, incarnation=2).error_code == ErrorCode.NONE


@pytest.mark.parametrize("stopped", [1, 3])
def test_a_late_heartbeat_does_not_bring_back_a_broker_that_may_stop(controller: Any, stopped: int) -> None:
    """Seed 976324 of worlds: it was unfenced, and led. Broker 1 led something and is marked first, broker 3 nothing."""
    while not wish(controller, stopped).should_shut_down:
        for other in {1, 2, 3} - {stopped}:
            controller.heartbeat(other)
    response = controller.heartbeat(stopped)
    assert (response.error_code, response.is_fenced) == (ErrorCode.NONE, True)
    broker = controller.image.brokers[stopped]
    assert broker.fenced and broker.in_controlled_shutdown
    assert stopped not in controller.partition().isr


def test_a_stopping_broker_is_let_into_no_isr(controller: Any) -> None:
    """KIP-841, rule 26: no way back in while it is still alive and fetching."""
    wish(controller, 1)
    answer = controller.alter_partition(2, [1, 2, 3])
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_new_controller_goes_on_with_the_shutdown_and_asks_all_brokers_anew(controller: Any) -> None:
    wish(controller, 1)
    for broker in (2, 3):
        controller.heartbeat(broker)
    controller.start()
    assert controller.image.brokers[1].in_controlled_shutdown
    assert not wish(controller, 1).should_shut_down
    controller.heartbeat(2)
    assert not wish(controller, 1).should_shut_down
    controller.heartbeat(3)
    assert wish(controller, 1).should_shut_down


def test_a_fenced_broker_does_not_hold_the_permission_back(controller: Any) -> None:
    controller.live_on(10, 1, 2)
    assert controller.image.brokers[3].fenced
    wish(controller, 1)
    wish(controller, 1)
    controller.heartbeat(2)
    assert wish(controller, 1).should_shut_down


def test_a_stopping_broker_that_falls_silent_is_fenced(controller: Any) -> None:
    wish(controller, 1)
    controller.live_on(10, 2, 3)
    assert controller.image.brokers[1].fenced


def test_the_next_incarnation_is_not_marked(controller: Any) -> None:
    wish(controller, 1)
    wish(controller, 1)
    controller.heartbeat(2)
    controller.heartbeat(3)
    assert wish(controller, 1).should_shut_down
    controller.return_of(1, clean=True)
    assert controller.image.brokers[1].active


def test_many_topic_partitions_move_in_few_batches(make_controller: Any) -> None:
    """CS-03: appends are far fewer than topic-partitions."""
    controller = make_controller(records_max=40)
    controller.bring_up(1, 2, 3)
    for name in range(5):
        controller.create_topic(f"t{name}", assignment={number: [1, 2, 3] for number in range(20)})
    before = controller.raft.end_offset
    wish(controller, 1)
    sizes = [len(batch.values) for batch in controller.raft.committed(before) if not batch.is_control]
    assert sum(sizes) == 101 and max(sizes) <= 40 and len(sizes) == 3
    assert all(one.leader == 2 for _, _, one in controller.image.all_partitions())


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_no_broker_stops_as_leader_or_before_all_know(make_controller: Any, seed: int) -> None:
    """CS-02, CS-04 over random schedules of heartbeats, fencing and failovers; the seed is in the test's name."""
    rng = Random(seed)
    controller = make_controller()
    controller.bring_up(1, 2, 3, 4)
    for name in range(3):
        assignment = {number: rng.sample([1, 2, 3, 4], 3) for number in range(4)}
        controller.create_topic(f"t{name}", assignment=assignment)
    heard: dict[int, int] = {}
    leaving_at: int | None = None
    for _ in range(40):
        stopping = controller.image.brokers[1]
        if rng.random() < 0.1:
            controller.start()
            heard.clear()
        broker = rng.choice([1, 2, 3, 4])
        if broker != 1:
            offset = max(controller.image.brokers[broker].epoch, controller.image.last_offset - rng.randrange(12))
            controller.heartbeat(broker, offset=offset)
            heard[broker] = offset
            continue
        granted = wish(controller, 1).should_shut_down
        now = controller.image.brokers[1]
        if leaving_at is None:
            leaving_at = controller.image.last_offset
        assert all(one.leader != 1 for _, _, one in controller.image.all_partitions())
        assert all(1 not in one.isr or one.isr == (1,) for _, _, one in controller.image.all_partitions())
        if granted and stopping.in_controlled_shutdown:
            active = [one.id for one in controller.image.brokers.values() if one.active]
            assert all(heard.get(one, -1) >= leaving_at for one in active)
        if granted:
            assert now.fenced
            break
