"""How far another machine's monotonic clock is from ours, and how well we know.

A client host is asked what its clock shows; its answer was taken somewhere between our question and its arrival.
So the offset is known to within half the round trip, and the quickest of several exchanges tells most. Clocks
drift, which is why this is done before and after a load: what lies between two readings is taken to lie within
both of them together. Where the second reading could not be had, the first is trusted less with every second, by
what an operating system may slew a clock at most.

Histories carry the offset and its error (`results/segments.py`), and the checker widens operations of different
clocks by it: an uncertain clock can hide a violation, but it cannot make one up.
"""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_DRIFT = 500e-6
"""What `adjtimex` lets a clock be slewed, as a share of the time that passes."""


@dataclass(frozen=True)
class ClockReading:
    """`offset` is to be added to the other clock's time to get ours, right to within `error`; in nanoseconds.

    `taken` is when, on our clock.
    """

    offset: int
    error: int
    taken: int

    @classmethod
    def of_exchange(cls, asked: int, theirs: int, answered: int) -> ClockReading:
        """From one exchange: our time before it, their time in it, our time after it."""
        return cls((asked + answered) // 2 - theirs, (answered - asked) // 2 + 1, answered)

    def and_later(self, later: ClockReading) -> ClockReading:
        """One reading that was right from this one to the later one."""
        lowest = min(self.offset - self.error, later.offset - later.error)
        highest = max(self.offset + self.error, later.offset + later.error)
        return ClockReading((lowest + highest) // 2, (highest - lowest) // 2 + 1, later.taken)

    def until(self, now: int) -> ClockReading:
        """The same reading, for a time that ended at `now` without another."""
        return ClockReading(self.offset, self.error + int((now - self.taken) * LARGEST_DRIFT), self.taken)

    def __str__(self) -> str:
        return f"{self.offset / 1e6:+.2f} ms ± {self.error / 1e6:.2f} ms"
