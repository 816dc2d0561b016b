"""Encode and decode request and response headers, and whole frames: header plus message.

The message determines the header version. A flexible request has header 2, any other header 1 (version 0, without a
client id, belonged to requests that no longer exist). A flexible response has header 1, any other header 0; but the
response of ApiVersions always has header 0, so that a client can read it before it knows the node's versions.

Frames here do not include their four-byte length; hosts do the framing.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from squall.nodes.protocol.compiler import decode_from, encode
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.messages import APIS, Api, ApiKey
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.wire import Buffer, skip_tags

_REQUEST = Struct(">hhih")
_CORRELATION = Struct(">i")
_NO_TAGS = b"\x00"
_API_VERSIONS = int(ApiKey.API_VERSIONS)


class RequestHeader(NamedTuple):
    """API, version, the correlation id that the response must carry, and the client's name."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


# -- requests ------------------------------------------------------------------------------------------------------


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> list[Buffer]:
    """A request frame as a list of buffers."""
    body = encode(message, version)
    name = b"" if client_id is None else client_id.encode()
    head = _REQUEST.pack(api_key, version, correlation_id, -1 if client_id is None else len(name)) + name
    if version >= message.FLEXIBLE_FROM:
        head += _NO_TAGS
    return [head, *body]


def parse_request_header(frame: Buffer) -> tuple[RequestHeader, memoryview]:
    """Return the header, for any API and version, and the rest of the frame.

    The rest begins with the header's tagged fields if the request is flexible. Only the API's entry states that, so
    `decode_request_body` skips them.
    """
    view = memoryview(frame)
    if len(view) < _REQUEST.size:
        raise ProtocolError(f"a frame of {len(view)} bytes is too short for a request header")
    api_key, version, correlation_id, length = _REQUEST.unpack_from(view)
    position = _REQUEST.size
    if length < 0:
        if length != -1:
            raise ProtocolError(f"a client id of length {length}")
        return RequestHeader(api_key, version, correlation_id, None), view[position:]
    end = position + length
    if end > len(view):
        raise ProtocolError(f"a client id of length {length} where {len(view) - position} bytes are left")
    try:
        client_id = str(view[position:end], "utf-8")
    except UnicodeDecodeError as trouble:
        raise ProtocolError(f"the client id is not UTF-8: {trouble}") from trouble
    return RequestHeader(api_key, version, correlation_id, client_id), view[end:]


def decode_request_body(header: RequestHeader, body: memoryview, left: list[int] | None = None) -> Message:
    """The message after a header; record fields are views of the frame. `left` is `compiler.decode_from`'s.

    Bytes after the message are ignored, as Kafka ignores them: librdkafka leaves three behind a Metadata request for
    all topics.
    """
    api_key, version, _, _ = header
    request = _api(api_key, version).request
    start = _after_header_tags(body, 0) if version >= request.FLEXIBLE_FROM else 0
    message, _ = decode_from(request, version, body, start, left)
    return message


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Header and message of a request frame of any API and version in the table."""
    header, body = parse_request_header(frame)
    return header, decode_request_body(header, body)


# -- responses -----------------------------------------------------------------------------------------------------


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> list[Buffer]:
    """A response frame as a list of buffers. Raises TypeError for the response of another API: that is a bug here."""
    if type(message) is not APIS[api_key].response:
        raise TypeError(f"{type(message).__name__} is no response of {APIS[api_key].key.name}")
    head = _CORRELATION.pack(correlation_id)
    if _response_is_flexible(api_key, type(message), version):
        head += _NO_TAGS
    return [head, *encode(message, version)]


def correlation_id_of(frame: Buffer) -> int:
    """The correlation id of a response frame."""
    if len(frame) < _CORRELATION.size:
        raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a response")
    return int(_CORRELATION.unpack_from(frame)[0])


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Message]:
    """Correlation id and message of a response frame; record fields are views of the frame."""
    correlation_id = correlation_id_of(frame)
    api = _api(api_key, version)
    view = memoryview(frame)
    position = _CORRELATION.size
    if _response_is_flexible(api_key, api.response, version):
        position = _after_header_tags(view, position)
    message, end = decode_from(api.response, version, view, position)
    if end != len(view):
        raise ProtocolError(f"{api.response.__name__} v{version}: {len(view) - end} bytes too many")
    return correlation_id, message


def _response_is_flexible(api_key: int, response: type[Message], version: int) -> bool:
    return api_key != _API_VERSIONS and version >= response.FLEXIBLE_FROM


def _api(api_key: int, version: int) -> Api:
    api = APIS.get(api_key)
    if api is None:
        raise ProtocolError(f"API key {api_key} is not spoken here")
    if not api.versions[0] <= version <= api.versions[1]:
        first, last = api.versions
        raise ProtocolError(f"{api.key.name} v{version} is not spoken here, only v{first} to v{last}")
    return api


def _after_header_tags(view: memoryview, position: int) -> int:
    try:
        if view[position] == 0:
            return position + 1
        return skip_tags(view, position, len(view))
    except IndexError as trouble:
        raise ProtocolError("the header is cut off") from trouble
