"""Find when a line of a node's log was written, in a run's time, even if faults set the stamping clock.

A log is appended to, so its lines are in the order in which they were written, and that order never changes. A stamp is
believed as far as it can be true: not before the line above, not after the logs were fetched, not within a fault that
sets this host's clock. In such a fault's window a stamp is interpreted as that clock showed time: shifted by the
offset, running at the rate, jumping back and forth, or standing still. The result is *uncertain*, and the timeline
marks it. So is a line placed right after the line above because its stamp has no possible interpretation.

If two interpretations are possible the earlier is taken, so that no line can push those below it into the future. Lines
without a stamp (of a traceback, for example) have the time of the line above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from squall.harness.hosts.clocks import ClockReading
from squall.nemesis.options import ClockFreeze, ClockSkew, ClockStrobe, FaultOptions
from squall.nemesis.options.clock import seconds_of
from squall.results.history.segments import FaultWindow

SECOND = 1_000_000_000
SLACK = SECOND // 4
"""A fault's window is observed from outside; it may have begun and ended earlier or later by this much."""
BEGINNING, NEVER = -(2**63), 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_NATS = re.compile(r"\[\d+\] (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{1,6}) ")
_OF_ETCD = re.compile(r'"ts":(?:"([^"]+)"|(\d+\.\d+))')

Span = tuple[int, int]
"""The beginning and end of a period, in the run's time."""


@dataclass(frozen=True)
class Disturbance:
    """A window in which a host's wall clock was not true."""

    since: int
    until: int
    options: ClockSkew | ClockStrobe | ClockFreeze
    reading: ClockReading

    def covers(self, moment: int) -> bool:
        return self.since - SLACK <= moment <= self.until + SLACK

    def moments(self, shown: int) -> Iterator[Span]:
        """Yield when within the window the clock may have shown this; `shown` as if it had been true."""
        options = self.options
        if isinstance(options, ClockFreeze):
            stands = self.since if options.time is None else self._moment(options.time)
            if abs(shown - stands) <= SLACK:
                yield self.since, self.until
            return
        for shift, rate in self._shifts():
            moment = self.since + round((shown - self.since - shift) / rate)
            if self.covers(moment):
                yield moment, moment

    def _shifts(self) -> Iterator[tuple[int, float]]:
        """Yield how far the clock is off as the window begins, and how fast it runs from there."""
        options = self.options
        yield 0, 1.0  # the node may not have read the changed clock
        if isinstance(options, ClockStrobe):
            yield round(options.offset * SECOND), 1.0
        elif isinstance(options, ClockSkew):
            jumps = options.offset * SECOND if options.time is None else self._moment(options.time) - self.since
            yield round(jumps), options.rate

    def _moment(self, time: str) -> int:
        return round(seconds_of(time) * SECOND) + self.reading.offset


def disturbances(
    windows: Sequence[FaultWindow], options: Mapping[str, FaultOptions], host: str, reading: ClockReading
) -> list[Disturbance]:
    """Return what the faults of a run did to the clock of a host."""
    found = []
    for window in windows:
        setting = options.get(window.id)
        if (
            host in window.targets
            and window.injected is not None
            and isinstance(setting, ClockSkew | ClockStrobe | ClockFreeze)
        ):
            until = window.healed if window.healed is not None and window.undone else NEVER
            found.append(Disturbance(window.injected, until, setting, reading))
    return found


@dataclass(frozen=True)
class AlignedTime:
    """The time of a line; `certain` if its stamp has only one interpretation."""

    moment: int
    certain: bool


class LogAligner:
    """Places the lines of one log, from the first to the last."""

    def __init__(self, reading: ClockReading, disturbed: Sequence[Disturbance] = ()) -> None:
        self._reading = reading
        self._disturbed = disturbed
        self._last = AlignedTime(BEGINNING, certain=False)

    def place(self, stamp: int | None) -> AlignedTime:
        """Return the place of the next line, stamped with these nanoseconds since 1970, or not at all."""
        if stamp is not None:
            self._last = self._placed(stamp + self._reading.offset)
        return self._last

    def _placed(self, shown: int) -> AlignedTime:
        last, tolerated = self._last.moment, self._reading.error + SECOND // 1000
        true = not any(one.covers(shown) for one in self._disturbed)
        if true and last - tolerated <= shown <= self._reading.taken + tolerated:
            believed: list[AlignedTime] = [AlignedTime(max(shown, last), certain=True)]
        else:
            believed = []
        shifted = [
            AlignedTime(max(low, last), certain=False)
            for one in self._disturbed
            for low, high in one.moments(shown)
            if high >= last - SLACK
        ]
        possible = believed + shifted
        if not possible:
            return AlignedTime(last, certain=False)
        first = min(possible, key=lambda place: place.moment)
        return AlignedTime(first.moment, certain=first.certain and len(possible) == 1)


def stamp_of(line: str) -> tuple[int | None, str]:
    """Return the nanoseconds since 1970 with which a line is stamped, and the rest; None and the whole line if none.

    Our nodes and Apache Kafka begin a line with ISO 8601, NATS with its pid and the time (`[60] 2026/11/26
    19:00:24.028048`, in UTC as we configure it); etcd writes JSON with `ts`.
    """
    if (nats := _OF_NATS.match(line)) is not None:
        moment = datetime.strptime(nats[1], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
        return _nanoseconds(moment), line[nats.end() :]
    if line.startswith("{") and (etcd := _OF_ETCD.search(line)) is not None:
        return _of_iso(etcd[1]) if etcd[1] else int(float(etcd[2]) * 1_000_000) * 1000, line
    word, _, rest = line.partition(" ")
    if len(word) < len("2026-11-21T21:11:41") or not word[0].isdecimal():
        return None, line
    stamp = _of_iso(word)
    return (None, line) if stamp is None else (stamp, rest)


def _of_iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else _nanoseconds(moment)


def _nanoseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000
