"""Preferred replicas lead again by themselves (RA-07; `auto.leader.rebalance.enable`)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

INTERVAL_S = 60


@pytest.fixture
def ten(make_controller: Any) -> Any:
    """Three brokers, and ten topic-partitions of which broker 1 is the preferred replica."""
    made = make_controller(imbalance_check_interval=INTERVAL_S * 1_000_000)
    made.bring_up(1, 2, 3)
    made.create_topic(assignment={number: [1, 2, 3] for number in range(10)})
    return made


def restart(controller: Any, broker: int) -> None:
    """It loses its leaderships, and comes back into every ISR."""
    controller.fence(broker)
    controller.return_of(broker, clean=True)
    for topic, number, one in list(controller.image.all_partitions()):
        controller.alter_partition(one.leader, [1, 2, 3], topic=topic.name, number=number)


def leaders(controller: Any) -> list[int]:
    return [one.leader for _, _, one in controller.image.all_partitions()]


def test_at_the_next_look_the_preferred_replicas_lead_again(ten: Any) -> None:
    restart(ten, 1)
    assert leaders(ten) == [2] * 10
    before = ten.raft.end_offset
    ten.live_on(INTERVAL_S, 1, 2, 3)
    assert leaders(ten) == [1] * 10
    assert len(ten.records(before)) == 10, "and nothing else was written"


@pytest.mark.parametrize(("elsewhere", "after"), [(1, 1), (2, 0)])
def test_a_little_imbalance_is_left_alone(ten: Any, elsewhere: int, after: int) -> None:
    """`leader.imbalance.per.broker.percentage`: one of ten is not more than 10 %, two are."""
    restart(ten, 1)
    ten.ask(ElectLeadersRequest(0, [TopicPartitions("events", list(range(elsewhere, 10)))]))
    assert leaders(ten) == [2] * elsewhere + [1] * (10 - elsewhere)
    ten.live_on(INTERVAL_S, 1, 2, 3)
    assert leaders(ten) == [2] * after + [1] * (10 - after)


def test_who_is_not_in_sync_is_not_elected(ten: Any) -> None:
    ten.fence(1)
    ten.return_of(1, clean=True)
    ten.live_on(2 * INTERVAL_S, 1, 2, 3)
    assert leaders(ten) == [2] * 10


def test_a_broker_that_is_stopping_is_not_elected(ten: Any) -> None:
    restart(ten, 1)
    ten.heartbeat(1, want_shut_down=True)
    ten.live_on(INTERVAL_S, 2, 3)
    assert leaders(ten) == [2] * 10


def test_it_can_be_switched_off(make_controller: Any) -> None:
    made = make_controller(imbalance_check_interval=INTERVAL_S * 1_000_000, balances_leaders=False)
    made.bring_up(1, 2, 3)
    made.create_topic(assignment={0: [1, 2, 3]})
    restart(made, 1)
    made.live_on(2 * INTERVAL_S, 1, 2, 3)
    assert leaders(made) == [2]


def test_a_new_controller_looks_after_an_interval_of_its_own(ten: Any) -> None:
    restart(ten, 1)
    ten.start()
    ten.live_on(INTERVAL_S - 4, 1, 2, 3)
    assert leaders(ten) == [2] * 10
    ten.live_on(6, 1, 2, 3)
    assert leaders(ten) == [1] * 10


def test_a_large_round_is_walked_and_written_in_parts(make_controller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squall.nodes.controller.balancing.LOOKED_AT_IN_A_TURN", 7)
    monkeypatch.setattr("squall.nodes.controller.balancing.ELECTED_IN_A_TURN", 5)
    made = make_controller(imbalance_check_interval=INTERVAL_S * 1_000_000)
    made.bring_up(1, 2, 3)
    for name in range(4):
        made.create_topic(f"t{name}", assignment={number: [1, 2, 3] for number in range(9)})
    restart(made, 1)
    before = made.raft.end_offset
    made.live_on(INTERVAL_S, 1, 2, 3)
    assert leaders(made) == [1] * 36
    sizes = [len(batch.values) for batch in made.raft.committed(before) if not batch.is_control]
    assert max(sizes) <= 5 and len([size for size in sizes if size > 1]) >= 36 // 5
