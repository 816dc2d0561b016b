"""DP-13 as the observer asserts it: a follower removes nothing that its leader has."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import TOPIC, TOPIC_ID, Cluster


def followed() -> Cluster:
    """B2 leads epoch 1 with two records; b3 has these and one more of epoch 0, and knows that one is committed."""
    cluster = Cluster()
    cluster.change(isr=[1, 2])
    cluster.append(0, 10, "b1", "b2", "b3")
    cluster.append(0, 11, "b1", "b2", "b3")
    cluster.append(0, 12, "b1", "b3")
    cluster.replica("b3").high_watermark = 1
    cluster.show("b3")
    cluster.change(leader=2)
    cluster.replica("b1").is_leader, cluster.replica("b2").is_leader = False, True
    for name in ("b2", "b3"):
        cluster.replica(name).leader_epoch = 1
        cluster.show(name)
    cluster.append(1, 13, "b2")
    return cluster


def test_what_differs_is_removed() -> None:
    followed().truncate("b3", 2)


def test_a_batch_that_the_leader_has_as_well_stays() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-13: events-0: b3 has cut its log to 1, .* batch 1–1 of epoch 0, "):
        followed().truncate("b3", 1)


def test_what_is_removed_when_an_epoch_begins_is_judged_by_what_is_lost() -> None:
    cluster = followed()
    cluster.observer.event("follower", broker=3, topic=TOPIC, partition=0, topic_id=TOPIC_ID, leader=2, epoch=1, end=3)
    cluster.truncate("b3", 1)


def test_a_leader_of_another_epoch_says_nothing() -> None:
    cluster = followed()
    cluster.replica("b2").leader_epoch = 2
    cluster.truncate("b3", 1)


def test_a_follower_that_begins_at_its_leaders_start_removes_what_lies_below() -> None:
    cluster = followed()
    cluster.observer.event("deletion_asked", broker=2, topic=TOPIC, partition=0, offset=2)
    cluster.replica("b2").high_watermark = 2
    cluster.raise_start("b2", 2)
    cluster.truncate("b3", 1)
