"""DP-04 as the observer asserts it: a follower goes on in the fetch session that its leader gave it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.continued_sessions import ContinuedSessions
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.broker.requests.fetch_sessions import INT_MAX
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from tests.harness.simulation.observer.observed import TOPIC_ID

UNKNOWN_SESSION = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


class Leader:
    """Broker b1 leads, and b2 follows it: `replica` is its replica."""

    def __init__(self) -> None:
        self.process: Any = SimpleNamespace(name="b1", peer_address={1: "b2", 2: "b2", 3: "stranger"}.get)
        led = SimpleNamespace(replica=SimpleNamespace(leader_epoch=4))
        broker = SimpleNamespace(replicas=SimpleNamespace(by_id=lambda topic_id, partition: led))
        self.node: Any = SimpleNamespace(config=SimpleNamespace(node_id=1), broker=broker)
        self.replica: Any = SimpleNamespace(topic="events", leader_epoch=4, end_offset=0, is_leader=False)
        self.rule: ContinuedSessions
        self.begins_to_follow()

    def begins_to_follow(self) -> None:
        """B2 has a new fetcher."""
        fetcher = object()
        hosted = SimpleNamespace(replica=self.replica)
        replicas = SimpleNamespace(fetcher_of=lambda leader: fetcher, by_id=lambda topic_id, partition: hosted)
        follower: Any = SimpleNamespace(address="b2", node=SimpleNamespace(broker=SimpleNamespace(replicas=replicas)))
        if not hasattr(self, "rule"):
            cluster = ObservedCluster()
            cluster.names = {1: "b1", 2: "b2"}
            self.rule = ContinuedSessions(cluster)
        self.rule.cluster.processes = {"b2": follower}

    def answers(
        self,
        asked: tuple[int, int],
        session: int,
        *,
        error: int = 0,
        connection: int = 1,
        replica: int = 2,
        part: PartitionData | None = None,
        forgets: bool = False,
    ) -> None:
        """B1 answers a fetch of this session and epoch, and names a session."""
        body = FetchRequest(
            replica_state=ReplicaState(replica_id=replica, replica_epoch=1),
            session_id=asked[0],
            session_epoch=asked[1],
            forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])] if forgets else [],
        )
        topics = [] if part is None else [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])]
        request = ServerRequest(int(ApiKey.FETCH), 17, body, "b2", "BROKER", connection, 0)
        request.answer = Answer(response=FetchResponse(session_id=session, error_code=error, responses=topics))
        self.rule.answered(self.process, self.node, request)


@pytest.mark.parametrize("following", [(7, 1), (7, 0)], ids=["goes on in it", "ends it"])
def test_a_follower_names_the_session_that_it_was_given(following: tuple[int, int]) -> None:
    leader = Leader()
    leader.answers((0, 0), 7)
    leader.answers(following, 7)


def test_a_follower_that_forgets_its_session_breaks_dp_04() -> None:
    leader = Leader()
    leader.answers((0, 0), 7)
    leader.answers((7, 1), 7)
    with pytest.raises(InvariantBroken, match="session 7 by b1, whose next epoch is 2, and names session 0"):
        leader.answers((0, 0), 8)


@pytest.mark.parametrize("epoch", [-1, 1, 3])
def test_a_follower_that_names_another_epoch_of_its_session_breaks_dp_04(epoch: int) -> None:
    leader = Leader()
    leader.answers((0, 0), 7)
    leader.answers((7, 1), 7)
    with pytest.raises(InvariantBroken, match=rf"next epoch is 2, and names session 7, epoch {epoch} in"):
        leader.answers((7, epoch), 7)


def test_the_epochs_of_a_session_begin_again_after_the_last() -> None:
    leader = Leader()
    leader.answers((7, INT_MAX), 7)
    leader.answers((7, 1), 7)


def test_a_follower_that_asks_for_no_session_breaks_dp_04() -> None:
    leader = Leader()
    with pytest.raises(InvariantBroken, match=r"^DP-04: b2 has no fetch session at b1, and names session 0, epoch -1$"):
        leader.answers((0, -1), 0)


def test_a_fetch_on_another_connection_may_begin_another_session() -> None:
    leader = Leader()
    leader.answers((0, 0), 7)
    leader.answers((0, 0), 8, connection=2)


def test_a_stranger_may_send_a_followers_fetches_again() -> None:
    leader = Leader()
    leader.answers((0, 0), 7)
    leader.answers((0, 0), 8, connection=3)
    leader.answers((5, 1), 0, error=UNKNOWN_SESSION, connection=3)
    leader.answers((7, 1), 7)


def test_a_follower_that_begins_to_follow_anew_knows_of_no_session() -> None:
    leader = Leader()
    leader.answers((0, 0), 7)
    leader.begins_to_follow()
    leader.answers((0, 0), 8)


@pytest.mark.parametrize(("session", "error"), [(0, 0), (7, UNKNOWN_SESSION)], ids=["no session", "an error"])
def test_after_no_session_and_after_an_error_any_may_follow(session: int, error: int) -> None:
    leader = Leader()
    leader.answers((7, 3), session, error=error)
    leader.answers((0, 0), 8)


def test_a_leader_that_died_has_given_nothing() -> None:
    leader = Leader()
    leader.answers((0, 0), 7)
    leader.rule.died(leader.process)
    leader.answers((0, 0), 8)


def test_consumers_may_begin_as_many_sessions_as_they_like() -> None:
    leader = Leader()
    leader.answers((0, 0), 7, replica=-1)
    leader.answers((0, 0), 8, replica=-1)


# -- what a fetch takes out of its session ------------------------------------------------------------------------

BATCH = build_batch([Record(value=b"v")] * 3)
TORN = BATCH + BATCH[:-1]


def sent(records: bytes = BATCH, error: ErrorCode = ErrorCode.NONE, diverging: int = -1) -> PartitionData:
    """What b1 answers of the topic-partition."""
    return PartitionData(error_code=error, records=records, diverging_epoch=EpochEndOffset(epoch=diverging))


@pytest.mark.parametrize("records", [BATCH, TORN], ids=["whole", "ends within a batch"])
@pytest.mark.parametrize("silent", [False, True])
def test_a_follower_that_forgets_what_it_has_appended_breaks_dp_04(records: bytes, silent: bool) -> None:
    """Also if fetches came between that brought nothing of the topic-partition."""
    leader = Leader()
    leader.answers((0, 0), 7, part=sent(records))
    leader.replica.end_offset = 3
    if silent:
        leader.answers((7, 1), 7)
    with pytest.raises(
        InvariantBroken, match=r"^DP-04: events-0: b2 was sent records by b1, has appended them up to 3, and takes it"
    ):
        leader.answers((7, 1 + silent), 7, forgets=True)


@pytest.mark.parametrize(
    "changed",
    [{"end_offset": 2}, {"leader_epoch": 5}, {"is_leader": True}],
    ids=["it could not append all", "a new leader epoch", "it leads"],
)
def test_a_follower_may_forget_what_it_cannot_or_need_not_fetch_on(changed: dict[str, int]) -> None:
    leader = Leader()
    leader.answers((0, 0), 7, part=sent())
    vars(leader.replica).update({"end_offset": 3} | changed)
    leader.answers((7, 1), 7, forgets=True)


@pytest.mark.parametrize(
    "then",
    [sent(b""), sent(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), sent(diverging=2)],
    ids=["news", "error", "diverges"],
)
def test_a_follower_may_forget_what_it_was_sent_something_else_of(then: PartitionData) -> None:
    leader = Leader()
    leader.answers((0, 0), 7, part=sent())
    leader.replica.end_offset = 3
    leader.answers((7, 1), 7, part=then)
    leader.answers((7, 2), 7, forgets=True)


@pytest.mark.parametrize("anew", [False, True], ids=["another connection", "another fetcher"])
def test_on_another_connection_and_with_another_fetcher_nothing_was_sent(anew: bool) -> None:
    leader = Leader()
    leader.answers((0, 0), 7, part=sent())
    leader.replica.end_offset = 3
    if anew:
        leader.begins_to_follow()
    leader.answers((7, 1), 7, forgets=True, connection=1 if anew else 2)


def test_a_follower_may_forget_what_it_hosts_no_more() -> None:
    leader = Leader()
    leader.answers((0, 0), 7, part=sent())
    leader.rule.cluster.processes["b2"].node.broker.replicas.by_id = lambda topic_id, partition: None  # type: ignore[union-attr]
    leader.answers((7, 1), 7, forgets=True)
