"""Measure the offset of another machine's monotonic clock, and the error of that measurement.

A client host reports its clock; the reading was taken between sending the request and receiving the response. So the
offset is known to within half the round trip, and the quickest of several exchanges is the most accurate. Clocks drift,
so readings are taken before and after a load: the offset in between is assumed to lie within both readings together.
Without a second reading, the error of the first grows with every second, by the largest rate at which an operating
system may slew a clock.

Histories carry the offset and its error (`results/history/segments.py`), and the checker widens operations of different
clocks by the error: an uncertain clock can hide a violation, but it cannot create one.
"""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_DRIFT = 500e-6
"""The largest rate at which `adjtimex` slews a clock, as a share of the elapsed time."""


@dataclass(frozen=True)
class ClockReading:
    """`offset` is added to the other clock's time to get this machine's, correct to within `error`; in nanoseconds.

    `taken` is when, on this machine's clock.
    """

    offset: int
    error: int
    taken: int

    @classmethod
    def of_exchange(cls, asked: int, theirs: int, answered: int) -> ClockReading:
        """Build a reading from one exchange: this clock before it, the other clock in it, this clock after it."""
        return cls((asked + answered) // 2 - theirs, (answered - asked) // 2 + 1, answered)

    def and_later(self, later: ClockReading) -> ClockReading:
        """Return one reading that was right from this one to the later one."""
        lowest = min(self.offset - self.error, later.offset - later.error)
        highest = max(self.offset + self.error, later.offset + later.error)
        return ClockReading((lowest + highest) // 2, (highest - lowest) // 2 + 1, later.taken)

    def until(self, now: int) -> ClockReading:
        """Return the same reading, for a period that ended at `now` without a second reading."""
        return ClockReading(self.offset, self.error + int((now - self.taken) * LARGEST_DRIFT), self.taken)

    def __str__(self) -> str:
        return f"{self.offset / 1e6:+.2f} ms ± {self.error / 1e6:.2f} ms"
