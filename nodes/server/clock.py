"""The host's wall clock and monotonic clock, and randomness for one node."""

from __future__ import annotations

import random
import time


class SystemWallClock:
    """See `nodes.ports.WallClock`. It jumps when the host's clock does."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def monotonic_us() -> int:
    """`now` as every node method takes it: microseconds, never decreasing."""
    return time.monotonic_ns() // 1000


def seeded_rng() -> random.Random:
    """A generator for one node, seeded by the system's entropy; much cheaper per draw than that source."""
    return random.Random(random.SystemRandom().getrandbits(128))
