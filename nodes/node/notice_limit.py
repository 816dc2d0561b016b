"""Limit how often a node reports what any peer can cause, so that a flood of bad frames does not fill the disk.

A limit belongs to one cause. The first notice passes, then one every `EVERY`; it states how many were omitted.
"""

from __future__ import annotations

EVERY = 1_000_000
"""Microseconds between two notices of one cause."""


class NoticeLimit:
    """See the module."""

    __slots__ = ("_left_out", "_next_at")

    def __init__(self) -> None:
        self._next_at = -EVERY
        self._left_out = 0

    def pass_on(self, now: int, notice: str) -> str | None:
        """The notice to report now, None if it is too soon. `now` is in microseconds of the monotonic clock."""
        if now < self._next_at:
            self._left_out += 1
            return None
        self._next_at = now + EVERY
        left_out, self._left_out = self._left_out, 0
        return f"{notice} (and {left_out} times more since the last notice)" if left_out else notice
