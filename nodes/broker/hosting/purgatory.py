"""Park a request until each of its topic-partitions is done, then respond to the whole of it (DP-08).

Used by Produce with acks=all and by DeleteRecords: some topic-partitions of a request are done at once, others wait,
each for a different condition. The response is sent when none waits any more or the request times out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from squall.nodes.broker.hosting.hosted_partition import Deadlines, Parked
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message


class Answer(Protocol):
    """The part of a response for one topic-partition; filled in while the request waits."""

    error_code: int


class Wait(Protocol):
    """One topic-partition of a parked request. `place` is the list there in which the request waits."""

    @property
    def answer(self) -> Answer: ...

    @property
    def place(self) -> dict[Parked, None]: ...

    def is_over(self) -> bool:
        """Whether the condition is met or can no longer be met; `answer` then states which."""
        ...


class ParkedRequest(Parked):
    """A parked request that is done when all its `waits` are. `response` holds the `answer` of each of them."""

    __slots__ = ("_deadlines", "_response", "_waits")

    def __init__(self, request: ServerRequest, response: Message, waits: Sequence[Wait], deadlines: Deadlines) -> None:
        super().__init__(request)
        self._response = response
        self._waits = waits
        self._deadlines = deadlines

    def park(self, until: int) -> None:
        for wait in self._waits:
            wait.place[self] = None
        self._deadlines.add(until, self)
        self.request.on_close = self._leave

    def look(self, now: int) -> None:
        if self.request.closed:
            return
        open_waits = []
        for wait in self._waits:
            if wait.is_over():
                wait.place.pop(self, None)
            else:
                open_waits.append(wait)
        self._waits = open_waits
        if not open_waits:
            self._end()

    def waits_in_vain(self) -> bool:
        return all(wait.is_over() for wait in self._waits)

    def expire(self, now: int) -> None:
        self.look(now)
        if not self._waits:
            return
        for wait in self._waits:
            wait.answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
        self._leave()
        self.request.respond(self._response)

    def _leave(self) -> None:
        """Stop waiting, because the request timed out or the connection is closed."""
        for wait in self._waits:
            wait.place.pop(self, None)
        self._waits = ()
        self._deadlines.remove(self)

    def _end(self) -> None:
        self._deadlines.remove(self)
        self.request.respond(self._response)
