"""Set and watch a simulated wall clock, as `clock.set` and `probe.clock` do on hosts."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

from squall.harness.simulation.world.kernel import MICROSECONDS, Kernel
from squall.harness.simulation.world.probes import Answer, Arguments

if TYPE_CHECKING:
    from squall.harness.simulation.world.process import SimWallClock

STEP_SECONDS = 0.001
LEAST_JUMP_SECONDS = 0.002


def skew_clock(clock: SimWallClock, arguments: Arguments) -> float:
    """Jump by `offset_s` or to `wall_s`, run at `rate`, and strobe `every_s`. Return the jump in seconds."""
    offset, rate, every = (arguments.get(*one) for one in (("offset_s", 0.0), ("rate", 1.0), ("every_s", 0.0)))
    wall = arguments.get("wall_s")
    if isinstance(wall, int | float):
        offset = wall - clock.true_s()
    assert isinstance(offset, int | float) and isinstance(rate, int | float) and isinstance(every, int | float)
    clock.skew(float(offset), float(rate), round(every * MICROSECONDS))
    return float(offset)


async def watch_clock(clock: SimWallClock, seconds: float, kernel: Kernel) -> Answer:
    """Watch the wall clock against the kernel's exact clock, a simulated host's only monotonic clock."""
    began, first = kernel.now, clock.now_ms()
    end = began + round(seconds * MICROSECONDS)
    offsets = [clock.offset_s()]
    while kernel.now < end:
        await asyncio.sleep(STEP_SECONDS)
        offsets.append(clock.offset_s())
    watched = (kernel.now - began) / MICROSECONDS
    low, high = min(offsets), max(offsets)
    sides = [offset > (low + high) / 2 for offset in offsets] if high - low >= LEAST_JUMP_SECONDS else []
    return {
        "offset_s": offsets[-1],
        "wall_s": clock.now_ms() / 1000,
        "monotonic_offset_s": 0.0,
        "monotonic_rate": None,
        "watched_s": watched,
        "wall_ran_s": (clock.now_ms() - first) / 1000,
        "monotonic_ran_s": watched,
        "jumps": sum(one != other for one, other in pairwise(sides)),
        "jump_s": high - low,
    }
