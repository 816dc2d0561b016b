"""DP-13 as the observer asserts it: a follower removes nothing that its leader has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.rule import ReplicaTurn
from squall.harness.simulation.observer.rules.truncated_epochs import TruncatedEpochs
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from tests.harness.simulation.observer.observed import TOPIC, TOPIC_ID, Cluster, HandMadeLog, batch


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


def told(rule: TruncatedEpochs, epoch: int, *, leader_epoch: int = 5, error: int = 0) -> None:
    """A leader answers broker 3's fetch: the two logs share nothing after this epoch."""
    replica = SimpleNamespace(topic="t", topic_id=TOPIC_ID, partition=0, leader_epoch=leader_epoch)
    replicas = SimpleNamespace(by_name=lambda *_: None, by_id=lambda *_: SimpleNamespace(replica=replica))
    node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=replicas))
    asked = FetchRequest(replica_state=ReplicaState(3, 1))
    part = PartitionData(0, error, diverging_epoch=EpochEndOffset(epoch, 4))
    request = ServerRequest(int(ApiKey.FETCH), 17, asked, "node-3", "PLAINTEXT", 1, 0)
    request.answer = Answer(response=FetchResponse(responses=[FetchableTopicResponse(TOPIC_ID, partitions=[part])]))
    rule.answered(SimpleNamespace(name="b1"), node, request)  # type: ignore[arg-type]


def cuts(rule: TruncatedEpochs, *batches: bytes) -> None:
    """Broker 3 follows epoch 5, and truncates its log to these batches."""
    log = HandMadeLog(*batches)
    replica = SimpleNamespace(
        broker=3, topic="t", topic_id=TOPIC_ID, partition=0, is_leader=False, leader_epoch=5, log=log,
        end_offset=log.end_offset,
        read=lambda offset, size, upper, at_least_one: log.read(offset, size, upper=upper, at_least_one=at_least_one),
    )  # fmt: skip
    watched: Any = SimpleNamespace(log=SimpleNamespace(name="t-0"))
    process: Any = SimpleNamespace(name="b3")
    rule.replica_touched(ReplicaTurn(process, watched, replica, None, log.end_offset))  # type: ignore[arg-type]


BEFORE, AFTER = batch(0, 1, 10, 11), batch(2, 3, 12, 13)


def test_nothing_of_an_epoch_after_the_one_that_the_leader_names_is_kept() -> None:
    rule = TruncatedEpochs(ObservedCluster())
    told(rule, 2)
    with pytest.raises(InvariantBroken, match=r"^DP-13: t-0: b3 has cut its log to 4, .* after epoch 2, and keeps ba"):
        cuts(rule, BEFORE, AFTER)


def test_what_is_of_the_epoch_that_the_leader_names_or_an_earlier_one_may_be_kept() -> None:
    rule = TruncatedEpochs(ObservedCluster())
    for epoch in (2, 3):
        told(rule, epoch)
        cuts(rule, BEFORE, *((AFTER,) if epoch == 3 else ()))


@pytest.mark.parametrize("how", [{"leader_epoch": 4}, {"error": 1}])
def test_what_another_leader_has_said_or_a_refusal_says_nothing(how: dict[str, int]) -> None:
    rule = TruncatedEpochs(ObservedCluster())
    told(rule, 2, **how)
    cuts(rule, BEFORE, AFTER)


def test_a_follower_that_was_told_nothing_may_keep_all() -> None:
    cuts(TruncatedEpochs(ObservedCluster()), BEFORE, AFTER)
