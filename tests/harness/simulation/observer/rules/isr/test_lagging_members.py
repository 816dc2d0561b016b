"""IS-03 and IS-06 as the observer asserts them: who is proposed for the ISR; the limit here is a second."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import TOPIC, Cluster

SECOND = 1_000_000


def at(cluster: Cluster, seconds: float) -> None:
    for process in cluster.processes.values():
        process.now = round(seconds * SECOND)


def lagging() -> Cluster:
    """B1 leads from second 0 on; at second 1 it appends a record that b3 does not fetch."""
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2", "b3")
    at(cluster, 1.0)
    cluster.append(0, 11, "b1", "b2")
    return cluster


def test_a_member_may_lack_records_for_one_and_a_half_times_as_long() -> None:
    cluster = lagging()
    at(cluster, 2.5)
    cluster.show("b1")


def test_a_member_that_lacks_records_for_longer_breaks_is_03() -> None:
    cluster = lagging()
    at(cluster, 2.6)
    with pytest.raises(InvariantBroken, match=r"^IS-03: events-0: b3 has lacked offset 1 for 1\.600 s, and leader b1"):
        cluster.show("b1")


def test_a_follower_that_is_always_a_record_behind_keeps_up() -> None:
    cluster = lagging()
    for value in range(12, 40):
        at(cluster, value / 10)
        cluster.append(0, value, "b1", "b2")
        cluster.append(0, value - 1, "b3")


def test_one_that_falls_further_and_further_behind_does_not() -> None:
    cluster = lagging()
    at(cluster, 1.2)
    cluster.append(0, 12, "b1", "b2")
    cluster.append(0, 11, "b3")
    at(cluster, 2.7)
    cluster.show("b1")
    at(cluster, 2.8)
    with pytest.raises(InvariantBroken, match=r"^IS-03: .* b3 has lacked offset 2 for 1\.600 s"):
        cluster.show("b1")


def test_a_proposal_for_another_topic_of_that_name_is_another_matter() -> None:
    """Seed 999074 of worlds: the former one was deleted in the turn in which it proposed that b3 joins."""
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2")
    cluster.change(isr=[1, 2])
    former = {"broker": 1, "topic": TOPIC, "partition": 0, "leader_epoch": 0, "partition_epoch": 0}
    cluster.observer.event("isr_proposed", isr=(1, 2, 3), topic_id=bytes(16), **former)
    cluster.show("b1")


def test_a_change_that_is_under_way_waits_for_the_controller() -> None:
    cluster = lagging()
    cluster.replica("b1").is_changing_isr = True
    for second in (2, 5, 9):
        at(cluster, second)
        cluster.show("b1")
    cluster.replica("b1").is_changing_isr = False
    at(cluster, 10.0)
    cluster.show("b1")
    at(cluster, 11.6)
    with pytest.raises(InvariantBroken, match=r"^IS-03"):
        cluster.show("b1")


def test_a_member_that_has_left_may_lack_anything() -> None:
    cluster = lagging()
    cluster.change(isr=[1, 2])
    at(cluster, 9.0)
    cluster.show("b1")


def test_a_new_leader_gives_every_member_its_time() -> None:
    cluster = lagging()
    at(cluster, 2.4)
    cluster.change(leader=2)
    leader = cluster.replica("b2")
    cluster.replica("b1").is_leader, leader.is_leader, leader.leader_epoch = False, True, 1
    cluster.show("b2")
    at(cluster, 3.8)
    cluster.show("b2")
    at(cluster, 4.0)
    with pytest.raises(InvariantBroken, match=r"^IS-03: .* leader b2 of epoch 1"):
        cluster.show("b2")


def test_what_a_member_once_had_is_known_to_the_leader() -> None:
    """It restarted without its last record, and the leader does not know that before its next fetch."""
    cluster = lagging()
    cluster.append(0, 11, "b3")
    cluster.observer.power_lost("b3")
    cluster.processes["b3"].incarnation += 1
    cluster.replica("b3").log.cut(1)
    cluster.show("b3")
    at(cluster, 9.0)
    cluster.show("b1")


def test_a_proposal_that_ended_within_its_turn_was_made() -> None:
    """Seed 914911 of worlds: the leader had no connection to a controller, and took the proposal back at once."""
    cluster = lagging()
    at(cluster, 9.0)
    cluster.show("b1", "isr_proposed", isr=(1, 2))
    at(cluster, 10.5)
    cluster.show("b1")
    at(cluster, 10.6)
    with pytest.raises(InvariantBroken, match=r"^IS-03"):
        cluster.show("b1")


# -- the high watermark ------------------------------------------------------------------------------------------------


def held_back(by: int, *, min_isr: int = 2) -> Cluster:
    """At second 1 the leader b1 and b2 have two records, of which b1 takes one for committed; b3 is no member.

    `by` is what b3 has fetched; it has never had more.
    """
    cluster = Cluster()
    cluster.change(isr=[1, 2])
    for value in (10, 11):
        at(cluster, value - 10)
        cluster.append(0, value, "b1", "b2", *(("b3",) if value < 10 + by else ()))
    leader = cluster.replica("b1")
    leader.high_watermark, leader.known_ends, leader.min_isr = 1, {2: 2, 3: by}, min_isr
    return cluster


def test_a_follower_that_lags_holds_nothing_back() -> None:
    cluster = held_back(by=1)
    at(cluster, 2.6)
    with pytest.raises(
        InvariantBroken, match=r"^DP-06: .* b1 of epoch 0 has high watermark 1, and all of \[1, 2\] .* up to 2"
    ):
        cluster.show("b1")


def test_one_that_may_be_about_to_join_does() -> None:
    cluster = held_back(by=1)
    at(cluster, 2.5)
    cluster.show("b1")


def test_what_a_member_has_not_fetched_is_not_committed() -> None:
    cluster = held_back(by=2)
    cluster.replica("b1").known_ends[2] = 1
    at(cluster, 2.4)
    cluster.show("b1")


def test_below_min_isr_nothing_is_committed() -> None:
    cluster = held_back(by=1, min_isr=3)
    at(cluster, 2.6)
    cluster.show("b1")


def test_nobody_holds_the_high_watermark_back_without_lacking_a_record() -> None:
    cluster = held_back(by=2)
    with pytest.raises(InvariantBroken, match=r"^DP-06"):
        cluster.show("b1")


# -- joining --------------------------------------------------------------------------------------------------------


def outside(had: int) -> Cluster:
    """B2 leads epoch 1 with two records, of which one is known to be committed; b3 is no member and has `had`."""
    cluster = Cluster()
    cluster.change(isr=[1, 2])
    for value in (10, 11):
        cluster.append(0, value, "b1", "b2", *(("b3",) if value < 10 + had else ()))
    cluster.replica("b2").high_watermark = 1
    cluster.show("b2")
    cluster.change(leader=2)
    leader = cluster.replica("b2")
    cluster.replica("b1").is_leader, leader.is_leader, leader.leader_epoch = False, True, 1
    leader.fetched_by[3], leader.state = 2, SimpleNamespace(replicas=(1, 2, 3), min_insync_replicas=2)
    cluster.show("b2", "leader")
    return cluster


@pytest.mark.parametrize("had", [0, 1])
def test_one_that_has_not_reached_the_epochs_start_is_not_proposed(had: int) -> None:
    cluster = outside(had)
    with pytest.raises(InvariantBroken, match=rf"^IS-06: .* b2 of epoch 1, .* begins at 2, .* b3 .* to {had} of"):
        cluster.show("b2", "isr_proposed", isr=(1, 2, 3))


def test_one_that_has_reached_the_epochs_start_joins() -> None:
    cluster = outside(2)
    cluster.append(1, 12, "b2")
    cluster.show("b2", "isr_proposed", isr=(1, 2, 3))


def test_one_that_lost_what_it_had_in_this_epoch_is_proposed_by_its_last_fetch() -> None:
    cluster = outside(2)
    cluster.truncate("b3", 1)
    cluster.show("b2", "isr_proposed", isr=(1, 2, 3))


def test_a_leader_proposes_whoever_stays() -> None:
    outside(0).show("b2", "isr_proposed", isr=(2,))
