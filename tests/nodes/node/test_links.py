"""Outbound links: a connection per destination and purpose, back-off, deadlines, finding the active controller."""

from __future__ import annotations

import random

import pytest

from squall.nodes.node.effects import Close, Connect, Effect, Send
from squall.nodes.node.links import CONNECT_TIMEOUT, Links
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from squall.nodes.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.requests.headers import decode_request, encode_response
from squall.nodes.protocol.requests.session import Destination, OutboundRequest, ToActiveController, ToBroker, ToVoter
from squall.nodes.protocol.schema import Message

SECOND = 1_000_000
DELETION = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])


class Directory:
    """Brokers on 10.0.0.<id>, controllers on 10.0.1.<id>."""

    def __init__(self) -> None:
        self.leader: int | None = 101
        self.unknown: list[int] = []

    def broker_address(self, broker: int) -> tuple[str, int] | None:
        return None if broker in self.unknown else (f"10.0.0.{broker}", 9092)

    def voter_address(self, voter: int) -> tuple[str, int] | None:
        return None if voter in self.unknown else (f"10.0.1.{voter}", 9093)

    def active_controller(self) -> int | None:
        return self.leader


class Fixture:
    """Links whose outbox is looked at, with a record of what requests came to."""

    def __init__(self) -> None:
        self.directory = Directory()
        self.outbox: list[Effect] = []
        self.links = Links("node-1", self.directory, random.Random(1), self.outbox)
        self.ends: list[Message | None] = []

    def ask(
        self, message: Message, destination: Destination, now: int = 0, timeout: int = 10 * SECOND
    ) -> OutboundRequest:
        request = OutboundRequest(destination, message, timeout, lambda _, response: self.ends.append(response))
        self.links.submit(now, request)
        return request

    def effects(self) -> list[Effect]:
        taken, self.outbox[:] = list(self.outbox), []
        return taken

    def connects(self) -> list[Connect]:
        return [effect for effect in self.effects() if isinstance(effect, Connect)]

    def answer(self, send: Effect, response: Message, now: int = 0) -> None:
        assert isinstance(send, Send)
        header, _ = decode_request(b"".join(send.chunks))
        frame = b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, response))
        self.links.received(now, send.connection, frame)


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def heartbeat() -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(broker_id=1)


def test_a_request_waits_for_its_connection_and_is_answered_once(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToBroker(2))
    assert fixture.effects() == [Connect(-1, "10.0.0.2", 9092)]
    fixture.links.opened(10, -1)
    [send] = fixture.effects()
    fixture.answer(send, FetchResponse(), now=20)
    assert fixture.ends == [FetchResponse()]


def test_a_long_poll_never_stands_before_a_heartbeat(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToVoter(101))
    fixture.ask(heartbeat(), ToActiveController())
    fixture.ask(CreateTopicsRequest(), ToActiveController())
    connections = {effect.connection for effect in fixture.connects()}
    assert len(connections) == 3, "fetch, lifecycle and admin have a connection each"


def test_requests_of_one_purpose_share_a_connection_in_order(fixture: Fixture) -> None:
    fixture.ask(heartbeat(), ToVoter(101))
    fixture.ask(heartbeat(), ToVoter(101))
    [connect] = fixture.connects()
    fixture.links.opened(0, connect.connection)
    first, second = fixture.effects()
    fixture.answer(first, BrokerHeartbeatResponse(is_fenced=False))
    fixture.answer(second, BrokerHeartbeatResponse(is_fenced=True))
    assert [one.is_fenced for one in fixture.ends if isinstance(one, BrokerHeartbeatResponse)] == [False, True]


def test_a_lost_connection_ends_what_was_asked_on_it(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToBroker(2))
    fixture.links.opened(0, -1)
    fixture.links.closed(5, -1)
    assert fixture.ends == [None]


def test_after_a_failure_a_link_rests_and_then_uses_a_fresh_connection(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToBroker(2))
    fixture.effects()
    fixture.links.closed(0, -1)
    fixture.ask(FetchRequest(), ToBroker(2), now=1)
    assert fixture.effects() == [], "it rests"
    due = fixture.links.deadline()
    assert 0 < due <= SECOND
    fixture.links.tick(due)
    assert fixture.effects() == [Connect(-2, "10.0.0.2", 9092)]


def test_the_rest_grows_with_failures_in_a_row_up_to_about_a_second(fixture: Fixture) -> None:
    now, rests = 0, []
    for _ in range(8):
        fixture.ask(FetchRequest(), ToBroker(2), now=now)
        fixture.links.tick(now)
        [connect] = fixture.connects()
        fixture.links.closed(now, connect.connection)
        fixture.ask(FetchRequest(), ToBroker(2), now=now)
        rests.append(fixture.links.deadline() - now)
        now = fixture.links.deadline()
        fixture.links.tick(now)
        [connect] = fixture.connects()
        fixture.links.closed(now, connect.connection)
        now += 2 * SECOND
    assert rests[0] < 100_000
    assert 500_000 <= rests[-1] <= 1_500_000


def test_a_request_past_its_deadline_ends_with_its_connection(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToBroker(2), timeout=SECOND)
    fixture.links.opened(0, -1)
    fixture.effects()
    assert fixture.links.deadline() == SECOND
    fixture.links.tick(SECOND)
    assert fixture.ends == [None]
    assert fixture.effects() == [Close(-1)]


@pytest.mark.parametrize(
    ("destination", "ends_at"), [(ToBroker(2), SECOND + 600_000), (ToVoter(101), SECOND + 600_000)]
)
def test_a_request_to_a_certain_node_has_its_whole_time_from_when_it_is_sent(
    fixture: Fixture, destination: Destination, ends_at: int
) -> None:
    """`worlds` seeds 1024500 and 1024821: a fetch waited for its connection, then for longer than was left."""
    fixture.ask(FetchRequest(), destination, timeout=SECOND)
    fixture.links.opened(600_000, -1)
    assert fixture.links.deadline() == ends_at
    fixture.links.tick(ends_at - 1)
    assert fixture.ends == []
    fixture.links.tick(ends_at)
    assert fixture.ends == [None]


def test_a_request_that_is_not_sent_in_its_time_ends(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToBroker(2), timeout=SECOND // 2)
    fixture.links.tick(SECOND // 2)
    assert fixture.ends == [None]


def test_a_request_to_the_active_controller_has_its_time_from_its_submission(fixture: Fixture) -> None:
    """Another may wait for the outcome: the client whose request was forwarded."""
    fixture.ask(heartbeat(), ToActiveController(), timeout=SECOND)
    fixture.links.opened(600_000, -1)
    assert fixture.links.deadline() == SECOND


def test_a_connection_that_is_not_established_in_time_is_given_up(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToBroker(2))
    fixture.effects()
    fixture.links.tick(CONNECT_TIMEOUT)
    assert fixture.ends == [None]
    assert fixture.effects() == [Close(-1)]


def test_an_unknown_address_is_looked_up_again_until_the_deadline(fixture: Fixture) -> None:
    fixture.directory.unknown.append(7)
    fixture.ask(FetchRequest(), ToBroker(7), timeout=SECOND)
    assert fixture.effects() == []
    fixture.directory.unknown.clear()
    fixture.links.tick(fixture.links.deadline())
    assert fixture.connects() == [Connect(-1, "10.0.0.7", 9092)]


def test_an_answer_to_nothing_closes_the_connection(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToBroker(2))
    fixture.links.opened(0, -1)
    fixture.effects()
    fixture.links.received(1, -1, b"\x00\x00\x00\x63")
    assert fixture.ends == [None]
    assert fixture.effects() == [Close(-1)]


def test_a_request_for_the_controller_waits_until_one_is_known(fixture: Fixture) -> None:
    fixture.directory.leader = None
    fixture.ask(heartbeat(), ToActiveController())
    assert fixture.effects() == []
    fixture.directory.leader = 102
    fixture.links.tick(fixture.links.deadline())
    assert fixture.connects() == [Connect(-1, "10.0.1.102", 9093)]


def test_a_request_for_the_controller_does_not_wait_for_the_address_of_one_that_leads_no_more(
    fixture: Fixture,
) -> None:
    """A removed voter has no address (`worlds` seed 996747). A request to that very voter goes on waiting for it."""
    fixture.directory.unknown = [101]
    fixture.ask(DELETION, ToActiveController())
    fixture.ask(heartbeat(), ToVoter(101))
    fixture.directory.leader = 102
    for now in range(0, SECOND // 2, SECOND // 20):
        fixture.links.tick(now)
    assert [one.host for one in fixture.connects()] == ["10.0.1.102"]
    fixture.directory.unknown = []
    fixture.links.tick(SECOND)
    assert "10.0.1.101" in [one.host for one in fixture.connects()] and not fixture.ends


def test_without_a_controller_the_request_ends_at_its_deadline(fixture: Fixture) -> None:
    fixture.directory.leader = None
    fixture.ask(heartbeat(), ToActiveController(), timeout=SECOND)
    now = 0
    while not fixture.ends and now < 2 * SECOND:
        now = fixture.links.deadline()
        fixture.links.tick(now)
    assert fixture.ends == [None]
    assert SECOND <= now < 2 * SECOND


@pytest.mark.parametrize(
    ("question", "refusal", "answer"),
    [
        (
            heartbeat(),
            BrokerHeartbeatResponse(error_code=int(ErrorCode.NOT_CONTROLLER)),
            BrokerHeartbeatResponse(is_fenced=False),
        ),
        (
            CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]),
            CreateTopicsResponse(topics=[CreatableTopicResult("t", error_code=int(ErrorCode.NOT_CONTROLLER))]),
            CreateTopicsResponse(topics=[CreatableTopicResult("t")]),
        ),
    ],
)
def test_a_controller_that_is_not_active_sends_the_request_on_to_the_next_leader(
    fixture: Fixture, question: Message, refusal: Message, answer: Message
) -> None:
    fixture.ask(question, ToActiveController())
    fixture.links.opened(0, -1)
    [_, send] = fixture.effects()
    fixture.answer(send, refusal)
    assert fixture.ends == []
    fixture.directory.leader = 102
    fixture.links.tick(fixture.links.deadline())
    [connect] = fixture.connects()
    assert connect.host == "10.0.1.102"
    fixture.links.opened(0, connect.connection)
    [send] = fixture.effects()
    fixture.answer(send, answer)
    assert fixture.ends == [answer]


def test_what_was_sent_and_lost_is_not_asked_again(fixture: Fixture) -> None:
    """MD-09: it may have been carried out."""
    fixture.ask(DELETION, ToActiveController())
    fixture.links.opened(0, -1)
    fixture.effects()
    fixture.links.closed(10, -1)
    assert fixture.ends == [None]
    fixture.links.tick(SECOND)
    assert fixture.connects() == []


def test_what_was_never_sent_is_asked_again(fixture: Fixture) -> None:
    fixture.ask(DELETION, ToActiveController())
    fixture.effects()
    fixture.links.closed(10, -1)
    assert fixture.ends == []
    fixture.links.tick(SECOND)
    assert len(fixture.connects()) == 1


@pytest.mark.parametrize("codes", [(ErrorCode.REQUEST_TIMED_OUT,), (ErrorCode.NOT_CONTROLLER, ErrorCode.NONE)])
def test_what_may_have_changed_something_is_not_asked_again(fixture: Fixture, codes: tuple[ErrorCode, ...]) -> None:
    fixture.ask(DELETION, ToActiveController())
    fixture.links.opened(0, -1)
    [_, send] = fixture.effects()
    answer = DeleteTopicsResponse(responses=[DeletableTopicResult("t", error_code=int(code)) for code in codes])
    fixture.answer(send, answer)
    assert fixture.ends == [answer]


def test_peers_are_asked_in_the_newest_version_their_listener_serves(fixture: Fixture) -> None:
    fixture.ask(FetchRequest(), ToBroker(2))
    fixture.ask(FetchRequest(), ToVoter(101))
    fixture.links.opened(0, -1)
    fixture.links.opened(0, -2)
    versions = [
        decode_request(b"".join(effect.chunks))[0].api_version
        for effect in fixture.effects()
        if isinstance(effect, Send)
    ]
    assert versions == [16, 17]


def test_dispatch_names_a_purpose_for_every_api_of_peers() -> None:
    from squall.nodes.node.dispatch import purpose_of

    assert purpose_of(heartbeat()) == "lifecycle"
    assert purpose_of(FetchRequest()) == "fetch"
    assert FetchRequest.API_KEY == ApiKey.FETCH
