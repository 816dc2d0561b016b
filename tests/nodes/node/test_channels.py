"""Request channels: order, backpressure, and what becomes of requests whose connection is gone."""

from __future__ import annotations

import gc
import sys

import pytest

from squall.nodes.node.channels import (
    FETCHES_MAX,
    IN_FLIGHT_MAX,
    PLAIN_REQUEST_MAX,
    QUEUED_BYTES_MAX,
    UNSENT_MAX,
    Connections,
    RequestChannel,
)
from squall.nodes.node.dispatch import BROKER_VERSIONS
from squall.nodes.node.effects import Close, Effect, Pause, Resume, Send
from squall.nodes.node.memory_budget import PATIENCE, PAUSE, MemoryBudget
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataResponse
from squall.nodes.protocol.requests.headers import correlation_id_of, encode_request
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message

PRODUCE = bytes(2)
"""The API key that begins its frame."""


class Fixture:
    """One channel of four, fed by the listener PLAINTEXT."""

    def __init__(self, capacity: int = 4) -> None:
        self.outbox: list[Effect] = []
        self.channel = RequestChannel("data", capacity)
        self.connections = Connections({"PLAINTEXT": self.channel}, {"PLAINTEXT": BROKER_VERSIONS}, self.outbox)
        self._correlation = 0

    def open(self, connection: int) -> None:
        self.connections.opened(0, connection, "PLAINTEXT")

    def send(self, connection: int) -> int:
        self._correlation += 1
        frame = b"".join(encode_request(ApiKey.METADATA, 12, self._correlation, "client", MetadataRequest()))
        self.connections.received(0, connection, frame)
        return self._correlation

    def take(self) -> ServerRequest:
        inbound = self.channel.take()
        assert inbound is not None
        return self.connections.decode(0, inbound)

    def answers(self) -> list[tuple[int, int]]:
        """(connection, correlation id) of what was sent, in order."""
        return [
            (effect.connection, correlation_id_of(b"".join(effect.chunks)))
            for effect in self.outbox
            if isinstance(effect, Send)
        ]


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_requests_are_taken_in_the_order_they_came_from_all_connections(fixture: Fixture) -> None:
    fixture.open(1)
    fixture.open(2)
    sent = [fixture.send(1), fixture.send(2), fixture.send(1)]
    assert [fixture.take().correlation_id for _ in sent] == sent
    assert fixture.channel.take() is None


def test_answers_leave_a_connection_in_request_order(fixture: Fixture) -> None:
    fixture.open(1)
    first, second, third = fixture.send(1), fixture.send(1), fixture.send(1)
    requests = [fixture.take() for _ in range(3)]
    requests[2].respond(MetadataResponse())
    requests[1].respond(MetadataResponse())
    assert fixture.answers() == []
    requests[0].respond(MetadataResponse())
    assert fixture.answers() == [(1, first), (1, second), (1, third)]


def test_a_slow_request_delays_only_its_own_connection(fixture: Fixture) -> None:
    fixture.open(1)
    fixture.open(2)
    fixture.send(1)
    other = fixture.send(2)
    fixture.take()
    fixture.take().respond(MetadataResponse())
    assert fixture.answers() == [(2, other)]


def test_silence_lets_the_next_answer_pass(fixture: Fixture) -> None:
    fixture.open(1)
    fixture.send(1)
    second = fixture.send(1)
    silent, spoken = fixture.take(), fixture.take()
    spoken.respond(MetadataResponse())
    silent.respond_nothing()
    assert fixture.answers() == [(1, second)]


def test_an_answered_request_lets_go_of_its_answer_without_the_collector(fixture: Fixture) -> None:
    """Answers to fetches hold megabytes of records, and the shell lets the collector run seldom."""
    fixture.open(1)
    fixture.send(1)
    response = MetadataResponse()
    held = sys.getrefcount(response)
    gc.disable()
    try:
        fixture.take().respond(response)
        assert sys.getrefcount(response) == held
    finally:
        gc.enable()


def test_a_full_channel_pauses_who_feeds_it_and_resumes_them_when_there_is_room(fixture: Fixture) -> None:
    fixture.open(1)
    fixture.open(2)
    for connection in (1, 1, 1, 1, 2):
        fixture.send(connection)
    assert fixture.outbox == [Pause(1), Pause(2)]
    fixture.outbox.clear()
    for expected in ([], [Resume(1)], [Resume(1), Resume(2)]):
        fixture.channel.take()
        fixture.connections.relieve(fixture.channel)
        assert fixture.outbox == expected


def test_a_paused_connection_is_resumed_although_others_keep_the_channel_more_than_half_full() -> None:
    """CL-02: what is paused gets its turn. Connection 2 feeds the channel as fast as it is served."""
    fixture = Fixture(capacity=10)
    fixture.open(1)
    fixture.open(2)
    for connection in (*(2,) * 9, 1):
        fixture.send(connection)
    assert fixture.outbox == [Pause(1)]
    fixture.channel.take()
    for _ in range(10):
        fixture.channel.take()
        fixture.send(2)
        fixture.connections.relieve(fixture.channel)
    assert fixture.outbox == [Pause(1), Resume(1)]


def test_as_many_are_resumed_as_there_is_room_first_paused_first() -> None:
    fixture = Fixture(capacity=10)
    for connection in range(1, 16):
        fixture.open(connection)
        fixture.send(connection)
    assert fixture.outbox == [Pause(connection) for connection in range(10, 16)]
    fixture.outbox.clear()
    for expected in ([], [], [], [], [], [10], [11, 12], [13, 14, 15]):
        fixture.channel.take()
        fixture.connections.relieve(fixture.channel)
        assert fixture.outbox == [Resume(connection) for connection in expected]
        fixture.outbox.clear()


def test_a_connection_with_too_many_open_requests_pauses_until_half_end() -> None:
    fixture = Fixture(capacity=10_000)
    fixture.open(1)
    for _ in range(IN_FLIGHT_MAX):
        fixture.send(1)
    assert fixture.outbox == [Pause(1)]
    for _ in range(IN_FLIGHT_MAX // 2 - 1):
        fixture.take().respond(MetadataResponse())
    assert Resume(1) not in fixture.outbox
    fixture.take().respond(MetadataResponse())
    assert fixture.outbox.count(Resume(1)) == 1


def test_a_connection_paused_by_both_bounds_is_resumed_in_the_end() -> None:
    """It is looked at again until neither bound holds it."""
    fixture = Fixture(capacity=IN_FLIGHT_MAX)
    fixture.open(1)
    fixture.open(2)
    for _ in range(IN_FLIGHT_MAX):
        fixture.send(1)
    taken = [fixture.take() for _ in range(IN_FLIGHT_MAX)]
    fixture.connections.relieve(fixture.channel)
    for _ in range(IN_FLIGHT_MAX):
        fixture.send(2)
    for request in taken:
        request.respond(MetadataResponse())
    assert Resume(1) not in fixture.outbox, "the channel is full by now"
    while fixture.channel.take() is not None:
        pass
    fixture.connections.relieve(fixture.channel)
    assert Resume(1) in fixture.outbox


class TestBounds:
    """What one connection can make a node hold."""

    def send(self, fixture: Fixture, message: Message, connection: int = 1) -> None:
        version = BROKER_VERSIONS[message.API_KEY][1]
        fixture.connections.received(0, connection, b"".join(encode_request(message.API_KEY, version, 0, "c", message)))

    def fetches(self, count: int) -> Fixture:
        """A connection with so many fetches in its pipeline."""
        fixture = Fixture(capacity=10_000)
        fixture.open(1)
        for _ in range(count):
            self.send(fixture, FetchRequest())
        return fixture

    def served(self, fixture: Fixture) -> list[ServerRequest]:
        found = []
        while (inbound := fixture.channel.take()) is not None:
            found.append(fixture.connections.decode(0, inbound))
        return found

    def big(self, size: int = 50 << 20) -> FetchResponse:
        records = memoryview(bytes(size))
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)])])

    def held_bytes(self, fixture: Fixture) -> int:
        return sum(len(chunk) for effect in fixture.outbox if isinstance(effect, Send) for chunk in effect.chunks)

    def test_only_so_many_fetches_are_looked_at_before_one_is_answered(self) -> None:
        fixture = self.fetches(10)
        first, second = self.served(fixture)
        assert self.served(fixture) == []
        first.respond(FetchResponse())
        assert len(self.served(fixture)) == 1
        second.respond(FetchResponse())

    def test_a_peer_that_never_reads_makes_the_node_hold_at_most_the_bound(self) -> None:
        """Sixty fetches of fifty megabytes each, and a socket that takes nothing."""
        fixture = self.fetches(60)
        for _ in range(100):
            for request in self.served(fixture):
                request.respond(self.big())
            fixture.connections.stalled(1, True)
            fixture.connections.drained()
        assert self.held_bytes(fixture) <= UNSENT_MAX + FETCHES_MAX * (51 << 20)

    def test_it_is_served_on_once_it_listens_again(self) -> None:
        fixture = self.fetches(3)
        for request in self.served(fixture):
            request.respond(self.big(UNSENT_MAX))
        fixture.connections.stalled(1, True)
        fixture.connections.drained()
        assert self.served(fixture) == []
        fixture.connections.stalled(1, False)
        assert len(self.served(fixture)) == 1

    def test_a_full_turn_asks_for_another_once_the_outbox_is_drained(self) -> None:
        fixture = self.fetches(3)
        first, second = self.served(fixture)
        first.respond(self.big(UNSENT_MAX))
        assert self.served(fixture) == []
        assert fixture.connections.any_released
        fixture.connections.drained()
        assert len(self.served(fixture)) == 1
        second.respond(FetchResponse())

    def test_others_are_served_meanwhile(self) -> None:
        fixture = self.fetches(10)
        fixture.connections.stalled(1, True)
        fixture.open(2)
        self.send(fixture, FetchRequest(), connection=2)
        assert [request.connection for request in self.served(fixture)] == [2]

    def test_requests_are_served_in_the_order_they_came_although_some_were_held(self) -> None:
        fixture = Fixture(capacity=10_000)
        fixture.open(1)
        for wait in range(5):
            self.send(fixture, FetchRequest(max_wait_ms=wait))
        seen = []
        while requests := self.served(fixture):
            for request in requests:
                assert isinstance(request.body, FetchRequest)
                seen.append(request.body.max_wait_ms)
                request.respond(FetchResponse())
        assert seen == [0, 1, 2, 3, 4]

    def test_a_connection_with_too_many_bytes_that_nobody_has_looked_at_is_paused(self) -> None:
        fixture = Fixture(capacity=10_000)
        fixture.open(1)
        fixture.connections.received(0, 1, PRODUCE + bytes(QUEUED_BYTES_MAX - 10))
        assert fixture.outbox == []
        self.send(fixture, MetadataRequest())
        assert fixture.outbox == [Pause(1)]

    def test_a_channel_is_full_by_bytes_too(self) -> None:
        """`queued.max.request.bytes`."""
        outbox: list[Effect] = []
        channel = RequestChannel("data", 500, bytes_max=1000)
        connections = Connections({"PLAINTEXT": channel}, {"PLAINTEXT": BROKER_VERSIONS}, outbox)
        for connection in (1, 2, 3):
            connections.opened(0, connection, "PLAINTEXT")
            connections.received(0, connection, PRODUCE + bytes(500))
        assert outbox == [Pause(2), Pause(3)]
        channel.take()
        channel.take()
        assert channel.bytes == 502
        channel.take()
        connections.relieve(channel)
        assert outbox[2:] == [Resume(2), Resume(3)]

    def test_a_long_request_without_records_is_refused_before_it_is_decoded(self) -> None:
        fixture = Fixture()
        fixture.open(1)
        fixture.connections.received(0, 1, bytes([0, 3]) + bytes(PLAIN_REQUEST_MAX))
        inbound = fixture.channel.take()
        assert inbound is not None
        with pytest.raises(ProtocolError, match="only Produce"):
            fixture.connections.decode(0, inbound)


def test_what_a_closed_connection_still_wanted_is_dropped(fixture: Fixture) -> None:
    fixture.open(1)
    fixture.open(2)
    fixture.send(1)
    fixture.send(1)
    kept = fixture.send(2)
    parked = fixture.take()
    fixture.connections.closed(1)
    assert parked.closed
    assert fixture.take().correlation_id == kept, "the queued one of the closed connection is passed over"
    parked.respond(MetadataResponse())
    assert fixture.answers() == []


def test_a_frame_that_cannot_be_decoded_is_an_error_for_its_connection_alone(fixture: Fixture) -> None:
    fixture.open(1)
    fixture.connections.received(0, 1, b"\x00\x03\x00")
    inbound = fixture.channel.take()
    assert inbound is not None
    with pytest.raises(ProtocolError):
        fixture.connections.decode(0, inbound)
    fixture.connections.drop(inbound.connection)
    assert fixture.outbox == [Close(1)]
    assert len(fixture.connections) == 0


def test_a_request_may_end_its_connection(fixture: Fixture) -> None:
    fixture.open(1)
    fixture.send(1)
    later = fixture.send(1)
    request = fixture.take()
    request.close_connection()
    assert fixture.outbox == [Close(1)]
    assert fixture.channel.take() is None, f"request {later} went with its connection"


def test_counters_tell_how_deep_a_channel_was(fixture: Fixture) -> None:
    fixture.open(1)
    for _ in range(5):
        fixture.send(1)
    assert (fixture.channel.received, fixture.channel.depth_max, fixture.channel.pauses) == (5, 5, 1)


# -- idle connections ------------------------------------------------------------------------------------------------


def idle_fixture(idle_max: int) -> Fixture:
    made = Fixture()
    made.connections = Connections(
        {"PLAINTEXT": made.channel}, {"PLAINTEXT": BROKER_VERSIONS}, made.outbox, idle_max=idle_max
    )
    return made


def test_a_connection_that_asks_nothing_for_too_long_is_closed_and_counted() -> None:
    """`connections.max.idle.ms`; CL-18 counts them by plane."""
    fixture = idle_fixture(100)
    fixture.open(1)
    assert fixture.connections.idle_due == 100
    fixture.connections.expire(99)
    assert fixture.outbox == []
    fixture.connections.expire(100)
    assert fixture.outbox == [Close(1)]
    assert fixture.channel.expired == 1
    assert fixture.connections.idle_due == 2**63 - 1, "nobody is left to watch"


def test_a_request_renews_its_connection_and_a_pending_answer_keeps_it() -> None:
    fixture = idle_fixture(100)
    fixture.open(1)
    fixture.open(2)
    fixture.send(1)
    request = fixture.take()
    fixture.connections.expire(100)
    assert fixture.outbox == [Close(2)]
    fixture.connections.expire(250)
    assert fixture.outbox == [Close(2)], "a parked request holds its connection"
    request.respond(MetadataResponse())
    fixture.connections.expire(fixture.connections.idle_due)
    assert fixture.outbox[-1] == Close(1)


class TestMemory:
    """One budget for all that a plane's connections make a node hold (KIP-72)."""

    def made(self, limit: int) -> tuple[Connections, RequestChannel, list[Effect]]:
        outbox: list[Effect] = []
        channel = RequestChannel("data", 100, budget=MemoryBudget(limit))
        connections = Connections({"PLAINTEXT": channel}, {"PLAINTEXT": BROKER_VERSIONS}, outbox)
        for connection in (1, 2, 3):
            connections.opened(0, connection, "PLAINTEXT")
        return connections, channel, outbox

    def test_whoever_adds_to_a_budget_used_up_is_read_from_no_more(self) -> None:
        connections, channel, outbox = self.made(1000)
        connections.host_holds(1, 600)
        connections.received(0, 2, PRODUCE + bytes(300))
        assert outbox == []
        connections.host_holds(1, 900)
        assert outbox == [Pause(1)]
        connections.received(0, 3, PRODUCE)
        assert outbox == [Pause(1), Pause(3)]
        connections.host_holds(1, 0)
        connections.relieve(channel)
        assert sorted(one.connection for one in outbox[2:] if isinstance(one, Resume)) == [1, 3]

    def test_a_closed_connection_holds_nothing(self) -> None:
        connections, channel, _ = self.made(1000)
        connections.host_holds(1, 600)
        connections.received(0, 1, PRODUCE + bytes(300))
        connections.closed(1)
        assert channel.budget.used == 0

    def test_the_largest_holder_goes_when_there_has_been_no_room_for_long(self) -> None:
        connections, channel, outbox = self.made(1000)
        connections.host_holds(1, 400)
        connections.host_holds(2, 700)
        for now in (0, PATIENCE - 1):
            connections.make_room(now, channel)
            assert Close(2) not in outbox
        connections.make_room(PATIENCE, channel)
        assert [one for one in outbox if isinstance(one, Close)] == [Close(2)]
        assert channel.budget.used == 400
        assert "queued.max.request.bytes" in connections.notices[0]
        connections.make_room(PATIENCE * 3, channel)
        assert [one for one in outbox if isinstance(one, Close)] == [Close(2)], "there is room again"

    def test_of_many_small_holders_as_many_go_as_make_a_share_of_the_whole(self) -> None:
        """One at a time, a thousand connections would keep others waiting for minutes."""
        connections, channel, outbox = self.made(16_000)
        for number in range(100, 200):
            connections.opened(0, number, "PLAINTEXT")
            connections.host_holds(number, 160)
        connections.make_room(0, channel)
        connections.make_room(PATIENCE, channel)
        closed = [one for one in outbox if isinstance(one, Close)]
        assert len(closed) == channel.evicted == 7, "a sixteenth, or slightly more"
        assert len(connections.notices) == 1

    @pytest.mark.parametrize("later, patience", [(PATIENCE - 1, PAUSE), (PATIENCE, PATIENCE)])
    def test_a_flood_that_goes_on_finds_no_patience_a_second_time(self, later: int, patience: int) -> None:
        """Or forty connections with endless frames would keep others waiting for one patience after the other."""
        connections, channel, outbox = self.made(1000)
        connections.host_holds(1, 1000)
        connections.make_room(0, channel)
        connections.make_room(PATIENCE, channel)
        assert outbox[-1] == Close(1)
        connections.make_room(PATIENCE + 1, channel)
        connections.host_holds(2, 1000)
        again = PATIENCE + later
        connections.make_room(again, channel)
        connections.make_room(again + patience - 1, channel)
        assert Close(2) not in outbox
        assert channel.budget.due() == again + patience
        connections.make_room(again + patience, channel)
        assert Close(2) in outbox

    def test_who_waits_between_exhausted_and_room_does_not_wait_for_ever(self) -> None:
        """A few bytes were freed: too few to go on, and nobody who could free more."""
        connections, channel, outbox = self.made(1000)
        connections.host_holds(1, 900)
        connections.host_holds(2, 100)
        connections.make_room(0, channel)
        connections.closed(2)
        assert not channel.budget.is_exhausted
        connections.make_room(PATIENCE, channel)
        assert Close(1) in outbox

    def test_who_waited_for_memory_is_served_in_the_turn_that_frees_it(self) -> None:
        """Before the next turn those who go on would have filled it again."""
        connections, channel, outbox = self.made(1000)
        connections.host_holds(1, 1000)
        connections.received(0, 2, b"".join(encode_request(ApiKey.FETCH, 12, 1, "c", FetchRequest())))
        assert channel.take() is None
        connections.make_room(0, channel)
        connections.make_room(PATIENCE, channel)
        assert Close(1) in outbox and channel.take() is not None

    def test_what_is_freed_is_not_filled_again_before_there_is_room(self) -> None:
        """Or those that were never paused take it, and others wait for as long as there are any."""
        connections, channel, outbox = self.made(1000)
        connections.host_holds(1, 900)
        connections.host_holds(2, 100)
        connections.make_room(0, channel)
        connections.host_holds(2, 0)
        assert connections.is_short("PLAINTEXT") and not channel.budget.is_exhausted
        connections.host_holds(3, 50)
        assert Pause(3) in outbox
        connections.host_holds(1, 100)
        assert not connections.is_short("PLAINTEXT"), "there is room"

    def test_no_fetch_is_served_without_memory_for_its_answer(self) -> None:
        connections, channel, _ = self.made(1000)
        connections.host_holds(1, 1000)
        connections.received(0, 2, b"".join(encode_request(ApiKey.FETCH, 12, 1, "c", FetchRequest())))
        assert channel.take() is None
        connections.make_room(0, channel)
        connections.host_holds(1, 0)
        connections.make_room(1, channel)
        assert channel.take() is not None

    def test_what_a_request_takes_is_counted_until_its_answer_has_left(self) -> None:
        connections, channel, outbox = self.made(100_000)
        frame = b"".join(encode_request(ApiKey.METADATA, 12, 1, "c", MetadataRequest()))
        connections.received(0, 1, frame)
        assert channel.budget.used == len(frame)
        inbound = channel.take()
        assert inbound is not None
        connections.decode(0, inbound).respond(MetadataResponse(cluster_id="x" * 500))
        [sent] = [effect for effect in outbox if isinstance(effect, Send)]
        assert channel.budget.used == sum(map(len, sent.chunks))
        connections.drained()
        assert channel.budget.used == 0
