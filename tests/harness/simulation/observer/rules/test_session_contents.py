"""DP-04 as the observer asserts it: both sides of a fetch session hold the same, and nothing of it is forgotten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.broker.requests.fetch_sessions import Watch
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchTopic
from tests.harness.simulation.observer.observed import TOPIC, TOPIC_ID, Cluster

KEY = (TOPIC_ID, 0)
SESSION = 7


def reading(cluster: Cluster, offset: int, *, replica_id: int = 2, news: bool = False) -> Watch:
    """A session at b1 that reads from this offset; it has news of the topic-partition, or has not."""
    context: Any = SimpleNamespace(
        replica_id=replica_id, is_follower=replica_id >= 0, news={}, watches={}, epoch=4, by_id=True
    )
    watch = Watch(context, FetchTopic(topic_id=TOPIC_ID, topic=TOPIC), FetchPartition(fetch_offset=offset))
    context.watches[KEY] = watch
    context.news = {watch: None} if news else {}
    process = cluster.processes["b1"]
    (process.hosted.followers if replica_id >= 0 else process.hosted.consumers)[watch] = None
    process.sessions[SESSION] = context
    return watch


def asks(cluster: Cluster, offset: int | None, *, epoch: int = 4) -> None:
    """B2 holds that it asks b1 for this offset, or for nothing of the topic-partition."""
    position = None if offset is None else SimpleNamespace(offset=offset)
    cluster.processes["b2"].fetchers[1] = SimpleNamespace(
        session=(SESSION, epoch), position_asked=lambda topic_id, partition: position
    )


def with_two_of_which_one_is_committed() -> Cluster:
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2", "b3")
    cluster.commit("b1")
    cluster.append(0, 11, "b1")
    return cluster


# -- how many ------------------------------------------------------------------------------------------------------


def test_more_sessions_than_a_broker_may_keep_break_dp_04() -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 1, news=True)
    cluster.processes["b1"].session_slots = 1
    cluster.show("b1")
    cluster.processes["b1"].session_slots = 0
    with pytest.raises(InvariantBroken, match=r"^DP-04: b1 keeps 1 fetch sessions, and may keep 0"):
        cluster.show("b1")


def test_a_broker_that_counts_what_its_sessions_name_wrongly_breaks_dp_04() -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 1, news=True)
    cluster.processes["b1"].named_in_sessions = 2
    with pytest.raises(
        InvariantBroken, match=r"^DP-04: b1 counts 2 topic-partitions in its fetch sessions, and they name 1"
    ):
        cluster.observer.final()


def test_a_broker_that_counts_them_right_is_sound() -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 1, news=True)
    cluster.processes["b1"].named_in_sessions = 1
    cluster.observer.final()


# -- news ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("replica_id", "offset", "end"), [(2, 1, 2), (-1, 0, 1)])
def test_a_session_without_news_of_what_it_has_not_received_breaks_dp_04(
    replica_id: int, offset: int, end: int
) -> None:
    """A follower receives the log, a consumer what is committed."""
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, offset, replica_id=replica_id)
    with pytest.raises(InvariantBroken, match=rf"^DP-04: .* from offset {offset}, and has no news .* up to {end}"):
        cluster.show("b1")


@pytest.mark.parametrize(("replica_id", "offset"), [(2, 2), (-1, 1)])
def test_a_session_that_has_received_everything_needs_no_news(replica_id: int, offset: int) -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, offset, replica_id=replica_id)
    cluster.show("b1")


@pytest.mark.parametrize("replica_id", [2, -1])
def test_a_session_beyond_the_end_of_a_log_without_news_of_it_breaks_dp_04(replica_id: int) -> None:
    """A log that was cut: only OFFSET_OUT_OF_RANGE, or a divergence, tells the reader."""
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 3, replica_id=replica_id)
    with pytest.raises(
        InvariantBroken, match=r"^DP-04: .* from offset 3, beyond the log's end 2, and has no news of it"
    ):
        cluster.show("b1")


def test_a_session_beyond_the_end_of_a_log_that_will_hear_of_it_is_legal() -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 3, news=True)
    cluster.show("b1")


def test_what_waits_to_be_sent_is_news() -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 0, news=True)
    cluster.show("b1")


def test_a_topic_partition_that_is_no_longer_hosted_has_no_news() -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 0)
    cluster.processes["b1"].hosted.removed = True
    cluster.show("b1")


# -- both sides ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "words"), [(1, "asks b1 for offset 1, and b1 holds offset 2"), (None, "asks b1 for nothing of it")]
)
def test_sides_that_differ_at_one_epoch_break_dp_04(offset: int | None, words: str) -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 2)
    asks(cluster, offset)
    with pytest.raises(InvariantBroken, match=rf"^DP-04: events-0: in epoch 4 .* b2 {words}"):
        cluster.show("b1")


def test_a_topic_partition_that_the_leader_has_dropped_breaks_dp_04() -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 2).context.watches.clear()
    asks(cluster, 2)
    with pytest.raises(InvariantBroken, match=r"^DP-04: .* asks b1 for offset 2, and b1 holds nothing of it"):
        cluster.observer.final()


def test_sides_that_agree_are_sound() -> None:
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 2)
    asks(cluster, 2)
    cluster.show("b1")


@pytest.mark.parametrize("epoch", [0, 5])
def test_sides_at_different_epochs_may_differ(epoch: int) -> None:
    """A fetch is under way; epoch 0: the follower begins another session."""
    cluster = with_two_of_which_one_is_committed()
    reading(cluster, 2)
    asks(cluster, 1, epoch=epoch)
    cluster.show("b1")


def test_a_session_that_the_leader_has_ended_is_compared_with_nothing() -> None:
    cluster = with_two_of_which_one_is_committed()
    asks(cluster, 1)
    cluster.show("b1")
