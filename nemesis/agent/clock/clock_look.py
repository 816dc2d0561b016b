"""Measures a process's clocks against true time, by a child process with the same environment.

The child repeatedly prints wall clock, monotonic clock and CLOCK_MONOTONIC_RAW, which no fault changes. So each reading
can be compared with this process's clocks at the same moment, however late it arrives. Slow readings are dropped: the
child was interrupted between two clocks, so they do not belong together.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from squall.nemesis.agent.core.verb_error import VerbError

SECOND = 1_000_000_000
LONGEST_WATCH = 10.0
LONGEST_READING = 1_000_000
LEAST_JUMP = 2_000_000
"""Nanoseconds. A smaller difference is no jump but the accuracy of a reading."""

TELL_TIMES = """
import sys, time
raw = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
look = lambda: (raw(), time.time_ns(), time.monotonic_ns(), raw())
reading = look()
print(*reading)
end = reading[-1] + int(float(sys.argv[1]) * 1e9)
while reading[-1] < end:
    time.sleep(0.001)
    reading = look()
    print(*reading)
"""


@dataclass(frozen=True)
class Reading:
    """Clocks of a process and true clocks at one moment, in nanoseconds."""

    raw: int
    wall: int
    monotonic: int
    true_wall: int
    true_monotonic: int

    @property
    def wall_offset(self) -> int:
        return self.wall - self.true_wall


def read_clocks(environment: Mapping[str, str], watch_s: float, now: Sequence[int]) -> list[Reading]:
    """What a child of that environment reads during `watch_s`; `now` is (wall, monotonic, raw) of this process. Raises
    Trouble.
    """
    command = [sys.executable, "-c", TELL_TIMES, str(watch_s)]
    told = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if told.returncode != 0:
        raise VerbError("failed", f"the clock probe did not run: {told.stderr.strip()[-300:]}")
    lines = [[int(word) for word in line.split()] for line in told.stdout.splitlines()]
    shortest = min(after - before for before, _, _, after in lines)
    kept = [line for line in lines if line[3] - line[0] <= max(shortest, LONGEST_READING)]
    our_wall, our_monotonic, our_raw = now
    return [
        Reading(after, wall, monotonic, our_wall + after - our_raw, our_monotonic + after - our_raw)
        for _, wall, monotonic, after in kept
    ]


def described(readings: Sequence[Reading]) -> dict[str, object]:
    """The clocks at the last reading, and how they ran meanwhile."""
    first, last = readings[0], readings[-1]
    offsets = [reading.wall_offset for reading in readings]
    return {
        "offset_s": last.wall_offset / SECOND,
        "wall_s": last.wall / SECOND,
        "monotonic_offset_s": (last.monotonic - last.true_monotonic) / SECOND,
        "watched_s": (last.raw - first.raw) / SECOND,
        "wall_ran_s": (last.wall - first.wall) / SECOND,
        "monotonic_ran_s": (last.monotonic - first.monotonic) / SECOND,
        "jumps": jumps_in(offsets),
        "jump_s": (max(offsets) - min(offsets)) / SECOND,
    }


def jumps_in(offsets: Sequence[int]) -> int:
    """How often the clock changed from one half of its range to the other."""
    low, high = min(offsets), max(offsets)
    if high - low < LEAST_JUMP:
        return 0
    sides = [offset > (low + high) / 2 for offset in offsets]
    return sum(one != other for one, other in itertools.pairwise(sides))
