"""Burns CPU and holds memory while its fault is open.

    python3 -u program.py process.stress_worker --state DIR --helper NAME --ready DESCRIPTOR --id FAULT --processes N
        --memory BYTES

It forks one child for each busy process; the kernel kills them however this program ends. Memory is written page by
page, so that it is really allocated. If the machine runs out of memory, the kernel kills this program first.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

from squall.nemesis.agent.core.helpers import GLANCE, announce, is_open
from squall.nemesis.agent.core.journal import Journal

KILL_WHEN_PARENT_DIES = 1
FIRST_TO_GO = "1000"
PAGE = 4096


def die_with_parent(parent: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(KILL_WHEN_PARENT_DIES, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def keep_a_processor_busy(parent: int) -> None:
    """Burn CPU in a child process; does not return."""
    die_with_parent(parent)
    while True:
        sum(range(10_000))


def fill(size: int) -> bytearray:
    memory = bytearray(size)
    for at in range(0, size, PAGE):
        memory[at] = 1
    return memory


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="eats processors and memory")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--helper", required=True)
    parser.add_argument("--ready", type=int, required=True, metavar="DESCRIPTOR")
    parser.add_argument("--id", required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--memory", type=int, required=True)
    options = parser.parse_args(argv)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)
    journal, parent = Journal(options.state), os.getpid()
    children = []
    for _ in range(options.processes):
        child = os.fork()
        if child == 0:
            os.close(options.ready)
            keep_a_processor_busy(parent)
        children.append(child)
    eaten = fill(options.memory)
    announce(options.state, options.helper, options.ready)
    while is_open(journal, options.id):
        time.sleep(GLANCE)
    for child in children:
        os.kill(child, signal.SIGKILL)
    return 0 if len(eaten) == options.memory else 1
