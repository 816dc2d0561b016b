"""CALM as the observer asserts it: a whole cluster without faults stays as it is (FD-05, IS-03, RA-07)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.records import FenceBrokerRecord, RemoveTopicRecord
from tests.harness.simulation.observer.observed import TOPIC_ID, Cluster

SECOND = 1_000_000


def whole(*, fetched_by: Sequence[int] = (2, 3), ends: Mapping[int, int] | None = None, **change: object) -> Cluster:
    """All is whole after this change. These brokers have fetched from b1, which knows these ends of their logs."""
    cluster = Cluster()
    cluster.replica("b1").fetched_by = {one: one for one in fetched_by}
    cluster.replica("b1").known_ends = dict(ends or {})
    if change:
        cluster.change(**change)  # type: ignore[arg-type]
    cluster.observer.became_whole(10 * SECOND)
    return cluster


def test_a_member_that_leaves_the_isr_without_a_fault_is_a_breach() -> None:
    cluster = whole()
    with pytest.raises(InvariantBroken, match=r"^CALM: after all was whole .*: \[3\] leave the ISR of events-0"):
        cluster.change(isr=[1, 2])


def test_before_all_is_whole_members_may_leave() -> None:
    cluster = Cluster()
    cluster.change(isr=[1, 2])
    cluster.change(isr=[1, 2, 3])
    cluster.observer.became_whole(10 * SECOND)


def test_a_replica_that_a_reassignment_takes_away_may_leave() -> None:
    cluster = whole()
    cluster.change(replicas=[1, 2], isr=[1, 2])


def test_a_member_may_leave_the_isr_of_a_leader_from_which_it_replicated_nothing() -> None:
    """The leader may have lost power while the two were cut off. The follower still waits for its answer."""
    cluster = whole(fetched_by=[2])
    cluster.change(isr=[1, 2])
    with pytest.raises(InvariantBroken, match=r"^CALM: .*: \[2\] leave the ISR of events-0"):
        cluster.change(isr=[1])


def test_a_member_that_lacked_records_may_leave_until_it_has_them() -> None:
    """IS-03: it may have had everything long ago only, and in seed 1004592 of worlds each fetch brings one batch."""
    cluster = whole(ends={2: 0, 3: -1})
    cluster.change(isr=[1, 2])
    with pytest.raises(InvariantBroken, match=r"^CALM: .*: \[2\] leave the ISR of events-0"):
        cluster.change(isr=[1])


def test_a_broker_that_is_fenced_without_a_fault_is_a_breach() -> None:
    cluster = whole()
    cluster.processes["b1"].now = 12 * SECOND
    with pytest.raises(InvariantBroken, match=r"^CALM: 2\.000 s after all was whole .*: brokers \[3\] are fenced"):
        cluster.decide(FenceBrokerRecord(id=3, epoch=2))


def test_a_leader_that_goes_without_a_fault_is_a_breach() -> None:
    cluster = whole()
    with pytest.raises(InvariantBroken, match=r"^CALM: .*: 2 leads events-0 instead of 1"):
        cluster.change(leader=2)


def test_a_leader_that_a_reassignment_takes_away_may_go_and_be_added_again() -> None:
    """`worlds` seed 1025421: both changes were committed before anybody looked, so that the leader had stayed."""
    cluster = whole()
    cluster.change(removing_replicas=[1])
    cluster.change(leader=2, removing_replicas=[2, 3], adding_replicas=[1])


def test_leadership_may_go_back_to_the_preferred_replica() -> None:
    cluster = whole(leader=2)
    cluster.change(leader=1)


def test_a_topic_may_be_deleted() -> None:
    cluster = whole()
    cluster.decide(RemoveTopicRecord(topic_id=TOPIC_ID))


def test_an_election_of_the_quorum_without_a_fault_is_a_breach() -> None:
    cluster = whole()
    process = cluster.processes["b2"]
    process.now, process.raft.epoch, process.raft.is_leader = 13 * SECOND, 2, True
    cluster.observer.event("high_watermark", node=2)
    with pytest.raises(InvariantBroken, match=r"^CALM: 3\.000 s after .*: b2 begins to lead the quorum in epoch 2"):
        cluster.observer.look(process)  # type: ignore[arg-type]
