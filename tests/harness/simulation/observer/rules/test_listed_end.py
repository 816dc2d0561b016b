"""DP-15 as the observer asserts it: by hand-made breaches and by what is legal."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.workloads.core.operation import LIST_OFFSETS, OK, Completion, Event, Operation
from tests.harness.simulation.observer.observed import TOPIC, Cluster


def lists(cluster: Cluster, end: int, *, epoch: int = 0) -> None:
    operation = Operation(LIST_OFFSETS, 9, 9, 4, 0, TOPIC, 0)
    cluster.observer.client_event(Event(operation, 0, Completion(OK, high_watermark=end, leader_epoch=epoch), 1))


def with_one_committed_of_two() -> Cluster:
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2", "b3")
    cluster.commit("b1")
    cluster.append(0, 11, "b1")
    return cluster


def test_dp_15_breaks_when_the_end_listed_is_above_what_is_committed() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-15: events-0: .* given 2 as the end offset .* committed end is 1"):
        lists(with_one_committed_of_two(), 2)


def test_an_end_listed_at_or_below_what_is_committed_is_legal() -> None:
    for end in (0, 1):
        lists(with_one_committed_of_two(), end)


def test_an_end_listed_by_a_deposed_leader_before_a_declared_loss_is_legal() -> None:
    cluster = with_one_committed_of_two()
    log = cluster.observer.cluster.watch(TOPIC, bytes(range(16)), 0).log
    log.declare_loss(("b2", 1), 1, [], 0)
    lists(cluster, 1, epoch=0)
    with pytest.raises(InvariantBroken, match=r"^DP-15"):
        lists(cluster, 1, epoch=1)
