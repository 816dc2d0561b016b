"""Administrators' writes as an omniscient observer sees them: no request is carried out twice (MD-09).

A broker passes a request on to the active controller, and may have to ask another one. What it may not do is ask again
for what was written and may yet be committed: a deletion by name that is repeated takes with it what was made under
that name since, acknowledged records included. Neither the images nor the logs show it: each of the two is legal.

So requests are followed from the broker that sends them (`admin_sent`, with the number that a request keeps through all
its attempts) to the controller that writes records for them (`admin_write`, with the offset of the first). Once records
of one request are committed at two places, the rule is broken. A write that was lost with its controller, and repeated,
is legal, and so are two requests of a client for the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from squall.harness.simulation.observed_log import Batch, InvariantBroken


class Request(NamedTuple):
    """One request that a broker has passed on, in one incarnation of its node."""

    broker: str
    incarnation: int
    number: int
    asked: str


class Written(NamedTuple):
    """Where a controller has written the first record of a request."""

    request: Request
    offset: int
    epoch: int


class ObservedWrites:
    """See the module."""

    def __init__(self) -> None:
        self.committed = 0
        """Writes that were followed from their request to their commit."""
        self._sent: dict[tuple[str, int], Request] = {}
        self._written: list[Written] = []
        self._done: dict[Request, int] = {}

    def look(self, name: str, incarnation: int, traced: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """What one node has traced in a turn."""
        for event, fields in traced:
            if event not in ("admin_sent", "admin_write"):
                continue
            attempt = (fields["client"], fields["correlation"])
            if event == "admin_sent":
                self._sent[attempt] = Request(name, incarnation, fields["request"], fields["asked"])
                continue
            request = self._sent.get(attempt)
            if request is not None and request.asked == fields["asked"]:  # others come from clients themselves
                self._written.append(Written(request, fields["offset"], fields["epoch"]))

    def follow(self, end: int, batch_at: Callable[[int], Batch | None]) -> None:
        """The metadata log is committed up to `end`; `batch_at` gives the batch that begins at an offset.

        Raises InvariantBroken.
        """
        reached = [one for one in self._written if one.offset < end]
        if not reached:
            return
        self._written = [one for one in self._written if one.offset >= end]
        for one in reached:
            batch = batch_at(one.offset)
            if batch is None or batch.epoch != one.epoch:  # it was lost with its controller
                continue
            self.committed += 1
            first = self._done.setdefault(one.request, one.offset)
            if first != one.offset:
                raise InvariantBroken(
                    "MD-09",
                    f"{one.request.asked}, which {one.request.broker} passed on once, is carried out twice: "
                    f"its records are committed at offset {first} and at offset {one.offset} of the metadata log",
                )
