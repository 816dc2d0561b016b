"""Operations per second of the interpreter, recorded: against clients that do nothing, and acknowledged by brokers.

One generator per process, of the kind real workloads have (a share of threads per topic-partition), completions
recorded to a segment on disk. What is measured against clients that do nothing is everything of ours between the
decision to do something and the row in the history, in one process (Jepsen's bar: 10 000/s) and in several at once, as
load workers are. How much of that brokers acknowledge is `_acknowledged.py`. The median of several rounds counts.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Barrier

from squall.benchmarks._acknowledged import acknowledged_per_second
from squall.benchmarks.measurement import Measurement
from squall.harness.interpreter import Interpreter
from squall.harness.recording import Recorder
from squall.workloads.generator import Limit, Mix, Reads, Reserve, Writes, threads_mask
from squall.workloads.operation import OK, Completion, Operation

OPERATIONS = 30_000
ROUNDS = 5
PROCESSES = 2
START_SECONDS = 60.0
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


def rounds(operations: int, count: int, begin_together: Barrier | None = None) -> list[tuple[float, float]]:
    """When each round began and how many operations per second it made; the first warms up and is left out."""
    measured = []
    for number in range(count + 1):
        with tempfile.TemporaryDirectory() as directory:
            if begin_together is not None:
                begin_together.wait(START_SECONDS)
            began = time.monotonic()
            measured.append((began, one_round(operations, Path(directory))))
            if number == 0:
                measured.clear()
    return measured


def together(processes: int, operations: int, count: int) -> tuple[float, ...]:
    """Operations per second of several processes at once, round by round: from the first beginning to the last end."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(processes, mp_context=context) as pool:
        barrier = manager.Barrier(processes)
        measured = [one.result() for one in [pool.submit(rounds, operations, count, barrier) for _ in range(processes)]]
    samples = []
    for round_of_all in zip(*measured, strict=True):
        began = min(began for began, _ in round_of_all)
        ended = max(began + operations / rate for began, rate in round_of_all)
        samples.append(processes * operations / (ended - began))
    return tuple(samples)


def run() -> list[Measurement]:
    """Measure alone, together, and against brokers."""
    alone = tuple(rate for _, rate in rounds(OPERATIONS, ROUNDS))
    several = together(PROCESSES, OPERATIONS, ROUNDS)
    acknowledged = acknowledged_per_second()
    return [
        Measurement(
            "recorded against a no-op client, one process",
            statistics.median(alone),
            "operations/s",
            must=10_000,
            stretch=30_000,
            samples=alone,
        ),
        Measurement(
            f"the same, {PROCESSES} processes together",
            statistics.median(several),
            "operations/s",
            must=50_000,
            samples=several,
        ),
        Measurement(
            "acknowledged by three brokers, acks=all, idempotent",
            statistics.median(acknowledged),
            "operations/s",
            must=10_000,
            samples=acknowledged,
        ),
    ]
