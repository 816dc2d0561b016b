"""Limit the memory that one plane's peers may make a node hold (KIP-72): incoming requests and outgoing responses.

Kafka bounds requests from the first byte read to the end of their handling by `queued.max.request.bytes`. Here
responses that peers have not read count as well, since a request of fifty bytes may ask for fifty megabytes. Each plane
has its own budget, so that a flood at the brokers' listeners does not delay a vote (CL-24).

Memory is counted by connection, in four parts: incomplete frames and unread responses, which the host reports; requests
that wait or are parked; responses of this turn. A plane whose budget is used up does not read from a connection that
adds to it, and serves no request with a long response. Once that lasts for `PATIENCE`, it closes the connections that
hold most, a share of the whole every `PAUSE` until there is room: peers that hold memory and do nothing must not delay
the others, with one connection or with thousands. A budget that is used up again within `PATIENCE` of such a closing
waits no longer than `PAUSE`: the same peers continue, and others have waited long enough.
"""

from __future__ import annotations

PATIENCE = 3_000_000
"""Microseconds that a plane may stall for lack of memory before the largest holder is closed."""
PAUSE = 250_000
CLOSED_SHARE = 16
"""The memory of connections closed at once: this part of the limit, or slightly more."""
NEVER = 2**63 - 1
NO_LIMIT = -1


class MemoryBudget:
    """Bytes held by one plane's connections; see the module."""

    __slots__ = ("_closed_at", "_limit", "exhausted_since", "roomy", "used")

    def __init__(self, limit: int = NO_LIMIT) -> None:
        self._limit = limit
        self.roomy = NEVER if limit < 0 else limit * 3 // 4
        """The most bytes in use that leave a quarter free: enough to continue without stopping again at once."""
        self.used = 0
        self._closed_at = -PATIENCE
        self.exhausted_since = NEVER
        """When `is_exhausted` was first seen since there last was room. Kept by `look`.

        Paused connections then wait for room, not only for the budget to be a byte below its limit.
        """

    @property
    def is_exhausted(self) -> bool:
        return 0 <= self._limit <= self.used

    @property
    def takes_no_more(self) -> bool:
        """Whether it is exhausted, or was and has no room yet: so resumed connections do not refill it at once."""
        return self.is_exhausted or (self.exhausted_since != NEVER and not self.has_room)

    @property
    def has_room(self) -> bool:
        return self.used <= self.roomy

    @property
    def room(self) -> int:
        """Bytes until it is exhausted."""
        return NEVER if self._limit < 0 else max(0, self._limit - self.used)

    @property
    def to_close(self) -> int:
        """Bytes to free by closing connections at once."""
        return self._limit // CLOSED_SHARE

    def look(self, now: int) -> bool:
        """Update `exhausted_since`; return whether connections must be closed now."""
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
        """Record that connections were closed, and leave time for their memory to be freed."""
        self._closed_at = now
        self.exhausted_since = now - PATIENCE + PAUSE

    def due(self) -> int:
        """When `look` must be called again."""
        return NEVER if self.exhausted_since == NEVER else self.exhausted_since + PATIENCE
