"""Large buffers that were freed serve again instead of going back to the kernel."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from squall.nodes.server.memory import keep_freed_buffers
if {tuned}:
    keep_freed_buffers()
def frames():
    return [bytearray(1_000_000) for _ in range(8)]
frames()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    frames()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_ONE_ROUND = 8 * 1_000_000 // 4096


def page_faults(*, tuned: bool) -> int:
    """How often the kernel had to hand out a page for twenty rounds of eight buffers of a megabyte."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(tuned=tuned)], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is not glibc's")
def test_freed_buffers_are_used_again_without_asking_the_kernel() -> None:
    assert page_faults(tuned=False) > 10 * PAGES_OF_ONE_ROUND, "without it, every round pays for its pages"
    assert page_faults(tuned=True) < PAGES_OF_ONE_ROUND
