"""Request and response headers, against kafka-python's and by hand."""

from __future__ import annotations

import pytest
from kafka.protocol.api_header import RequestHeader as TheirRequestHeader

from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataResponse
from squall.nodes.protocol.requests import headers


def request_frame(version: int, client_id: str | None = "me") -> bytes:
    return b"".join(headers.encode_request(ApiKey.METADATA, version, 77, client_id, MetadataRequest()))


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("client_id", ["me", "", None, "naïve"])
def test_a_request_comes_back_with_its_header(version: int, client_id: str | None) -> None:
    header, message = headers.decode_request(request_frame(version, client_id))
    assert header == headers.RequestHeader(ApiKey.METADATA, version, 77, client_id)
    assert message == MetadataRequest()


@pytest.mark.parametrize("version", [8, 9])
def test_a_kafka_client_writes_the_same_header(version: int) -> None:
    theirs = TheirRequestHeader(
        request_api_key=3, request_api_version=version, correlation_id=77, client_id="me"
    ).encode(flexible=version >= 9)
    assert request_frame(version).startswith(bytes(theirs))


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    frame = request_frame(9)
    with_tag = frame[:12] + b"\x01\x2a\x03abc" + frame[13:]
    assert headers.decode_request(with_tag) == headers.decode_request(frame)


@pytest.mark.parametrize("version", [8, 9])
def test_bytes_after_a_request_are_ignored(version: int) -> None:
    """librdkafka leaves three behind a Metadata request for all topics; Kafka does not mind."""
    assert headers.decode_request(request_frame(version) + b"\x00\x00\x00") == headers.decode_request(
        request_frame(version)
    )


def test_a_flexible_response_has_a_tag_section_in_its_header() -> None:
    old = b"".join(headers.encode_response(ApiKey.METADATA, 8, 77, MetadataResponse()))
    new = b"".join(headers.encode_response(ApiKey.METADATA, 9, 77, MetadataResponse()))
    assert old[:8] == b"\x00\x00\x00\x4d" + b"\x00\x00\x00\x00"
    assert new[:9] == b"\x00\x00\x00\x4d" + b"\x00" + b"\x00\x00\x00\x00"
    for version, frame in ((8, old), (9, new)):
        assert headers.decode_response(ApiKey.METADATA, version, frame) == (77, MetadataResponse())


def test_the_response_of_another_api_is_a_bug_and_not_sent() -> None:
    with pytest.raises(TypeError, match="ApiVersionsResponse is no response of METADATA"):
        headers.encode_response(ApiKey.METADATA, 9, 77, ApiVersionsResponse())


def test_the_response_of_api_versions_always_has_header_0() -> None:
    frame = b"".join(headers.encode_response(ApiKey.API_VERSIONS, 3, 5, ApiVersionsResponse(error_code=35)))
    assert frame[:6] == b"\x00\x00\x00\x05" + b"\x00\x23"
    assert headers.decode_response(ApiKey.API_VERSIONS, 3, frame)[1] == ApiVersionsResponse(error_code=35)


def test_the_request_of_api_versions_has_a_flexible_header() -> None:
    frame = b"".join(headers.encode_request(ApiKey.API_VERSIONS, 3, 5, None, ApiVersionsRequest("a", "1")))
    assert frame[8:11] == b"\xff\xff\x00"
    assert headers.decode_request(frame)[1] == ApiVersionsRequest("a", "1")


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (b"", "too short"),
        (b"\x00\x03\x00\x08\x00\x00\x00", "too short"),
        (b"\x00\x03\x00\x08\x00\x00\x00\x01\x00\x09me", "client id of length 9"),
        (b"\x00\x03\x00\x08\x00\x00\x00\x01\xff\xfe", "client id of length -2"),
        (b"\x00\x03\x00\x08\x00\x00\x00\x01\x00\x02\xff\xff", "not UTF-8"),
        (b"\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff", "cut off"),
        (b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff", "API key 999"),
        (b"\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff", "METADATA v99 is not spoken here, only v0 to v12"),
        (b"\x00\x03\xff\xff\x00\x00\x00\x01\xff\xff", "METADATA v-1"),
    ],
)
def test_a_malformed_request_is_refused(frame: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        headers.decode_request(frame)


def test_a_malformed_response_is_refused() -> None:
    whole = b"".join(headers.encode_response(ApiKey.METADATA, 9, 77, MetadataResponse()))
    for frame in (b"", whole[:3], whole[:4], whole[:-1], whole + b"\x00"):
        with pytest.raises(ProtocolError):
            headers.decode_response(ApiKey.METADATA, 9, frame)
