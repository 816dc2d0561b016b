"""Check administrators' writes as an omniscient observer: no request is carried out twice (MD-09).

A broker forwards a request to the active controller, and may have to try another controller. It must not send a request
again whose records are written and may still be committed: a repeated deletion by name removes a topic created under
that name since, with its acknowledged records. Neither the images nor the logs show that error: each of the two
deletions is legal.

So requests are tracked from the broker that sends them (`admin_sent`, with the number that a request keeps through all
its attempts) to the controller that writes records for them (`admin_write`, with the offset of the first). Committed
records of one request at two places break the rule. It is legal to repeat a write that was lost with its controller,
and a client may send two requests for the same thing.

The correlation id names an attempt only among those to one controller in one incarnation of the broker. If a broker
that has started again uses the id of an attempt for the same thing that is not known to be over, a write can belong to
either, and is not tracked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from squall.harness.simulation.observer.state.observed_log import Batch, InvariantBroken


class Request(NamedTuple):
    """One request that a broker has forwarded, in one incarnation of its node."""

    broker: str
    incarnation: int
    number: int
    asked: str


class Attempt(NamedTuple):
    """What a controller knows of a request that was sent to it."""

    client: str
    correlation: int
    controller: int
    asked: str


class Written(NamedTuple):
    """The place where a controller has written the first record of a request."""

    request: Request
    offset: int
    epoch: int


class ObservedWrites:
    """Tracks requests from brokers to committed records; see the module."""

    def __init__(self) -> None:
        self.committed = 0
        """Number of writes that were tracked from their request to their commit."""
        self._sent: dict[Attempt, Request | None] = {}
        """The request of each attempt; None if it can be one of two."""
        self._carried_out: set[Attempt] = set()
        self._written: list[Written] = []
        self._done: dict[Request, int] = {}

    def look(self, name: str, incarnation: int, traced: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Process what one node has traced in a turn."""
        for event, fields in traced:
            if event not in ("admin_sent", "admin_write"):
                continue
            if event == "admin_sent":
                attempt = _attempt(fields, fields["controller"])
                self._send(attempt, Request(name, incarnation, fields["request"], fields["asked"]))
            else:
                self._write(_attempt(fields, fields["node"]), fields["offset"], fields["epoch"])

    def _send(self, attempt: Attempt, request: Request) -> None:
        earlier = self._sent.get(attempt, request)
        either = earlier != request and attempt not in self._carried_out
        self._sent[attempt] = None if either else request
        self._carried_out.discard(attempt)

    def _write(self, attempt: Attempt, offset: int, epoch: int) -> None:
        request = self._sent.get(attempt)  # clients send some directly to a controller
        if request is not None:
            self._carried_out.add(attempt)
            self._written.append(Written(request, offset, epoch))

    def follow(self, end: int, batch_at: Callable[[int], Batch | None]) -> None:
        """Process the metadata log as committed up to `end`; `batch_at` returns the batch that begins at an offset.

        Raises InvariantBroken.
        """
        reached = [one for one in self._written if one.offset < end]
        if not reached:
            return
        self._written = [one for one in self._written if one.offset >= end]
        for one in reached:
            batch = batch_at(one.offset)
            if batch is None or batch.epoch != one.epoch:  # the write was lost with its controller
                continue
            self.committed += 1
            first = self._done.setdefault(one.request, one.offset)
            if first != one.offset:
                raise InvariantBroken(
                    "MD-09",
                    f"{one.request.asked}, which {one.request.broker} passed on once, is carried out twice: "
                    f"its records are committed at offset {first} and at offset {one.offset} of the metadata log",
                )


def _attempt(fields: Mapping[str, Any], controller: int) -> Attempt:
    return Attempt(fields["client"], fields["correlation"], controller, fields["asked"])
