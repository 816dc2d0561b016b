"""Request and response headers, and whole frames: header plus message.

Header versions follow from the message: flexible requests have header 2, others 1; flexible responses have header 1,
others 0, except that the response of ApiVersions always has header 0, so that any client can read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TypeVar

from squall.nodes.protocol.compiler import Buffer, decode_from, encode, is_flexible, skip_tags
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.schema import Message

_REQUEST = Struct(">hhih")
_CORRELATION = Struct(">i")
_API_VERSIONS = 18

AnyMessage = TypeVar("AnyMessage", bound=Message)


@dataclass(frozen=True, slots=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """A request frame, without its length."""
    name = client_id.encode() if client_id is not None else b""
    length = len(name) if client_id is not None else -1
    head = _REQUEST.pack(message.API_KEY, version, correlation_id, length) + name
    if is_flexible(type(message), version):
        head += b"\x00"
    return [head, *encode(message, version)]


def decode_request_header(frame: memoryview, flexible_from: dict[int, int]) -> tuple[RequestHeader, int]:
    """The header and where the message begins. `flexible_from` maps API keys to their first flexible version."""
    if len(frame) < _REQUEST.size:
        raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a request header")
    api_key, version, correlation_id, length = _REQUEST.unpack_from(frame)
    position = _REQUEST.size
    client_id = None
    if length >= 0:
        if position + length > len(frame):
            raise ProtocolError("the client id reaches beyond the frame")
        try:
            client_id = str(frame[position : position + length], "utf-8")
        except UnicodeDecodeError as trouble:
            raise ProtocolError(f"the client id is not UTF-8: {trouble}") from trouble
        position += length
    elif length != -1:
        raise ProtocolError(f"a client id of length {length}")
    if version >= flexible_from.get(api_key, 1 << 15):
        try:
            position = skip_tags(frame, position, len(frame))
        except IndexError as trouble:
            raise ProtocolError("the request header is cut off") from trouble
    return RequestHeader(api_key, version, correlation_id, client_id), position


def encode_response(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """A response frame, without its length."""
    head = _CORRELATION.pack(correlation_id)
    if message.API_KEY != _API_VERSIONS and is_flexible(type(message), version):
        head += b"\x00"
    return [head, *encode(message, version)]


def correlation_of(frame: Buffer) -> int:
    """The correlation id of a response frame."""
    if len(frame) < _CORRELATION.size:
        raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a response")
    correlation_id: int = _CORRELATION.unpack_from(frame)[0]
    return correlation_id


def decode_response(cls: type[AnyMessage], version: int, frame: Buffer) -> AnyMessage:
    """The message of a response frame; record fields are views of it."""
    view = memoryview(frame)
    position = _CORRELATION.size
    try:
        if cls.API_KEY != _API_VERSIONS and is_flexible(cls, version):
            position = skip_tags(view, position, len(view))
    except IndexError as trouble:
        raise ProtocolError("the response header is cut off") from trouble
    message, _ = decode_from(cls, version, view, position)
    return message
