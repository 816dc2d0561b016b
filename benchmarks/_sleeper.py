"""A process that only sleeps, in short naps: what keeps it from waking up keeps everybody from running.

A virtual machine that stands still, or processors with too much to do, show as a nap that took too long. It is a
process of its own, so that nothing that its starter does is in it.
"""

from __future__ import annotations

import subprocess
import sys
import time

NAP_S = 0.002


def longest_stall_ms(duration_s: float) -> float:
    """Wait for so long; by how many milliseconds a sleeping process was woken up too late, at the worst."""
    command = [sys.executable, "-m", __name__, str(duration_s)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _nap(duration_s: float) -> float:
    worst, now = 0.0, time.monotonic()
    end = now + duration_s
    while now < end:
        began = now
        time.sleep(NAP_S)
        now = time.monotonic()
        worst = max(worst, now - began - NAP_S)
    return worst * 1000


if __name__ == "__main__":
    print(_nap(float(sys.argv[1])))
