"""DP-05 as the observer asserts it of time: a request that waits is answered when its time is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.request_deadlines import RequestDeadlines
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from squall.nodes.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchTopic
from squall.nodes.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_TOPIC_ID

MS = 1_000


class Watched:
    """A broker that serves since the beginning and takes turns at the times given, in milliseconds."""

    def __init__(self, *turns: int, serves: bool = True) -> None:
        self.rule = RequestDeadlines(None)  # type: ignore[arg-type]
        self.waiting: list[Any] = []
        self.node: Any = SimpleNamespace(
            broker=SimpleNamespace(is_serving=serves),
            controller=None,
            config=SimpleNamespace(request_timeout_ms=30_000),
            connections=SimpleNamespace(in_flight=lambda connection: self.waiting),
        )
        self.process: Any = SimpleNamespace(name="b1", now=0)
        self.take_turns(0, *turns)

    def take_turns(self, *turns: int) -> None:
        for at in turns:
            self.process.now = at * MS
            self.rule.turned(self.process, self.node)

    def answers(self, now: int, body: Message | None = None, *, began_at: int = 1, key: ApiKey = ApiKey.FETCH) -> None:
        """Answer a request that arrived after a millisecond, and was served at `began_at`; 0 is now."""
        asked = FetchRequest(max_wait_ms=500) if body is None else body
        request = ServerRequest(int(key), 1, asked, "client", "PLAINTEXT", 5, MS)
        self.waiting = [SimpleNamespace(request=request, began_at=began_at * MS)]
        self.process.now = now * MS
        self.rule.answered(self.process, self.node, request)


def test_an_answer_after_a_turn_that_should_have_had_it_breaks_dp_05() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-05: b1 answers FETCH of client 0\.399 s after its time of 500 ms"):
        Watched(700).answers(900)
    with pytest.raises(InvariantBroken, match=r"^DP-05: b1 answers DELETE_RECORDS"):
        Watched(700).answers(900, DeleteRecordsRequest(timeout_ms=500), key=ApiKey.DELETE_RECORDS)


def test_the_first_turn_after_its_time_may_have_it() -> None:
    Watched(400).answers(900)


def test_a_broker_that_took_no_turn_meanwhile_may_be_late() -> None:
    Watched(100).answers(5_000)


def test_a_request_that_waited_to_be_served_has_its_time_from_then_on() -> None:
    """Seeds 976285 and 976457 of worlds: others were served first, a few in each turn."""
    Watched(700).answers(900, began_at=300)
    Watched(700).answers(900, began_at=0)


def test_so_has_one_that_came_before_the_broker_served_any() -> None:
    watched = Watched(2_000, serves=False)
    watched.node.broker.is_serving = True
    watched.take_turns(2_100, 2_400)
    watched.answers(2_500)
    watched.take_turns(2_700)
    with pytest.raises(InvariantBroken, match=r"^DP-05"):
        watched.answers(2_800)


def test_a_fetch_of_the_metadata_log_is_served_at_once() -> None:
    asked = FetchRequest(max_wait_ms=500, topics=[FetchTopic(METADATA_TOPIC_ID)])
    watched = Watched(700, serves=False)
    with pytest.raises(InvariantBroken, match=r"^DP-05"):
        watched.answers(900, asked)


def test_the_next_process_has_taken_no_turn_yet() -> None:
    watched = Watched(700)
    watched.rule.died(watched.process)
    watched.answers(900)


# -- writes whose leader is another one ---------------------------------------------------------------------------


def times_out(response: Message, key: ApiKey, *, leads: bool | None) -> None:
    """A broker that leads t-0, follows, or has no replica of it (None) answers with this error."""
    hosted = None if leads is None else SimpleNamespace(replica=SimpleNamespace(is_leader=leads))
    watched = Watched()
    watched.node.broker.replicas = SimpleNamespace(by_name=lambda topic, partition: hosted)
    request = ServerRequest(int(key), 2, FetchRequest(), "client", "PLAINTEXT", 5, MS)
    request.answer = Answer(response=response)
    watched.rule.answered(watched.process, watched.node, request)


def refusals(error: int) -> list[tuple[Message, ApiKey]]:
    part = PartitionProduceResponse(0, int(error), -1, -1, -1)
    deleted = DeleteRecordsPartitionResult(0, -1, int(error))
    return [
        (ProduceResponse([TopicProduceResponse("t", partition_responses=[part])]), ApiKey.PRODUCE),
        (DeleteRecordsResponse(topics=[DeleteRecordsTopicResult("t", [deleted])]), ApiKey.DELETE_RECORDS),
    ]


@pytest.mark.parametrize("leads", [False, None])
def test_a_write_that_times_out_where_nobody_leads_breaks_dp_05(leads: bool | None) -> None:
    for response, key in refusals(ErrorCode.REQUEST_TIMED_OUT):
        with pytest.raises(
            InvariantBroken, match=r"^DP-05: b1 answers that a write of t-0 has timed out, and does not"
        ):
            times_out(response, key, leads=leads)


def test_a_leader_may_time_out_and_anybody_may_refuse() -> None:
    for response, key in refusals(ErrorCode.REQUEST_TIMED_OUT):
        times_out(response, key, leads=True)
    for response, key in refusals(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        times_out(response, key, leads=False)


def acknowledges(committed: int, *, began_at: int = 1, offset: int = 4, known_at: int = 100) -> None:
    """B1 acknowledges two records from `offset` on, of a produce that it began to serve then, in milliseconds.

    Its high watermark was `committed` when the turn at `known_at` was over, the last one.
    """
    content = bytearray(build_batch([Record(value=b"v"), Record(value=b"w")], timestamp=1))
    content[:8] = offset.to_bytes(8, "big")
    replica: Any = SimpleNamespace(
        topic="t", partition=0, high_watermark=committed, is_leader=True, end_offset=offset + 2,
        read=lambda at, size, upper, at_least_one: memoryview(content),
    )  # fmt: skip
    watched = Watched(known_at)
    watched.node.broker.replicas = SimpleNamespace(by_name=lambda topic, partition: SimpleNamespace(replica=replica))
    watched.rule.replica_examined(SimpleNamespace(process=watched.process, replica=replica), 0)  # type: ignore[arg-type]
    part = PartitionProduceResponse(0, 0, offset, -1, 0)
    request = ServerRequest(int(ApiKey.PRODUCE), 9, ProduceRequest(), "client", "PLAINTEXT", 5, MS)
    request.answer = Answer(response=ProduceResponse([TopicProduceResponse("t", partition_responses=[part])]))
    watched.waiting = [SimpleNamespace(request=request, began_at=began_at * MS)]
    watched.process.now = 200 * MS
    watched.rule.answered(watched.process, watched.node, request)


def test_an_acknowledgement_that_was_due_since_an_earlier_turn_breaks_dp_05() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^DP-05: b1 acknowledges records at offset 4 of t-0, and its high watermark was 6"
    ):
        acknowledges(6)


def test_what_was_not_all_committed_before_this_turn_is_acknowledged_in_time() -> None:
    acknowledges(5)
    acknowledges(6, began_at=150)  # it came after that turn
    acknowledges(6, began_at=0)  # it comes just now


# -- what only the active controller can do -------------------------------------------------------------------------


def passes_on(
    now: int, error: ErrorCode = ErrorCode.NOT_CONTROLLER, *, timeout_ms: int = 5_000, controls: bool = False
) -> None:
    """B1 answers with this error, in milliseconds; the request came after one. It may be a controller as well."""
    watched = Watched()
    watched.node.controller = SimpleNamespace() if controls else None
    asked = DeleteTopicsRequest(topics=[DeleteTopicState("t")], timeout_ms=timeout_ms)
    request = ServerRequest(int(ApiKey.DELETE_TOPICS), 5, asked, "client", "PLAINTEXT", 5, MS)
    request.answer = Answer(response=DeleteTopicsResponse(responses=[DeletableTopicResult("t", error_code=int(error))]))
    watched.process.now = now * MS
    watched.rule.answered(watched.process, watched.node, request)


@pytest.mark.parametrize(("now", "timeout_ms", "words"), [(4_900, 5_000, "4.950"), (900, 0, "0.950")])
def test_a_broker_that_stops_early_to_ask_for_the_active_controller_breaks_dp_05(
    now: int, timeout_ms: int, words: str
) -> None:
    told = rf"^DP-05: b1 answers DELETE_TOPICS of client with NOT_CONTROLLER .* and could have asked for {words} s"
    with pytest.raises(InvariantBroken, match=told):
        passes_on(now, timeout_ms=timeout_ms)


def test_a_broker_may_say_so_when_no_time_is_left() -> None:
    passes_on(4_951)
    passes_on(29_951, timeout_ms=60_000)


def test_a_controller_may_say_so_at_once_and_a_broker_anything_else() -> None:
    passes_on(10, controls=True)
    passes_on(10, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
