"""Finds Kafka's messages in a stream of bytes without understanding them.

A message is a length of four bytes and so many bytes. A request begins with API key, version and correlation id; its
response with the correlation id only, and responses keep the order of requests. Nothing else is read: the API of a
response follows from its request (`Asked`).

A scanner returns its input in pieces, none of which crosses the end of a message; the first piece of each message
carries its header. It holds back at most the beginning of a message whose header is incomplete. A stream that is not
Kafka's (TLS, HTTP) is recognised by a length that no message has, and is passed on unread.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass

_REQUEST = struct.Struct(">ihhi")
_RESPONSE = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")

LONGEST_MESSAGE = 256 << 20
"""More than any broker accepts (`socket.request.max.bytes` is 100 MiB); the first bytes of TLS and HTTP read as
more.
"""
MOST_UNANSWERED = 4096


@dataclass(frozen=True, slots=True)
class Header:
    """The part of a message's header that is read. For a response, API key and version are unknown."""

    correlation: int
    api_key: int | None = None
    api_version: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one message, or of a stream that is not Kafka's. Only the first piece of a message has `first`."""

    data: bytes
    first: Header | None
    last: bool


class FrameScanner:
    """Cuts one direction of a connection into pieces."""

    def __init__(self, *, responses: bool) -> None:
        self._header = _RESPONSE if responses else _REQUEST
        self._kept = b""
        self._left = 0
        self.foreign = False
        """Whether this turned out not to be Kafka's protocol."""

    @property
    def between_messages(self) -> bool:
        return not self._left and not self._kept and not self.foreign

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces that are complete enough to be passed on."""
        stream = self._kept + data if self._kept else data
        self._kept = b""
        pieces: list[Piece] = []
        position = 0
        while position < len(stream):
            first = None
            if self.foreign:
                pieces.append(Piece(stream[position:], None, False))
                break
            if not self._left:
                first = self._begin(stream, position)
                if self.foreign:
                    continue
                if first is None:
                    self._kept = stream[position:]
                    break
            taken = stream[position : position + self._left]
            self._left -= len(taken)
            position += len(taken)
            pieces.append(Piece(taken, first, not self._left))
        return pieces

    def rest(self) -> bytes:
        """The bytes held back of a message that will not continue."""
        kept, self._kept = self._kept, b""
        return kept

    def _begin(self, stream: bytes, position: int) -> Header | None:
        """The header of the message that begins here; None if it is incomplete or this is no message."""
        there = len(stream) - position
        if there < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(stream, position)
        if not self._header.size - _LENGTH.size <= length <= LONGEST_MESSAGE:
            self.foreign = True
            return None
        if there < self._header.size:
            return None
        self._left = _LENGTH.size + length
        fields = self._header.unpack_from(stream, position)
        return Header(fields[1]) if self._header is _RESPONSE else Header(fields[3], fields[1], fields[2])


class Asked:
    """The unanswered requests of one connection, in order.

    Some get no response (Produce with acks=0): a response to a later request shows it, because responses keep the
    order.
    """

    def __init__(self) -> None:
        self._open: deque[tuple[int, int]] = deque(maxlen=MOST_UNANSWERED)

    def __len__(self) -> int:
        return len(self._open)

    def note(self, request: Header) -> None:
        assert request.api_key is not None
        self._open.append((request.correlation, request.api_key))

    def api_key_of(self, response: Header) -> int | None:
        """The API key of the request that this answers; it and all earlier ones are removed. None if there is no such
        request.
        """
        if all(correlation != response.correlation for correlation, _ in self._open):
            return None
        while True:
            correlation, api_key = self._open.popleft()
            if correlation == response.correlation:
                return api_key
