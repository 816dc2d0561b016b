"""ZK-06 as the observer asserts it: a StopReplica deletes what ZooKeeper no longer has."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.image import PartitionRegistration, Topic
from squall.nodes.metadata.topic import RareFields
from tests.harness.simulation.observer.observed import Cluster

SIDE_ID = bytes(range(1, 17))


def deletes(*replicas: int, removing: tuple[int, ...] = (), being_deleted: bool = False, exists: bool = True) -> None:
    """B2 deletes its replica of `side`-0, which has these replicas in ZooKeeper."""
    cluster = Cluster()
    observed = cluster.observer.cluster
    if exists:
        topic = observed.metadata.image.topics[SIDE_ID] = Topic("side", SIDE_ID)
        topic.put(0, PartitionRegistration(replicas, replicas, replicas[0], 0, 0, RareFields(removing)))
    if being_deleted:
        observed.being_deleted["side"] = None
    cluster.observer.event("zk_replica_deleted", node=2, of="side", topic_id=SIDE_ID, number=0)
    cluster.observer.look(cluster.processes["b2"])  # type: ignore[arg-type]


def test_a_replica_in_use_that_is_deleted_breaks_zk_06() -> None:
    with pytest.raises(InvariantBroken, match=r"^ZK-06: broker 2 deletes its replica of side-0, .* \[1, 2, 3\]"):
        deletes(1, 2, 3)


@pytest.mark.parametrize(
    "state",
    [
        {"being_deleted": True},
        {"exists": False},
        {"removing": (2,)},
    ],
    ids=str,
)
def test_what_is_to_go_may_be_deleted(state: dict[str, bool]) -> None:
    deletes(1, 2, 3, **state)  # type: ignore[arg-type]


def test_a_broker_that_is_no_replica_any_more_may_delete_its_own() -> None:
    deletes(1, 3, 4)
