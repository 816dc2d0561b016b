"""Measure the noise of a repeated benchmark on this machine, for the error rates of alarms and of the gate.

A repetition appends 2 000 batches of 1 KB to a log on a real disk, and after each of them runs a loop of pure Python,
the canary. Both are timed by the clock. The sample of a repetition is the 99th percentile of the appends divided by
that of the canary: other work on the machine slows both. Printed is each sample divided by the median of all of them.
Run from the root of a checkout:

    nice -n 10 .venv/bin/python -m tests.results.trends.measure_noise DIRECTORY REPETITIONS > samples.csv
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.server.disk import RealDisk
from squall.nodes.storage.log import Log, LogConfig

APPENDS, LOOPS, WARM_UP = 2_000, 400, 3


def repetition(directory: Path) -> float:
    log = Log.open(RealDisk(directory), "log", LogConfig(), now_ms=0, trace=NullTrace())
    content = build_batch([Record(timestamp=1000, value=bytes(1024))])
    appends, canary = np.empty(APPENDS), np.empty(APPENDS)
    for number in range(APPENDS):
        batch = bytearray(content)
        began = time.perf_counter_ns()
        log.append_as_leader(batch, 0, 0, from_client=True)
        appended = time.perf_counter_ns()
        sum_of_squares()
        appends[number], canary[number] = appended - began, time.perf_counter_ns() - appended
    log.delete()
    return float(np.quantile(appends, 0.99) / np.quantile(canary, 0.99))


def sum_of_squares() -> int:
    """The canary: about as long as an append."""
    total = 0
    for number in range(LOOPS):
        total += number * number
    return total


def main(directory: Path, repetitions: int) -> None:
    samples = np.array([repetition(directory) for _ in range(WARM_UP + repetitions)][WARM_UP:])
    np.savetxt(sys.stdout, samples / np.median(samples), fmt="%.4f")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
