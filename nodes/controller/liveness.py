"""Broker sessions (FD-01, FD-04, FD-05). Monotonic time only: clock skew fences no broker.

Sessions exist only in the memory of the active controller; a newly active one gives every unfenced broker a full
session before the broker may count as silent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

NEVER = 2**63 - 1


class Sessions:
    """The time of the last message of each broker that has a session."""

    def __init__(self, timeout: int) -> None:
        self._timeout = timeout
        self.longest_silence = 0
        """Longest time between two messages of a broker in one session, in microseconds; for metrics."""
        self._heard: dict[int, int] = {}

    def restart(self, now: int, brokers: Iterable[int]) -> None:
        """Start again, as if all these brokers had just sent a message."""
        self._heard = dict.fromkeys(brokers, now)

    def heard(self, now: int, broker: int) -> None:
        """Record a broker's message. The broker moves to the end: the first is always the one silent for longest."""
        before = self._heard.pop(broker, now)
        self.longest_silence = max(self.longest_silence, now - before)
        self._heard[broker] = now

    def end(self, broker: int) -> None:
        self._heard.pop(broker, None)

    @property
    def brokers(self) -> Collection[int]:
        """The brokers that have a session; for observers."""
        return self._heard.keys()

    def is_live(self, now: int, broker: int) -> bool:
        heard = self._heard.get(broker)
        return heard is not None and now < heard + self._timeout

    def first_silent(self, now: int) -> int | None:
        """The broker whose session ended first, None if all are live."""
        for broker, heard in self._heard.items():
            return broker if now >= heard + self._timeout else None
        return None

    def deadline(self) -> int:
        """When the next session ends."""
        return next((heard + self._timeout for heard in self._heard.values()), NEVER)
