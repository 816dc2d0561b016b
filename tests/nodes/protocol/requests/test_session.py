"""The pure halves of a connection: requests answered once, callbacks called once, frames cut right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataResponse
from squall.nodes.protocol.messages.produce import ProduceRequest
from squall.nodes.protocol.requests import headers
from squall.nodes.protocol.requests.session import (
    MAX_FRAME,
    ClientSession,
    FrameReader,
    ServerRequest,
    ServerSession,
    frame_length,
)
from squall.nodes.protocol.schema import Message
from tests.facts import naming

VERSIONS = {int(ApiKey.PRODUCE): (0, 12), int(ApiKey.METADATA): (0, 12), int(ApiKey.API_VERSIONS): (0, 4)}
FOREVER = 2**63 - 1


def frame_of(message: Message, version: int, correlation_id: int = 5) -> bytes:
    return b"".join(headers.encode_request(message.API_KEY, version, correlation_id, "me", message))


@pytest.fixture
def server() -> ServerSession:
    return ServerSession(41, "PLAINTEXT", VERSIONS)


# -- the answering half --------------------------------------------------------------------------------------------


def test_a_frame_becomes_a_request(server: ServerSession) -> None:
    request = server.received(1_000, frame_of(MetadataRequest(topics=None), 12))
    assert (request.api_key, request.api_version, request.client_id) == (ApiKey.METADATA, 12, "me")
    assert (request.connection, request.listener, request.received_at) == (41, "PLAINTEXT", 1_000)
    assert request.body == MetadataRequest(topics=None)
    assert not request.closed and request.answer is None


def test_an_answer_is_handed_to_whoever_keeps_the_connection(server: ServerSession) -> None:
    request = server.received(0, frame_of(MetadataRequest(), 12, correlation_id=9))
    told: list[ServerRequest] = []
    request.on_answer = told.append
    request.respond(MetadataResponse(controller_id=3))
    assert told == [request]
    assert headers.decode_response(ApiKey.METADATA, 12, b"".join(request.chunks())) == (
        9,
        MetadataResponse(controller_id=3),
    )


def test_a_request_may_end_in_silence_or_in_the_end_of_its_connection(server: ServerSession) -> None:
    silent = server.received(0, frame_of(ProduceRequest(acks=0), 9))
    silent.respond_nothing()
    fatal = server.received(0, frame_of(ProduceRequest(acks=0), 9))
    fatal.close_connection()
    assert silent.answer is not None and not silent.answer.close and silent.chunks() == []
    assert fatal.answer is not None and fatal.answer.close and fatal.chunks() == []


def test_a_second_answer_is_a_bug(server: ServerSession) -> None:
    request = server.received(0, frame_of(MetadataRequest(), 12))
    request.respond(MetadataResponse())
    with pytest.raises(RuntimeError, match="answered twice"):
        request.close_connection()


def test_the_answer_to_a_closed_connection_goes_nowhere(server: ServerSession) -> None:
    request = server.received(0, frame_of(MetadataRequest(), 12))
    told: list[ServerRequest] = []
    request.on_answer = told.append
    request.close()
    request.respond(MetadataResponse())
    assert told == []


@pytest.mark.parametrize("answered", [False, True])
def test_a_component_hears_once_that_a_connection_closed_on_an_open_request(
    server: ServerSession, answered: bool
) -> None:
    request = server.received(0, frame_of(MetadataRequest(), 12))
    heard: list[bool] = []
    request.on_close = lambda: heard.append(request.closed)
    if answered:
        request.respond(MetadataResponse())
    request.close()
    request.close()
    assert heard == ([] if answered else [True])


@pytest.mark.parametrize("version", [5, 99, -1])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(server: ServerSession, version: int) -> None:
    known = frame_of(ApiVersionsRequest("new", "9"), 4)
    frame = known[:2] + version.to_bytes(2, "big", signed=True) + known[4:] + b"what we cannot read"
    request = server.received(0, frame)
    assert request.answer is not None, "it is answered already"
    _, response = headers.decode_response(ApiKey.API_VERSIONS, 0, b"".join(request.chunks()))
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert {row.api_key: (row.min_version, row.max_version) for row in response.api_keys} == VERSIONS


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (frame_of(MetadataRequest(), 12)[:2] + b"\x00\x0d" + frame_of(MetadataRequest(), 12)[4:], "METADATA v13"),
        (b"\x00\x24" + frame_of(MetadataRequest(), 12)[2:], "API key 36 is not served on listener PLAINTEXT"),
        (frame_of(ProduceRequest(), 9)[:2] + b"\x00\x02" + frame_of(ProduceRequest(), 3)[4:], "only v3 to v12"),
        (frame_of(MetadataRequest(), 12)[:-1], "Metadata"),
        (b"GET / HTTP/1.1\r\n\r\n", "client id of length 21584"),
    ],
)
def test_what_a_listener_does_not_serve_is_a_protocol_error(server: ServerSession, frame: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        server.received(0, frame)


# -- the asking half -----------------------------------------------------------------------------------------------


class Caller:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, Message | None]] = []

    def __call__(self, now: int, response: Message | None) -> None:
        self.heard.append((now, response))


def answered(server: ServerSession, chunks: list, response: Message) -> bytes:
    request = server.received(0, b"".join(chunks))
    request.respond(response)
    return b"".join(request.chunks())


def test_responses_find_their_callers_in_order(server: ServerSession) -> None:
    client, first, second = ClientSession("me"), Caller(), Caller()
    frames = [client.send(MetadataRequest(), 12, 0, 100, caller) for caller in (first, second)]
    for number, frame in enumerate(frames):
        client.received(50 + number, answered(server, frame, MetadataResponse(controller_id=number)))
    assert first.heard == [(50, MetadataResponse(controller_id=0))]
    assert second.heard == [(51, MetadataResponse(controller_id=1))]
    assert len(client) == 0


def test_a_request_without_a_response_leaves_nothing_behind(server: ServerSession) -> None:
    client, caller = ClientSession("me"), Caller()
    assert server.received(0, b"".join(client.send_only(ProduceRequest(acks=0), 9))).correlation_id == 0
    frame = client.send(MetadataRequest(), 12, 0, 100, caller)
    client.received(1, answered(server, frame, MetadataResponse()))
    assert len(caller.heard) == 1


def test_a_response_out_of_order_or_to_nothing_is_a_protocol_error(server: ServerSession) -> None:
    client, caller = ClientSession("me"), Caller()
    client.send(MetadataRequest(), 12, 0, 100, caller)
    second = client.send(MetadataRequest(), 12, 0, 100, caller)
    with pytest.raises(ProtocolError, match="correlation id 1, expected 0"):
        client.received(1, answered(server, second, MetadataResponse()))
    with pytest.raises(ProtocolError, match="to no request"):
        ClientSession("me").received(1, b"\x00\x00\x00\x00")


def test_a_malformed_response_leaves_its_caller_to_the_end_of_the_connection(server: ServerSession) -> None:
    client, caller = ClientSession("me"), Caller()
    frame = client.send(MetadataRequest(), 12, 0, 100, caller)
    with pytest.raises(ProtocolError):
        client.received(1, answered(server, frame, MetadataResponse())[:-1])
    assert caller.heard == []
    client.closed(2)
    assert caller.heard == [(2, None)]


def test_every_caller_hears_of_the_end_of_the_connection_once() -> None:
    client, callers = ClientSession(None), [Caller(), Caller()]
    for caller in callers:
        client.send(MetadataRequest(), 12, 0, 100, caller)
    client.closed(7)
    client.closed(8)
    assert [caller.heard for caller in callers] == [[(7, None)], [(7, None)]]


def test_a_request_expires_at_its_deadline() -> None:
    client = ClientSession("me")
    assert client.deadline() == FOREVER and not client.expired(FOREVER)
    client.send(MetadataRequest(), 12, 0, 300, Caller())
    client.send(MetadataRequest(), 12, 0, 200, Caller())
    assert client.deadline() == 200
    assert not client.expired(199)
    assert client.expired(200)


def test_a_message_that_cannot_be_encoded_leaves_no_trace() -> None:
    client = ClientSession("me")
    with pytest.raises(ProtocolError):
        client.send(MetadataRequest(), 99, 0, 100, Caller())
    assert len(client) == 0


# -- framing -------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_frames_come_out_whole_however_the_bytes_arrive(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    reader, found, position, turn = FrameReader(), [], 0, 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        found += [bytes(frame) for frame in reader.feed(stream[position : position + size])]
        position, turn = position + size, turn + 1
    assert found == frames


def test_a_frame_within_one_chunk_is_not_copied() -> None:
    chunk = b"\x00\x00\x00\x03abc"
    (frame,) = FrameReader().feed(chunk)
    assert frame.obj is chunk


@pytest.mark.parametrize(
    "prefix", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", (MAX_FRAME + 1).to_bytes(4, "big"), b"GET "]
)
def test_a_frame_of_an_impossible_length_is_refused_before_it_is_read(prefix: bytes) -> None:
    with pytest.raises(ProtocolError, match=naming("104857600")):
        frame_length(prefix)
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(prefix))
    reader = FrameReader()
    assert list(reader.feed(prefix[:2])) == []
    with pytest.raises(ProtocolError):
        list(reader.feed(prefix[2:]))
    assert frame_length(MAX_FRAME.to_bytes(4, "big")) == MAX_FRAME
