"""MD-05 as the observer asserts it: a topic-partition begins empty on each host, under whatever name."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import Cluster

AGAIN = bytes(16)
"""The id of the topic that is created again under the name."""


def created_again(*, ends_at: int, deaths: int = 0) -> None:
    """B3 has two records of a topic, dies, and finds another of that name; its replica of that one ends there."""
    cluster = Cluster()
    cluster.show("b3", "follower")
    for value in (10, 11):
        cluster.append(0, value, "b1", "b3")
    process, replica = cluster.processes["b3"], cluster.replica("b3")
    if deaths:
        cluster.observer.cluster.images.newest[AGAIN, 0] = next(iter(cluster.observer.cluster.images.newest.values()))
    process.up = False
    process.crashes_in_calls += deaths
    cluster.observer.look(process)  # type: ignore[arg-type]
    process.up = True
    process.incarnation += 1
    replica.topic_id = AGAIN
    process.note_topic_id()
    replica.log.cut(ends_at)
    cluster.show("b3", "follower")


def test_a_topic_that_is_created_again_with_old_records_breaks_md_05() -> None:
    with pytest.raises(InvariantBroken, match=r"^MD-05: events-0: b3 creates its replica .* with records up to 2"):
        created_again(ends_at=2)


def test_a_topic_that_is_created_again_may_begin_empty() -> None:
    created_again(ends_at=0)


def test_a_replica_that_comes_back_has_its_records() -> None:
    cluster = Cluster()
    cluster.show("b3", "follower")
    cluster.append(0, 10, "b1", "b3")
    cluster.processes["b3"].incarnation += 1
    cluster.show("b3", "follower")


def test_a_leader_may_append_in_the_turn_in_which_it_is_created() -> None:
    cluster = Cluster()
    cluster.sent(10)
    cluster.append(0, 10, "b2")
    cluster.show("b2", "leader", end=0)


def test_a_replica_may_have_been_filled_in_a_turn_that_nobody_saw_the_end_of() -> None:
    created_again(ends_at=2, deaths=1)


def test_a_log_in_a_directory_of_another_topic_breaks_md_05() -> None:
    """An empty log shows nothing of that, and what is appended to it is found under the wrong id after a restart."""
    cluster = Cluster()
    process, replica = cluster.processes["b3"], cluster.replica("b3")
    replica.topic_id = AGAIN
    with pytest.raises(InvariantBroken, match=r"^MD-05: events-0: b3 has records of topic A* in a directory that says"):
        cluster.show("b3", "follower")
    process.note_topic_id()
    cluster.show("b3", "follower")
