"""Operations per second of the interpreter, recorded, against clients that do nothing (bar: Jepsen's 10 000).

One process, one generator of the kind real workloads have (a share of threads per topic-partition), completions
recorded to a segment on disk. What is measured is everything of ours between the decision to do something and the
row in the history; the median of several rounds counts.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from squall.benchmarks.measurement import Measurement
from squall.harness.interpreter import Interpreter
from squall.harness.recording import Recorder
from squall.workloads.generator import Limit, Mix, Reads, Reserve, Writes, threads_mask
from squall.workloads.operation import OK, Completion, Operation

OPERATIONS = 30_000
ROUNDS = 5
THREADS = 64
TOPIC_PARTITIONS = 8


class IdleClient:
    """Answers at once that all is well."""

    async def open(self) -> None:
        return None

    async def setup(self) -> None:
        return None

    async def invoke(self, operation: Operation) -> Completion:
        return Completion(OK, offset=1)

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        return None


class Clock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        return time.monotonic_ns()


def one_round(operations: int, directory: Path) -> float:
    """Operations per second of one round."""
    each = THREADS // TOPIC_PARTITIONS
    shares = tuple(
        (
            threads_mask(range(partition * each, (partition + 1) * each)),
            Mix(partition, (Writes("events", partition), Reads("events", partition))),
        )
        for partition in range(TOPIC_PARTITIONS)
    )
    recorder = Recorder.open(directory, "benchmark", 0)
    client = IdleClient()
    interpreter = Interpreter(
        Limit(operations, Reserve(shares)),
        dict.fromkeys(range(THREADS), client),
        dict.fromkeys(range(THREADS), 0),
        clock=Clock(),
        record=recorder.record,
        total_threads=THREADS,
    )
    started = time.perf_counter()
    asyncio.run(interpreter.run())
    recorder.close()
    seconds = time.perf_counter() - started
    assert recorder.rows == operations, f"{recorder.rows} of {operations} operations were recorded"
    return operations / seconds


def run() -> list[Measurement]:
    """Measure; the first round warms up and is not counted."""
    samples = []
    for _ in range(ROUNDS + 1):
        with tempfile.TemporaryDirectory() as directory:
            samples.append(one_round(OPERATIONS, Path(directory)))
    counted = tuple(samples[1:])
    return [
        Measurement(
            "recorded against a no-op client",
            statistics.median(counted),
            "operations/s",
            must=10_000,
            stretch=30_000,
            samples=counted,
        )
    ]
