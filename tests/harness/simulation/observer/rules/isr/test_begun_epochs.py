"""EP-01 as the observer asserts it: a replica begins to lead an epoch once, and later ones only."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import TOPIC, TOPIC_ID, Cluster


def begins(cluster: Cluster, epoch: int, topic_id: bytes = TOPIC_ID) -> None:
    """The replica of b1 begins to lead an epoch, in a turn of its own."""
    cluster.observer.event(
        "leader", broker=1, topic=TOPIC, partition=0, epoch=epoch, end=0, high_watermark=0, topic_id=topic_id
    )
    cluster.show("b1")


@pytest.mark.parametrize("again", [3, 2])
def test_an_epoch_that_is_begun_again_is_a_breach(again: int) -> None:
    cluster = Cluster()
    begins(cluster, 3)
    with pytest.raises(
        InvariantBroken, match=rf"^EP-01: broker 1 begins to lead events-0 in epoch {again}, it has begun 3"
    ):
        begins(cluster, again)


def test_a_later_epoch_may_begin() -> None:
    cluster = Cluster()
    begins(cluster, 3)
    begins(cluster, 5)


def test_another_incarnation_begins_with_the_epoch_that_metadata_say() -> None:
    cluster = Cluster()
    begins(cluster, 3)
    cluster.processes["b1"].up = False
    cluster.observer.look(cluster.processes["b1"])  # type: ignore[arg-type]
    cluster.processes["b1"].up = True
    begins(cluster, 3)


def test_a_replica_that_was_deleted_begins_anew() -> None:
    cluster = Cluster()
    begins(cluster, 3)
    cluster.observer.cluster.being_deleted[TOPIC] = None
    cluster.observer.event("zk_replica_deleted", node=1, of=TOPIC, topic_id=TOPIC_ID, number=0)
    begins(cluster, 3)


def test_a_topic_that_is_created_again_begins_with_the_first_epoch() -> None:
    cluster = Cluster()
    begins(cluster, 3)
    begins(cluster, 0, topic_id=bytes(16))
