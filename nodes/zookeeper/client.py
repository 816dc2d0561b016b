"""Batches of operations on an ensemble: pipelined, repeated while the connection is lost, and who is notified of what.

A batch ends when every operation has an answer other than CONNECTION_LOSS. An operation whose answer was lost is sent
again, as in Kafka (`retryRequestsUntilConnected`), although the ensemble may have carried it out: who submits a
batch must expect NODE_EXISTS, NO_NODE or BAD_VERSION from its own write. With the session all batches end, their
remaining operations with SESSION_EXPIRED.

At most `in_flight_max` operations are unanswered (`zookeeper.max.in.flight.requests`); the others wait here. So a batch
of a million reads takes a million answers, ten at a time: that is what makes a ZooKeeper-era controller slow (ZK-09).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from squall.nodes.zookeeper.session import (
    Code,
    Operation,
    Session,
    SessionEvent,
    SessionRequest,
    SessionResponse,
    SessionState,
    StateChanged,
    WatchFired,
)

CompleteBatch = Callable[[int, list[SessionResponse]], None]
"""Called once with (now, one response per operation)."""


class Watcher(Protocol):
    """A component that is notified of watches and of the session's state."""

    def watch_fired(self, now: int, event: WatchFired) -> None: ...

    def session_changed(self, now: int, state: SessionState) -> None: ...


class _Batch:
    """Operations under way, and the answers so far."""

    __slots__ = ("answers", "complete", "left")

    def __init__(self, size: int, complete: CompleteBatch) -> None:
        self.answers: list[SessionResponse | None] = [None] * size
        self.left = size
        self.complete = complete

    def answered(self, now: int, number: int, answer: SessionResponse) -> None:
        self.answers[number] = answer
        self.left -= 1
        if self.left == 0:
            self.complete(now, [one for one in self.answers if one is not None])


class ZooKeeperClient:
    """See the module. All components of a node share one client and its session."""

    def __init__(self, session: Session, in_flight_max: int = 10) -> None:
        self.session = session
        self.watchers: list[Watcher] = []
        self.connects = self.disconnects = self.expiries = 0
        """How often the session was connected, lost its connection, and expired."""
        self.on_answer: Callable[[int], None] = _ignore
        """Called with the microseconds from sending an operation to its response."""
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._waiting: deque[tuple[Operation, _Batch, int]] = deque()

    @property
    def is_connected(self) -> bool:
        return self.session.state is SessionState.CONNECTED

    @property
    def is_expired(self) -> bool:
        return self.session.state is SessionState.EXPIRED

    def submit(self, now: int, operations: Sequence[Operation], complete: CompleteBatch) -> None:
        """Carry out operations, which must not be empty; `complete` is never called from inside this."""
        batch = _Batch(len(operations), complete)
        self._waiting.extend((operation, batch, number) for number, operation in enumerate(operations))
        self._send(now)

    def _send(self, now: int) -> None:
        while self._waiting and self._in_flight < self._in_flight_max:
            operation, batch, number = self._waiting.popleft()
            self._in_flight += 1
            self.session.submit(now, SessionRequest(operation, self._completing(operation, batch, number, now)))

    def _completing(
        self, operation: Operation, batch: _Batch, number: int, sent: int
    ) -> Callable[[int, SessionResponse], None]:
        def complete(now: int, response: SessionResponse) -> None:
            self._in_flight -= 1
            self.on_answer(now - sent)
            if response.code is Code.CONNECTION_LOSS:
                self._waiting.append((operation, batch, number))
            else:
                batch.answered(now, number, response)
            self._send(now)

        return complete

    def deliver(self, now: int) -> None:
        """Notify components of what has arrived."""
        self.session.deliver(now, self._on_event)

    def _on_event(self, now: int, event: SessionEvent) -> None:
        if isinstance(event, StateChanged):
            self.connects += event.state is SessionState.CONNECTED
            self.disconnects += event.state is SessionState.CONNECTING
            self.expiries += event.state is SessionState.EXPIRED
        for watcher in list(self.watchers):
            if isinstance(event, WatchFired):
                watcher.watch_fired(now, event)
            else:
                watcher.session_changed(now, event.state)
        if isinstance(event, StateChanged) and event.state is SessionState.EXPIRED:
            self.session.renew(now)

    def deadline(self) -> int:
        return self.session.deadline()


def _ignore(took: int) -> None:
    pass
