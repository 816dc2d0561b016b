"""Watching a simulated wall clock for a while, as `probe.clock` on hosts does: how it runs, how often it jumps."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

from squall.harness.simulation.kernel import MICROSECONDS, Kernel
from squall.harness.simulation.probes import Answer

if TYPE_CHECKING:
    from squall.harness.simulation.process import SimWallClock

STEP_SECONDS = 0.001
LEAST_JUMP_SECONDS = 0.002


async def watch_clock(clock: SimWallClock, seconds: float, kernel: Kernel) -> Answer:
    """A simulated host has no monotonic clock but the kernel's, which is true."""
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
