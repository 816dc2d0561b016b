"""A process that only sleeps, in short naps, to measure how long the machine keeps processes from running.

A stalled virtual machine, or overloaded processors, show as a nap that took too long. It is a separate process, so that
the work of its starter does not count.
"""

from __future__ import annotations

import subprocess
import sys
import time

NAP_S = 0.002


def longest_stall_ms(duration_s: float) -> float:
    """Sleep for so long; return the worst delay of a wake-up, in milliseconds."""
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
