"""RECOVER as the observer asserts it: after the last fault each part works again within its bound (FD-01, FD-02)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.harness.simulation.observer.rules.recovery import (
    LEADERS,
    PLACES,
    QUORUM_LEADER,
    WHOLE_ISR,
    RecoveredCluster,
)
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import Cluster

SECOND = 1_000_000
HEALED = 10 * SECOND


def healed(*, led: bool = True) -> Cluster:
    cluster = Cluster()
    cluster.processes["b1"].raft.is_leader = led
    cluster.observer.healed(HEALED)
    return cluster


def is_seen(cluster: Cluster, after: int) -> None:
    """B2 takes a turn so long after the faults were over."""
    process = cluster.processes["b2"]
    process.now = HEALED + after
    cluster.observer.event("high_watermark", node=2)
    cluster.observer.look(process)  # type: ignore[arg-type]


def test_a_quorum_without_a_leader_breaks_recover_after_its_bound() -> None:
    cluster = healed(led=False)
    is_seen(cluster, QUORUM_LEADER)
    with pytest.raises(InvariantBroken, match=r"^RECOVER: .* the quorum has no leader"):
        is_seen(cluster, QUORUM_LEADER + 1)


def test_a_topic_partition_without_a_leader_breaks_recover_after_its_bound() -> None:
    cluster = healed()
    cluster.change(leader=-1)
    is_seen(cluster, LEADERS)
    with pytest.raises(InvariantBroken, match=r"^RECOVER: .* a topic-partition has no leader: events-0, ISR \[1, 2, 3"):
        is_seen(cluster, LEADERS + 1)


def test_an_isr_without_a_member_breaks_recover_after_its_bound() -> None:
    cluster = healed()
    cluster.change(isr=[1, 2])
    is_seen(cluster, WHOLE_ISR)
    with pytest.raises(InvariantBroken, match=r"^RECOVER: .* an ISR is not whole: events-0, ISR \[1, 2\] of \[1, 2, 3"):
        is_seen(cluster, WHOLE_ISR + 1)


@pytest.mark.parametrize(
    ("change", "is_stuck"),
    [
        ({"removing_replicas": [3]}, True),
        ({"adding_replicas": [3]}, True),
        ({"removing_replicas": [3], "isr": [1, 3]}, False),
        ({"removing_replicas": [3], "isr": [1, 2]}, True),
        ({"isr": [1, 2]}, False),
    ],
    ids=["all in sync", "an added one is in sync", "a target is not", "the leaving one is not", "nothing is moved"],
)
def test_a_reassignment_that_has_all_it_needs_is_complete_at_the_end(change: dict[str, Any], is_stuck: bool) -> None:
    cluster = Cluster()
    cluster.change(**change)
    if is_stuck:
        with pytest.raises(InvariantBroken, match=r"^RA-05: .* not complete at the end: events-0, ISR"):
            cluster.observer.final()
    else:
        RecoveredCluster(cluster.observer.cluster).at_end()


def listed(**places: tuple[str, int]) -> Cluster:
    """The leader's log has voters b1 and b2 at these places; all listen at the same one."""
    cluster = healed()
    cluster.processes["b1"].raft.listed = {int(name[1:]): place for name, place in places.items()}
    return cluster


HERE, ELSEWHERE = ("10.0.0.1", 9093), ("10.0.0.1", 9193)


def test_a_voter_that_the_metadata_log_has_elsewhere_breaks_recover_after_its_bound() -> None:
    cluster = listed(b1=HERE, b2=ELSEWHERE)
    is_seen(cluster, PLACES)
    with pytest.raises(InvariantBroken, match=r"^RECOVER: .* b2 listens at 10.0.0.1:9093, and not at 10.0.0.1:9193"):
        is_seen(cluster, PLACES + 1)


def test_a_voter_may_be_elsewhere_before_the_bound_a_removed_one_for_ever_and_one_that_is_down() -> None:
    cluster = listed(b1=HERE, b2=ELSEWHERE)
    is_seen(cluster, PLACES)
    cluster.processes["b1"].raft.listed[2] = HERE
    is_seen(cluster, PLACES + 1)
    is_seen(listed(b1=HERE), PLACES + 1)
    gone = listed(b1=HERE, b3=ELSEWHERE)
    gone.processes["b3"].up = False
    is_seen(gone, PLACES + 1)


def test_what_was_whole_may_lose_a_member_again() -> None:
    cluster = healed()
    is_seen(cluster, SECOND)
    cluster.change(isr=[1, 2])
    is_seen(cluster, WHOLE_ISR + 1)


def test_before_the_faults_are_over_nothing_is_bounded() -> None:
    cluster = Cluster()
    cluster.change(isr=[1, 2])
    is_seen(cluster, WHOLE_ISR + 1)
