"""What the time is to a process: a child with its environment tells its clocks again and again, against true time.

The child reads wall clock, monotonic clock and CLOCK_MONOTONIC_RAW, which no fault touches; so each reading can be held
against our own clocks at that very moment, however late we get to know it. Readings that took long are left out: the
child was interrupted between two clocks, and they do not belong together.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from squall.nemesis.agent.core.trouble import Trouble

SECOND = 1_000_000_000
LONGEST_WATCH = 10.0
LONGEST_READING = 1_000_000
LEAST_JUMP = 2_000_000
"""Nanoseconds. What differs by less is no jump but the accuracy of a reading."""

TELL_TIMES = """
import sys, time
raw = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
end = raw() + int(float(sys.argv[1]) * 1e9)
while True:
    print(raw(), time.time_ns(), time.monotonic_ns(), raw())
    if raw() >= end:
        break
    time.sleep(0.001)
"""


@dataclass(frozen=True)
class Reading:
    """Clocks of a process and true ones at one moment, in nanoseconds."""

    raw: int
    wall: int
    monotonic: int
    true_wall: int
    true_monotonic: int

    @property
    def wall_offset(self) -> int:
        return self.wall - self.true_wall


def read_clocks(environment: Mapping[str, str], watch_s: float, now: Sequence[int]) -> list[Reading]:
    """What a child of that environment reads for so long; `now` are our (wall, monotonic, raw). Raises Trouble."""
    command = [sys.executable, "-c", TELL_TIMES, str(watch_s)]
    told = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if told.returncode != 0:
        raise Trouble("failed", f"the clock probe did not run: {told.stderr.strip()[-300:]}")
    lines = [[int(word) for word in line.split()] for line in told.stdout.splitlines()]
    shortest = min(after - before for before, _, _, after in lines)
    kept = [line for line in lines if line[3] - line[0] <= max(shortest, LONGEST_READING)]
    our_wall, our_monotonic, our_raw = now
    return [
        Reading(after, wall, monotonic, our_wall + after - our_raw, our_monotonic + after - our_raw)
        for _, wall, monotonic, after in kept
    ]


def described(readings: Sequence[Reading]) -> dict[str, object]:
    """Where the clocks were at last, and how they ran meanwhile."""
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
    """How often the clock went from one half of its range to the other."""
    low, high = min(offsets), max(offsets)
    if high - low < LEAST_JUMP:
        return 0
    sides = [offset > (low + high) / 2 for offset in offsets]
    return sum(one != other for one, other in itertools.pairwise(sides))
