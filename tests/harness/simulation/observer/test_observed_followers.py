"""EP-04 and DP-13 as the observer asserts them: a follower appends what its leader has, and claims no cut epoch."""

from __future__ import annotations

from typing import Any

import pytest

from squall.harness.simulation.observer.rules.follower_append import FollowerAppend, check_append
from squall.harness.simulation.observer.rules.truncated_epochs import check_truncation
from squall.harness.simulation.observer.state.observed_log import InvariantBroken, SeenReplica
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from tests.harness.simulation.observer.observed import TOPIC_ID, Cluster, HandMadeLog, HandMadeReplica, batch


def replica(broker: int, epoch: int, *batches: bytes, leads: bool = False) -> Any:
    return HandMadeReplica(broker, HandMadeLog(*batches), is_leader=leads, leader_epoch=epoch)


def seen_in(epoch: int, *, newest: tuple[int, int]) -> SeenReplica:
    """A replica that was in `epoch` when it was looked at before, and whose newest batch is (offset, epoch)."""
    return SeenReplica(0, newest[0] + 1, previous=newest, leader_epoch=epoch)


OLD, MORE, NEW = batch(0, 1, 10), batch(1, 1, 11), batch(1, 2, 12)


def test_a_follower_that_appends_what_its_leader_never_had_breaks_ep_04() -> None:
    follower, leader = replica(2, 2, OLD, MORE), replica(1, 2, OLD, NEW, leads=True)
    with pytest.raises(InvariantBroken, match=r"^EP-04: .* offset 1 of epoch 1, which its leader does not have"):
        check_append("events-0", "b2", follower, seen_in(2, newest=(1, 1)), leader)


def test_a_follower_may_append_an_earlier_leaders_record_the_leader_has() -> None:
    follower, leader = replica(2, 2, OLD, MORE), replica(1, 2, OLD, MORE, leads=True)
    check_append("events-0", "b2", follower, seen_in(2, newest=(1, 1)), leader)


def test_a_leader_that_appends_a_batch_of_an_older_epoch_breaks_ep_04() -> None:
    leader = replica(1, 2, OLD, MORE, leads=True)
    with pytest.raises(InvariantBroken, match=r"^EP-04: .* though it leads"):
        check_append("events-0", "b1", leader, seen_in(2, newest=(1, 1)), leader)


def test_what_was_appended_before_the_epoch_began_says_nothing() -> None:
    leader = replica(1, 2, OLD, MORE, leads=True)
    check_append("events-0", "b1", leader, seen_in(1, newest=(1, 1)), leader)


def test_without_a_leader_of_the_same_epoch_there_is_nothing_to_compare_with() -> None:
    follower = replica(2, 2, OLD, MORE)
    for leader in (None, replica(1, 3, OLD, NEW, leads=True), replica(1, 2, OLD, NEW)):
        check_append("events-0", "b2", follower, seen_in(2, newest=(1, 1)), leader)


# -- DP-06: the high watermark that comes with records -----------------------------------------------------------------


def told(cluster: Cluster, high_watermark: int, *records: bytes) -> None:
    """The leader b1 answers a fetch of b2 with records and this high watermark."""
    part = PartitionData(0, high_watermark=high_watermark, records=b"".join(records))
    request = ServerRequest(
        int(ApiKey.FETCH), 17, FetchRequest(replica_state=ReplicaState(2)), "node-2", "PLAINTEXT", 5, 0
    )
    request.answer = Answer(
        response=FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])])
    )
    process = cluster.processes["b1"]
    for rule in cluster.observer._rules.all:
        if isinstance(rule, FollowerAppend):
            rule.answered(process, process.node, request)  # type: ignore[arg-type]


def test_a_follower_that_leaves_the_high_watermark_behind_breaks_dp_06() -> None:
    cluster = Cluster()
    cluster.append(0, 10, "b1")
    told(cluster, 1, batch(0, 0, 10))
    cluster.show("b2")
    with pytest.raises(
        InvariantBroken, match=r"^DP-06: events-0: b2 has appended up to 1, was told the high watermark 1 .* has 0"
    ):
        cluster.append(0, 10, "b2")


def test_a_follower_takes_it_as_far_as_its_log_reaches() -> None:
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b3")
    told(cluster, 9, batch(0, 0, 10))
    cluster.replica("b2").high_watermark = 1
    cluster.append(0, 10, "b2")


def test_records_that_were_sent_twice_came_with_either_high_watermark() -> None:
    """Seed 983509 of worlds: a second fetch followed before the answer to the first one had arrived."""
    cluster = Cluster()
    cluster.append(0, 10, "b1")
    told(cluster, 0, batch(0, 0, 10))
    told(cluster, 1, batch(0, 0, 10))
    cluster.append(0, 10, "b2")


@pytest.mark.parametrize("hears_of_its_death", [True, False])
def test_what_a_follower_was_told_in_its_former_life_says_nothing(hears_of_its_death: bool) -> None:
    """It begins with the high watermark of its checkpoint; seed 983165 of worlds, where b1 answered it afterwards."""
    cluster = Cluster()
    cluster.append(0, 10, "b1")
    process = cluster.processes["b2"]
    if hears_of_its_death:
        told(cluster, 1, batch(0, 0, 10))
    process.up = False
    cluster.observer.look(process)  # type: ignore[arg-type]
    process.up, process.incarnation = True, 2
    if not hears_of_its_death:
        told(cluster, 1, batch(0, 0, 10))
    cluster.append(0, 10, "b2")


def test_a_log_that_was_cut_and_still_claims_the_epoch_breaks_dp_13() -> None:
    """Rule 14."""
    follower = replica(2, 3, OLD)
    follower.log.epochs.claimed = (2, 1)
    with pytest.raises(InvariantBroken, match=r"^DP-13: .* cut its log to 1 and still claims epoch 2"):
        check_truncation("events-0", "b2", follower)


def test_a_log_that_was_cut_within_its_last_epoch_keeps_it() -> None:
    check_truncation("events-0", "b2", replica(2, 3, OLD, NEW))
    check_truncation("events-0", "b2", replica(2, 3))
