"""IS-08 as the observer asserts it: fetches name a registration. Brokers 1 to 3 have the epochs 0 to 2."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.isr.fetching_incarnations import FetchingIncarnations
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.records import RegisterBrokerRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
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


# -- what a leader serves, it takes note of ------------------------------------------------------------------------


def serves(
    *,
    known: tuple[int, int] | None,
    epoch: int = 7,
    offset: int = 20,
    error: int = 0,
    diverges: bool = False,
    leader_epoch: int = 5,
    rule: FetchingIncarnations | None = None,
) -> None:
    """A leader serves broker 3 of an epoch from an offset, and then knows it by (epoch, end)."""
    replica = SimpleNamespace(
        topic="t",
        topic_id=bytes(16),
        partition=0,
        leader_epoch=leader_epoch,
        is_leader=True,
        follower_epochs=lambda: [] if known is None else [(3, known[0])],
        follower_ends=lambda: {3: -1 if known is None else known[1]},
    )
    replicas = SimpleNamespace(by_name=lambda *_: SimpleNamespace(replica=replica))
    node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=replicas))
    asked = FetchRequest(
        replica_state=ReplicaState(3, epoch), topics=[FetchTopic(topic="t", partitions=[FetchPartition(0, 5, offset)])]
    )
    part = PartitionData(0, error, 20)
    if diverges:
        part.diverging_epoch = EpochEndOffset(4, 12)
    request = ServerRequest(int(ApiKey.FETCH), 17, asked, "node-3", "PLAINTEXT", 1, 0)
    request.answer = Answer(response=FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])]))
    process: Any = SimpleNamespace(name="b1", incarnation=1)
    (rule or FetchingIncarnations(None)).answered(process, node, request)  # type: ignore[arg-type]


def test_a_leader_knows_a_follower_by_the_fetch_that_it_serves() -> None:
    serves(known=(7, 20))


@pytest.mark.parametrize("known", [(4, 90), (7, 19)])
def test_a_leader_that_goes_by_an_earlier_incarnation_or_offset_breaks_is_08(known: tuple[int, int]) -> None:
    with pytest.raises(
        InvariantBroken, match=rf"^IS-08: t-0: .* broker 3 of epoch 7 from 20, .* epoch {known[0]} to be at {known[1]}$"
    ):
        serves(known=known)


@pytest.mark.parametrize("known", [(8, 3), (7, 25), None])
def test_it_may_have_served_a_newer_fetch_or_know_nothing_in_a_new_epoch(known: tuple[int, int] | None) -> None:
    serves(known=known)


def test_what_it_refuses_or_has_truncated_proves_nothing() -> None:
    serves(known=(4, 90), error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    serves(known=(4, 90), diverges=True)
    serves(known=(4, 90), epoch=-1)


def test_a_leader_that_serves_an_earlier_incarnation_than_before_breaks_is_08() -> None:
    """Seed 1031160 of worlds: a frame of the incarnation before came late."""
    rule = FetchingIncarnations(None)  # type: ignore[arg-type]
    serves(known=(7, 20), epoch=7, rule=rule)
    serves(known=(7, 20), epoch=6, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, rule=rule)
    serves(known=(6, 20), epoch=6, leader_epoch=6, rule=rule)
    with pytest.raises(InvariantBroken, match=r"^IS-08: t-0: .* b1 serves broker 3 of epoch 6, and .* epoch 7 before$"):
        serves(known=(6, 20), epoch=6, rule=rule)


# -- who may join the ISR ------------------------------------------------------------------------------------------


def proposes(*isr: int, known: int | None = 7, registered: object = None) -> None:
    """B1 leads with the ISR [1, 2], and proposes another; it knows broker 3 by this broker epoch."""
    brokers = {} if registered is None else {3: registered}
    replica = SimpleNamespace(
        topic="t", partition=0, broker=1, isr=(1, 2), follower_epochs=lambda: [] if known is None else [(3, known)]
    )
    replicas = SimpleNamespace(by_id=lambda *_: SimpleNamespace(replica=replica))
    node = SimpleNamespace(broker=SimpleNamespace(replicas=replicas, image=SimpleNamespace(brokers=brokers)))
    cluster: Any = SimpleNamespace(names={1: "b1"}, processes={"b1": SimpleNamespace(name="b1", node=node)})
    rule = FetchingIncarnations(cluster)
    rule.traced("isr_proposed", {"broker": 1, "topic_id": bytes(16), "partition": 0, "isr": isr})
    turn: Any = SimpleNamespace(replica=SimpleNamespace(is_leader=False), process=SimpleNamespace(node=node))
    rule.replica_examined(turn, 0)


def registered(epoch: int = 7, *, active: bool = True) -> object:
    return SimpleNamespace(epoch=epoch, active=active)


def test_an_active_broker_may_join_that_fetches_by_its_registration() -> None:
    proposes(1, 2, 3, registered=registered())


@pytest.mark.parametrize(
    ("known", "registration"),
    [(7, registered(active=False)), (7, None), (6, registered()), (None, registered())],
    ids=["fenced or stopping", "not registered", "an earlier incarnation", "no fetch in this epoch"],
)
def test_a_follower_that_may_not_join_breaks_is_08(known: int | None, registration: object) -> None:
    with pytest.raises(InvariantBroken, match=r"^IS-08: t-0: its leader b1 proposes that broker 3 joins the ISR"):
        proposes(1, 2, 3, known=known, registered=registration)


def test_who_stays_in_the_isr_may_be_fenced() -> None:
    proposes(1, known=None)


def test_a_proposal_of_a_turn_in_which_its_leader_dies_is_forgotten() -> None:
    cluster: Any = SimpleNamespace(names={}, processes={})
    rule = FetchingIncarnations(cluster)
    rule._unfit.append("t-0: ...")
    rule.died(cluster)
    turn: Any = SimpleNamespace(replica=SimpleNamespace(is_leader=False))
    rule.replica_examined(turn, 0)
