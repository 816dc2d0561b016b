"""Requests as components see them, and the sans-IO state of a connection: no sockets, no clocks.

A serving component receives a `ServerRequest` and responds once, now or later. A component that sends a request appends
an `OutboundRequest` to its list; `node/links.py` resolves the destination and sends it. `ClientSession` and
`ServerSession` hold the state of one connection: correlation ids and deadlines on the client side, versions on the
server side. `FrameReader` cuts a byte stream into frames.

Time is `now`, integer microseconds, always passed in. Any malformed input from a peer is a `ProtocolError`; the code
that catches it closes the connection, and the node continues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.nodes.protocol.compiler import NO_LIMIT, Buffer
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.messages import APIS, Api, ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from squall.nodes.protocol.requests import headers
from squall.nodes.protocol.schema import Message

_API_VERSIONS = int(ApiKey.API_VERSIONS)
MAX_FRAME = 100 << 20
"""Kafka's `socket.request.max.bytes`: a longer frame is refused before it is read."""


Complete = Callable[[int, Message | None], None]
"""Called once with (now, response); with None if no response came."""


# -- destinations and requests of components -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToBroker:
    """A broker, by id, on its inter-broker listener."""

    id: int


@dataclass(frozen=True, slots=True)
class ToVoter:
    """A controller of the quorum, by id."""

    id: int


@dataclass(frozen=True, slots=True)
class ToActiveController:
    """The leader of the metadata quorum at the time the request is sent."""


Destination = ToBroker | ToVoter | ToActiveController


@dataclass(slots=True, eq=False)
class OutboundRequest:
    """A request from a component to another node.

    `complete(now, response)` is called exactly once, with None on timeout or disconnect. `timeout` is in microseconds
    from the moment the node drains the request.
    """

    destination: Destination
    message: Message
    timeout: int
    complete: Complete


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request ended: with a response, without one (acks=0), or with the end of its connection."""

    response: Message | None = None
    close: bool = False


@dataclass(slots=True, eq=False)
class ServerRequest:
    """One request from a peer, to be answered once by one of the three methods below.

    `closed` is set when the connection has ended. A response to a closed request is ignored; a second response is a bug
    and raises. The owner of the connection sets `on_answer`, since responses leave in request order. A component that
    parks the request sets `on_close`, to drop it there.
    """

    api_key: int
    api_version: int
    body: Message
    client_id: str | None
    listener: str
    connection: int
    received_at: int
    correlation_id: int = 0
    closed: bool = False
    elements: int = 0
    """The number of items in all arrays of its body."""
    answer: Answer | None = None
    on_answer: Callable[[ServerRequest], None] | None = field(default=None, repr=False)
    on_close: Callable[[], None] | None = field(default=None, repr=False)

    def respond(self, response: Message) -> None:
        self._settle(Answer(response=response))

    def respond_nothing(self) -> None:
        """End the request without a response (acks=0)."""
        self._settle(Answer())

    def close_connection(self) -> None:
        self._settle(Answer(close=True))

    def _settle(self, answer: Answer) -> None:
        if self.answer is not None:
            raise RuntimeError(f"request {self.correlation_id} of connection {self.connection} is answered twice")
        self.answer = answer
        self.on_close = None
        if not self.closed and self.on_answer is not None:
            self.on_answer(self)

    def close(self) -> None:
        """The connection has ended: no response will be sent. Idempotent."""
        self.closed = True
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()

    def chunks(self) -> list[Buffer]:
        """The response as a frame; empty if there is none to send."""
        if self.answer is None or self.answer.response is None:
            return []
        return headers.encode_response(self.api_key, self.api_version, self.correlation_id, self.answer.response)


# -- the server side -----------------------------------------------------------------------------------------------

Versions = Mapping[int, tuple[int, int]]
"""Which API keys a listener serves, and which versions of each."""


class ServerSession:
    """The server side of one connection: its listener and the versions that it serves.

    `received` returns a request for a component, or handles the frame itself: an ApiVersions request of an unknown
    version gets a response in version 0 with error 35 and the table of versions, as in Kafka, so that any client can
    find a common version. Any other unserved request is a ProtocolError, which ends the connection.
    """

    def __init__(self, connection: int, listener: str, versions: Versions) -> None:
        self.connection = connection
        self.listener = listener
        self.versions = versions

    def received(self, now: int, frame: Buffer, elements_max: int = NO_LIMIT) -> ServerRequest:
        """Decode the request in a frame; `request.answer` is already set if its version was refused.

        Raises ProtocolError, also for a request whose arrays have more than `elements_max` items in all.
        """
        header, body = headers.parse_request_header(frame)
        first, last = self._served(header.api_key)
        if header.api_key == _API_VERSIONS and not first <= header.api_version <= last:
            return self._downgraded(now, header)
        if not first <= header.api_version <= last:
            raise ProtocolError(
                f"{ApiKey(header.api_key).name} v{header.api_version} is not served on listener {self.listener}, "
                f"which serves v{first} to v{last}"
            )
        left = [elements_max]
        message = headers.decode_request_body(header, body, left)
        request = self._request(now, header, header.api_version, message)
        request.elements = elements_max - left[0]
        return request

    def _served(self, api_key: int) -> tuple[int, int]:
        try:
            return self.versions[api_key]
        except KeyError:
            raise ProtocolError(f"API key {api_key} is not served on listener {self.listener}") from None

    def _downgraded(self, now: int, header: headers.RequestHeader) -> ServerRequest:
        request = self._request(now, header, 0, Message())
        request.respond(api_versions_response(self.versions, ErrorCode.UNSUPPORTED_VERSION))
        return request

    def _request(self, now: int, header: headers.RequestHeader, version: int, body: Message) -> ServerRequest:
        return ServerRequest(
            header.api_key,
            version,
            body,
            header.client_id,
            self.listener,
            self.connection,
            now,
            header.correlation_id,
        )


def api_versions_response(versions: Versions, error: int = 0) -> ApiVersionsResponse:
    """The versions that a listener serves, ordered by API key."""
    table = [
        ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in sorted(versions.items())
    ]
    return ApiVersionsResponse(error_code=int(error), api_keys=table)


# -- the client side -----------------------------------------------------------------------------------------------


class _Sent(NamedTuple):
    correlation_id: int
    api: Api
    version: int
    sent_at: int
    deadline: int
    complete: Complete


class ClientSession:
    """The client side of one connection: its outstanding requests.

    Responses arrive in the order of requests; any other order is a ProtocolError. Every `complete` is called exactly
    once: with the response, or with None when its deadline passes or the connection ends. A request whose deadline
    passes ends the connection (`expired` reports it), because its response may still come and block the others.
    """

    def __init__(self, client_id: str | None, first_id: int = 0) -> None:
        """`first_id` is the correlation id of the first request, 0 to 2**31 - 1."""
        self.client_id = client_id
        self._next_id = first_id
        self._sent: deque[_Sent] = deque()

    def __len__(self) -> int:
        """The number of outstanding requests."""
        return len(self._sent)

    def outstanding(self) -> list[int]:
        """The API keys of the outstanding requests, oldest first."""
        return [sent.api.key for sent in self._sent]

    @property
    def next_id(self) -> int:
        """The correlation id of the next request."""
        return self._next_id

    def send(self, message: Message, version: int, now: int, deadline: int, complete: Complete) -> list[Buffer]:
        """Return a request's frame; `complete(now, response)` is called with its response. Raises ProtocolError."""
        api = APIS[message.API_KEY]
        chunks = self._encode(message, version)
        self._sent.append(_Sent(self._next_id, api, version, now, deadline, complete))
        self._advance()
        return chunks

    def send_only(self, message: Message, version: int) -> list[Buffer]:
        """Return the frame of a request that has no response (acks=0)."""
        chunks = self._encode(message, version)
        self._advance()
        return chunks

    def _encode(self, message: Message, version: int) -> list[Buffer]:
        return headers.encode_request(message.API_KEY, version, self._next_id, self.client_id, message)

    def _advance(self) -> None:
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF

    def received(self, now: int, frame: Buffer) -> None:
        """Pass a response to the `complete` of its request. Raises ProtocolError; the caller then closes the
        connection.
        """
        correlation_id = headers.correlation_id_of(frame)
        if not self._sent:
            raise ProtocolError(f"a response with correlation id {correlation_id} to no request")
        sent = self._sent[0]
        if sent.correlation_id != correlation_id:
            raise ProtocolError(f"a response with correlation id {correlation_id}, expected {sent.correlation_id}")
        _, response = headers.decode_response(sent.api.key, sent.version, frame)
        self._sent.popleft()
        sent.complete(now, response)

    def expired(self, now: int) -> tuple[int, int] | None:
        """Return API key and time of sending of a request that has waited past its deadline; None if none has.

        If there is one, the caller calls `closed` and closes the connection.
        """
        return next(((sent.api.key, sent.sent_at) for sent in self._sent if sent.deadline <= now), None)

    def deadline(self) -> int:
        """When the next request expires; 2**63-1 if none is outstanding."""
        nearest = 2**63 - 1
        for sent in self._sent:
            if sent.deadline < nearest:
                nearest = sent.deadline
        return nearest

    def closed(self, now: int) -> None:
        """The connection has ended: complete all outstanding requests with None."""
        while self._sent:
            self._sent.popleft().complete(now, None)


# -- framing -------------------------------------------------------------------------------------------------------


def frame_length(prefix: Buffer, limit: int = MAX_FRAME) -> int:
    """The length of a frame from its four-byte prefix. Raises ProtocolError if it is negative or above the limit."""
    length = int.from_bytes(prefix[:4], "big", signed=True)
    if not 0 <= length <= limit:
        raise ProtocolError(f"a frame of {length} bytes; the limit is {limit}")
    return length


class FrameReader:
    """Cuts a stream of bytes into frames, for hosts that read whole chunks. Memory is bounded by limit plus one chunk.

    `feed` yields the frames that a chunk completes. A frame within one chunk is a view of it, so the chunk must not be
    changed while the frame is in use.
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._needed = 4

    def feed(self, chunk: Buffer) -> Iterator[memoryview]:
        """Yield the frames that are complete now. Raises ProtocolError, after which the reader is unusable."""
        view = memoryview(chunk)
        position = 0
        while self._pending:
            taken = min(self._needed - len(self._pending), len(view) - position)
            self._pending += view[position : position + taken]
            position += taken
            if len(self._pending) < self._needed:
                return
            self._needed = 4 + frame_length(self._pending, self._limit)
            if len(self._pending) == self._needed:
                frame, self._pending, self._needed = self._pending, bytearray(), 4
                yield memoryview(frame)[4:]
        while len(view) - position >= 4:
            end = position + 4 + frame_length(view[position : position + 4], self._limit)
            if end > len(view):
                self._needed = end - position
                break
            yield view[position + 4 : end]
            position = end
        self._pending += view[position:]
