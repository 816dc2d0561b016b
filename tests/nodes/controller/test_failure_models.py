"""How many failures a topic-partition outlives (FM-01, FM-03), seen from the controller.

Primary-backup: whoever is left of the ISR leads, so f + 1 replicas tolerate f failures, if min ISR allows to write with
one and each failure is dealt with before the next (P18). Writes are tolerated down to min ISR: replication factor minus
min ISR failures. An acknowledgement waits for all of the ISR, a commit of the quorum for a majority (FM-03): here is
that an ISR of one needs nobody else, and that one member that does not answer is waited for until it is out.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.nodes.controller.conftest import with_events

NOBODY = -1


def may_write(controller: Any) -> bool:
    """Whether acks=all can be had: somebody leads and enough are in sync."""
    found = controller.partition()
    least = int(controller.image.topic_settings("events")["min.insync.replicas"])
    return found.leader != NOBODY and len(found.isr) >= least


@pytest.mark.parametrize("eligible", [True, False], ids=["with ELR", "without"])
@pytest.mark.parametrize("min_isr", [1, 2, 3])
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)], ids=str)
def test_failures_leave_a_leader_to_one_replica_and_writes_to_min_isr(
    make_controller: Any, eligible: bool, min_isr: int, order: tuple[int, ...]
) -> None:
    """FM-01: availability as the model says, at every rung of the ladder down and up."""
    controller = with_events(make_controller(eligible_leader_replicas=eligible), {"min.insync.replicas": str(min_isr)})
    alive = [1, 2, 3]
    for broker in order[:-1]:
        controller.fence(broker)
        alive.remove(broker)
        found = controller.partition()
        assert (found.leader in alive, sorted(found.isr)) == (True, sorted(alive))
        assert may_write(controller) == (len(alive) >= min_isr)
    controller.fence(order[-1])
    assert controller.partition().leader == NOBODY
    controller.heartbeat(order[-1])
    assert controller.partition().leader == order[-1], "the last to go has everything, and did not restart"
    assert may_write(controller) == (min_isr == 1)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)], ids=str)
def test_with_elr_as_many_may_come_back_first_as_min_isr_says(make_controller: Any, order: tuple[int, ...]) -> None:
    """Without ELR only the last to go may lead; with it, min ISR of them may."""
    for back in order:
        controller = with_events(make_controller(), {"min.insync.replicas": "2"})
        controller.fence(*order)
        controller.heartbeat(back)
        assert (controller.partition().leader == back) == (back in order[-2:])


def test_two_that_fail_at_once_are_dealt_with_one_after_the_other(durable: Any) -> None:
    """FD-01: the first may be followed by a leader that is dead as well; its turn comes."""
    durable.live_on(12, 3)
    found = durable.partition()
    assert (found.leader, found.isr, found.elr) == (3, (3,), (2,))


def test_a_silent_member_counts_until_the_controller_has_removed_it(durable: Any) -> None:
    """FM-03: the ISR is waited for as a whole. Out of it, it is waited for no more."""
    assert 3 in durable.partition().isr
    durable.alter_partition(1, [1, 2])
    assert durable.partition().isr == (1, 2)
    assert may_write(durable)
