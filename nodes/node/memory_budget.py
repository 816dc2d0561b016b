"""How much memory one plane's peers may make a node hold (KIP-72): requests on their way in, answers on their way out.

Kafka bounds requests from the first byte read to the end of their handling by `queued.max.request.bytes`. Here answers
that their peers have not taken count as well, since a request of fifty bytes may ask for fifty megabytes. Each plane
has a budget of its own, so that nobody who floods the brokers' listeners holds up a vote (CL-24).

What is held is counted by connection, in four parts: frames that are not whole yet and answers that the peer has not
taken, which the host reports; requests that wait or are parked; answers of this turn. A plane whose budget is used up
reads on from no connection that adds to it and serves nothing with a long answer. Once that lasts for `PATIENCE`, it
closes the connections that hold most, a share of the whole every `PAUSE` until there is room: whoever holds memory and
does nothing must not hold up the rest, be it by one connection or by thousands. A budget that is used up again within
`PATIENCE` of such a closing waits no longer than `PAUSE`: the same peers go on, and others have waited long enough.
"""

from __future__ import annotations

PATIENCE = 3_000_000
"""Microseconds that a plane may stand still for want of memory before the largest holder is closed."""
PAUSE = 250_000
CLOSED_SHARE = 16
"""What the connections closed at once hold together: this part of the limit, or slightly more."""
NEVER = 2**63 - 1
NO_LIMIT = -1


class MemoryBudget:
    """Bytes held by one plane's connections; see the module."""

    __slots__ = ("_closed_at", "_limit", "exhausted_since", "used")

    def __init__(self, limit: int = NO_LIMIT) -> None:
        self._limit = limit
        self.used = 0
        self._closed_at = -PATIENCE
        self.exhausted_since = NEVER
        """When `is_exhausted` was first seen since it last had room: whoever was paused then waits for room, not for
        the budget to be a byte below its limit. Kept by `look`."""

    @property
    def is_exhausted(self) -> bool:
        return 0 <= self._limit <= self.used

    @property
    def takes_no_more(self) -> bool:
        """It is exhausted, or was and has no room yet: what is freed must not be filled at once by those who go on."""
        return self.is_exhausted or (self.exhausted_since != NEVER and not self.has_room)

    @property
    def has_room(self) -> bool:
        """A quarter is free: enough to go on, and not to stop again at once."""
        return self._limit < 0 or self.used * 4 <= self._limit * 3

    @property
    def room(self) -> int:
        """Bytes until it is exhausted."""
        return NEVER if self._limit < 0 else max(0, self._limit - self.used)

    @property
    def to_close(self) -> int:
        """Bytes that connections closed at once are to free."""
        return self._limit // CLOSED_SHARE

    def look(self, now: int) -> bool:
        """Keep `exhausted_since`; whether a connection must go by now."""
        if self.has_room:
            self.exhausted_since = NEVER
            return False
        if self.exhausted_since == NEVER:
            if not self.is_exhausted:
                return False
            self.exhausted_since = now
            if now < self._closed_at + PATIENCE:
                self.exhausted_since += PAUSE - PATIENCE
        return now >= self.exhausted_since + PATIENCE

    def wait(self, now: int) -> None:
        """A connection was closed: give what it held the time to go."""
        self._closed_at = now
        self.exhausted_since = now - PATIENCE + PAUSE

    def due(self) -> int:
        """When `look` is to be asked again."""
        return NEVER if self.exhausted_since == NEVER else self.exhausted_since + PATIENCE
