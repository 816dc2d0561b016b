"""Messages are found in a stream however it is cut up, and handed on byte for byte."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st

from squall.nemesis.agent.rpc.rpc_frames import Asked, FrameScanner, Header

FETCH, PRODUCE = 1, 0


def request(api_key: int, correlation: int, body: bytes = b"", version: int = 12) -> bytes:
    content = struct.pack(">hhi", api_key, version, correlation) + body
    return struct.pack(">i", len(content)) + content


def response(correlation: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


requests = st.builds(
    request,
    st.integers(0, 80),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=300),
    st.integers(0, 17),
)
responses = st.builds(response, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=300))


def cut_up(stream: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(stream) + 1) for place in places} | {0, len(stream)})
    return [stream[start:end] for start, end in itertools.pairwise(ends)]


@given(st.lists(requests, max_size=6), st.lists(st.integers(0, 10_000), max_size=12))
def test_requests_are_found_wherever_the_stream_is_cut(messages: list[bytes], places: list[int]) -> None:
    scanner = FrameScanner(responses=False)
    pieces = [piece for part in cut_up(b"".join(messages), places) for piece in scanner.feed(part)]
    assert b"".join(piece.data for piece in pieces) == b"".join(messages)
    found = [piece.first for piece in pieces if piece.first]
    meant = [struct.unpack_from(">hhi", message, 4) for message in messages]
    assert found == [Header(correlation, key, version) for key, version, correlation in meant]
    assert sum(piece.last for piece in pieces) == len(messages)
    assert scanner.between_messages and scanner.rest() == b""


@given(st.lists(responses, max_size=6), st.lists(st.integers(0, 10_000), max_size=12))
def test_responses_are_found_wherever_the_stream_is_cut(messages: list[bytes], places: list[int]) -> None:
    scanner = FrameScanner(responses=True)
    pieces = [piece for part in cut_up(b"".join(messages), places) for piece in scanner.feed(part)]
    assert b"".join(piece.data for piece in pieces) == b"".join(messages)
    assert [piece.first.correlation for piece in pieces if piece.first] == [
        struct.unpack_from(">i", message, 4)[0] for message in messages
    ]


@given(requests, st.integers(0, 400))
def test_a_message_that_breaks_off_is_handed_on_all_the_same(message: bytes, length: int) -> None:
    scanner = FrameScanner(responses=False)
    passed = b"".join(piece.data for piece in scanner.feed(message[:length]))
    assert passed + scanner.rest() == message[:length]


@given(st.sampled_from([b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n", b"\x00\x00\x00\x03"]), st.binary())
def test_a_stream_that_is_not_kafkas_is_handed_on_unread(beginning: bytes, rest: bytes) -> None:
    scanner = FrameScanner(responses=False)
    pieces = scanner.feed(beginning) + scanner.feed(rest)
    assert b"".join(piece.data for piece in pieces) == beginning + rest
    assert scanner.foreign and not scanner.between_messages and not any(piece.first for piece in pieces)


def test_of_a_message_nothing_is_kept_back_once_its_header_is_there() -> None:
    scanner = FrameScanner(responses=False)
    (piece,) = scanner.feed(request(PRODUCE, 7, b"x" * 1000)[:500])
    assert len(piece.data) == 500 and piece.first == Header(7, PRODUCE, 12) and not piece.last


def test_an_answer_belongs_to_the_request_with_its_correlation_id() -> None:
    asked = Asked()
    for correlation, api_key in ((1, PRODUCE), (2, FETCH), (3, PRODUCE)):
        asked.note(Header(correlation, api_key, 1))
    assert asked.api_key_of(Header(2)) == FETCH
    assert len(asked) == 1, "what was asked before it and not answered never will be"
    assert asked.api_key_of(Header(9)) is None and len(asked) == 1
