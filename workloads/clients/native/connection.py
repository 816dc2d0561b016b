"""One Kafka connection of the native client: requests out, responses back, over a Connector's stream.

`nodes.protocol.requests.session.ClientSession` is the pure half, correlation and codecs; this module adds the waiting.
Several requests may be in flight; responses come in order. Every failure (refused, closed, a malformed frame) is an
OSError; a missing response is a TimeoutError, which is an OSError too. In both cases the connection is closed, because
a late response would be taken for that of another request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.requests.session import ClientSession
from squall.nodes.protocol.schema import Message
from squall.workloads.core.ports import Connector, Stream

NEVER = 2**63 - 1
CONNECT_SECONDS = 3.0
_LATE = Message()
"""Stands for a response that did not come in time."""

CLOSED = "closed by us"


class Closed(ConnectionError):
    """The client has ended and closed its connections: no other node is at fault."""


Response = TypeVar("Response", bound=Message)


class KafkaConnection:
    """A connection to one broker or controller; opened by `connect`."""

    def __init__(self, stream: Stream, client_id: str) -> None:
        self.stream = stream
        self.session = ClientSession(client_id)
        self.gone: str | None = None
        stream.listen(self._received, self.close)

    @classmethod
    async def connect(cls, connector: Connector, host: str, port: int, client_id: str) -> KafkaConnection:
        """Open a connection. Raises OSError if there is no response."""
        stream = await asyncio.wait_for(connector.connect(host, port), CONNECT_SECONDS)
        return cls(stream, client_id)

    async def request(self, message: Message, version: int, answer: type[Response], seconds: float) -> Response:
        """Send a request and wait for its response. Raises OSError."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Message | None] = loop.create_future()
        frame = self._frame(lambda: self.session.send(message, version, 0, NEVER, _settles(waiting)))
        timer = loop.call_later(seconds, _too_late, waiting)
        try:
            await self.stream.send(frame)
            response = await waiting
        except OSError as trouble:
            if self.gone == CLOSED:
                raise Closed(CLOSED) from trouble
            self.close(str(trouble))
            raise
        finally:
            timer.cancel()
        if response is _LATE:
            self.close("no answer in time")
            raise TimeoutError(f"no answer to {type(message).__name__} within {seconds:g} s")
        if response is None:
            raise _lost(self.gone or "the connection is gone")
        if not isinstance(response, answer):
            raise ConnectionError(f"{type(response).__name__} came instead of {answer.__name__}")
        return response

    async def send_only(self, message: Message, version: int) -> None:
        """Send a request that has no response. Raises OSError."""
        await self.stream.send(self._frame(lambda: self.session.send_only(message, version)))

    def close(self, reason: str = CLOSED) -> None:
        """Close; every waiting request raises ConnectionError, or Closed if only this client's end is the reason."""
        if self.gone is None:
            self.gone = reason
            self.stream.close()
            self.session.closed(0)

    def abort(self) -> None:
        """As `close`, but nothing is flushed."""
        if self.gone is None:
            self.gone = CLOSED
            self.stream.abort()
            self.session.closed(0)

    def _frame(self, make: Callable[[], list[bytes | bytearray | memoryview]]) -> bytes:
        if self.gone is not None:
            raise _lost(self.gone)
        return b"".join(make())

    def _received(self, frame: bytes) -> None:
        if self.gone is not None:
            return
        try:
            self.session.received(0, frame)
        except ProtocolError as trouble:
            self.close(str(trouble) or type(trouble).__name__)


def _lost(reason: str) -> ConnectionError:
    return Closed(reason) if reason == CLOSED else ConnectionError(reason)


def _settles(waiting: asyncio.Future[Message | None]) -> Callable[[int, Message | None], None]:
    def settle(now: int, response: Message | None) -> None:
        if not waiting.done():
            waiting.set_result(response)

    return settle


def _too_late(waiting: asyncio.Future[Message | None]) -> None:
    if not waiting.done():
        waiting.set_result(_LATE)
