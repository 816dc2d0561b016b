"""A request that is answered as a whole, once each of its topic-partitions has what it waits for (DP-08).

Produce with acks=all and DeleteRecords have this in common: some topic-partitions of a request are done at once, others
wait, each for something of its own, and the answer goes when none waits any more or time is up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from squall.nodes.broker.hosted import Deadlines, Parked
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.session import ServerRequest


class Answer(Protocol):
    """What is said of one topic-partition; filled in while the request waits."""

    error_code: int


class Wait(Protocol):
    """One topic-partition of a parked request. `place` is the list it waits in there."""

    @property
    def answer(self) -> Answer: ...

    @property
    def place(self) -> dict[Parked, None]: ...

    def is_over(self) -> bool:
        """Whether it has what it waits for, or never will; the answer then says which."""
        ...


class ParkedRequest(Parked):
    """See the module. `response` holds the answers of all `waits`."""

    __slots__ = ("_deadlines", "_request", "_response", "_waits")

    def __init__(self, request: ServerRequest, response: Message, waits: Sequence[Wait], deadlines: Deadlines) -> None:
        super().__init__()
        self._request = request
        self._response = response
        self._waits = waits
        self._deadlines = deadlines

    def park(self, until: int) -> None:
        for wait in self._waits:
            wait.place[self] = None
        self._deadlines.add(until, self)
        self._request.on_close = self._leave

    def look(self, now: int) -> None:
        if self._request.closed:
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

    def expire(self, now: int) -> None:
        self.look(now)
        if not self._waits:
            return
        for wait in self._waits:
            wait.answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
        self._leave()
        self._request.respond(self._response)

    def _leave(self) -> None:
        """Wait no longer: time is up, or the connection is gone."""
        for wait in self._waits:
            wait.place.pop(self, None)
        self._waits = ()
        self._deadlines.remove(self)

    def _end(self) -> None:
        self._deadlines.remove(self)
        self._request.respond(self._response)
