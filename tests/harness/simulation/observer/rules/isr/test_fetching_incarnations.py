"""IS-08 as the observer asserts it: fetches name a registration. Brokers 1 to 3 have the epochs 0 to 2."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.records import RegisterBrokerRecord
from tests.harness.simulation.observer.observed import Cluster, incarnation_id

REPLICAS = (1, 2, 3)


def fetches(cluster: Cluster, broker: int, epoch: int) -> None:
    """The leader b1 knows a follower by this broker epoch."""
    cluster.replica("b1").state = SimpleNamespace(replicas=REPLICAS, min_insync_replicas=2)
    cluster.replica("b1").fetched_by[broker] = epoch
    cluster.show("b1")


def test_a_follower_may_fetch_by_its_current_registration() -> None:
    fetches(Cluster(), broker=3, epoch=2)


@pytest.mark.parametrize("epoch", [-1, 3])
def test_a_fetch_without_a_registration_that_is_known_breaks_is_08(epoch: int) -> None:
    with pytest.raises(
        InvariantBroken, match=rf"^IS-08: events-0: .* b1, broker 3 fetches with the broker epoch {epoch},"
    ):
        fetches(Cluster(), broker=3, epoch=epoch)


def test_a_follower_that_is_no_replica_any_more_breaks_is_08() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^IS-08: events-0: its leader b1 knows broker 4 as a follower, .* are \[1, 2, 3\]"
    ):
        fetches(Cluster(), broker=4, epoch=2)


def test_a_follower_may_fetch_by_its_earlier_registration() -> None:
    """Until it has heard of the new one."""
    cluster = Cluster()
    again = RegisterBrokerRecord(broker_id=3, broker_epoch=6, incarnation_id=incarnation_id(3, 2), fenced=False)
    cluster.decide(again, tell=("b1",))
    fetches(cluster, broker=3, epoch=2)
    fetches(cluster, broker=3, epoch=6)


def test_only_a_leader_is_held_to_it() -> None:
    cluster = Cluster()
    cluster.replica("b2").fetched_by[3] = -1
    cluster.show("b2")
