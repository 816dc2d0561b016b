"""DP-04 as the observer asserts it: a response of a fetch session names only topic-partitions with something new."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.session_news import SessionNews
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from tests.harness.simulation.observer.observed import TOPIC_ID


class Session:
    """Session 7 of a consumer at b1. Its first response has high watermark 5 and log start 0 of one topic-partition."""

    def __init__(self) -> None:
        self.rule = SessionNews(ObservedCluster())
        self.kept = {7, 8}
        sessions = SimpleNamespace(find=lambda number: number if number in self.kept else None)
        self.node: Any = SimpleNamespace(broker=SimpleNamespace(fetching=SimpleNamespace(sessions=sessions)))
        self.process: Any = SimpleNamespace(name="b1")
        self.epoch = 0
        self.fetches(begins=True)

    def fetches(
        self,
        *,
        names: bool = False,
        forgets: bool = False,
        begins: bool = False,
        session: int = 7,
        **partition_data: Any,
    ) -> None:
        """B1 answers the next fetch of the session, or one that begins it; `partition_data` overrides the defaults."""
        part = PartitionData(**{"high_watermark": 5, "log_start_offset": 0} | partition_data)
        named = [FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(0)])] if names or begins else []
        forgotten = [ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])] if forgets else []
        self.epoch = 0 if begins else self.epoch + 1
        asked = 0 if begins else session
        body = FetchRequest(session_id=asked, session_epoch=self.epoch, topics=named, forgotten_topics_data=forgotten)
        request = ServerRequest(int(ApiKey.FETCH), 17, body, "client", "PLAINTEXT", 1, 0)
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])]
        request.answer = Answer(response=FetchResponse(session_id=session, responses=topics))
        self.rule.answered(self.process, self.node, request)


def test_a_response_that_repeats_the_last_one_breaks_dp_04() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^DP-04: b1 repeats to client, in epoch 1 of fetch session 7, .*-0 is 5 and .* 0$"
    ):
        Session().fetches()


@pytest.mark.parametrize(
    "news",
    [
        {"high_watermark": 6},
        {"log_start_offset": 1},
        {"records": b"batch"},
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=3)},
        {"preferred_read_replica": 2},
    ],
    ids=lambda news: next(iter(news)),
)
def test_a_response_may_have_something_new(news: dict[str, Any]) -> None:
    Session().fetches(**news)


def test_each_response_is_compared_with_the_last_one() -> None:
    session = Session()
    session.fetches(high_watermark=6)
    session.fetches()
    with pytest.raises(InvariantBroken, match="epoch 3"):
        session.fetches()


def test_after_an_error_the_state_is_sent_again() -> None:
    session = Session()
    session.fetches(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    session.fetches()


@pytest.mark.parametrize(
    "asked", [{"names": True}, {"forgets": True}, {"begins": True}], ids=lambda one: next(iter(one))
)
def test_a_topic_partition_that_the_fetch_names_is_in_the_response(asked: dict[str, bool]) -> None:
    Session().fetches(**asked)


def test_another_session_and_another_incarnation_have_sent_nothing() -> None:
    session = Session()
    session.fetches(begins=True, session=8)
    session.rule.died(session.process)
    session.epoch = 3
    session.fetches()


def test_a_session_that_has_ended_is_forgotten() -> None:
    session = Session()
    session.kept = {8}
    session.fetches(begins=True, session=8)
    assert list(session.rule._sessions["b1"]) == [8]
