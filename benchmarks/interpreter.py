"""Operations per second of the interpreter, recorded: against clients that do nothing, and acknowledged by brokers.

One generator per process, as in real workloads (a share of threads per topic-partition), completions recorded to a
segment on disk. With clients that do nothing it measures all of our code between the decision on an operation and the
row in the history, in one process (Jepsen's bar: 10 000/s) and in several at once, as load workers run.
`_acknowledged.py` measures how much of that brokers acknowledge. The median of several rounds counts. Processor time
per operation is reported too: unlike operations per second it hardly depends on other load of the machine.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Barrier

from squall.benchmarks._acknowledged import acknowledged
from squall.benchmarks.parts.load import median_of
from squall.benchmarks.parts.measurement import JEPSEN_INTERPRETER, Measurement
from squall.harness.scenario.interpreter import Interpreter
from squall.harness.scenario.recording import Recorder
from squall.workloads.core.generator import Limit, Mix, Reads, Reserve, Writes, threads_mask
from squall.workloads.core.operation import OK, Completion, Operation

OPERATIONS = 30_000
ROUNDS = 5
PROCESSES = 2
START_SECONDS = 60.0
THREADS = 64
TOPIC_PARTITIONS = 8


class IdleClient:
    """Completes every operation at once as ok."""

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


class BenchmarkClock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        return time.monotonic_ns()


@dataclass(frozen=True)
class Round:
    """The start of one round, its operations per second, and the processor time of each operation.

    Generator, client and history are included.
    """

    began: float
    per_second: float
    microseconds: float


def one_round(operations: int, directory: Path) -> Round:
    """Run so many operations, from the first call of the generator until the segment is closed."""
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
        clock=BenchmarkClock(),
        record=recorder.record,
        hand_over=recorder.flush,
        total_threads=THREADS,
    )
    began, processor = time.monotonic(), time.process_time()
    asyncio.run(interpreter.run())
    recorder.close()
    seconds, processor_seconds = time.monotonic() - began, time.process_time() - processor
    assert recorder.rows == operations, f"{recorder.rows} of {operations} operations were recorded"
    return Round(began, operations / seconds, processor_seconds / operations * 1e6)


def rounds(operations: int, count: int, begin_together: Barrier | None = None) -> list[Round]:
    """Run several rounds; the first warms up and is left out."""
    measured = []
    for number in range(count + 1):
        with tempfile.TemporaryDirectory() as directory:
            if begin_together is not None:
                begin_together.wait(START_SECONDS)
            measured.append(one_round(operations, Path(directory)))
            if number == 0:
                measured.clear()
    return measured


def together(processes: int, operations: int, count: int) -> list[Round]:
    """Run several processes at once, round by round: from the first beginning to the last end."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(processes, mp_context=context) as pool:
        barrier = manager.Barrier(processes)
        measured = [one.result() for one in [pool.submit(rounds, operations, count, barrier) for _ in range(processes)]]
    return [_as_one(round_of_all, operations) for round_of_all in zip(*measured, strict=True)]


def _as_one(at_once: tuple[Round, ...], operations: int) -> Round:
    """Combine rounds of several processes, each of so many operations, into one."""
    began = min(one.began for one in at_once)
    ended = max(one.began + operations / one.per_second for one in at_once)
    mean = statistics.mean(one.microseconds for one in at_once)
    return Round(began, len(at_once) * operations / (ended - began), mean)


def run() -> list[Measurement]:
    """Measure one process, several together, and against brokers."""
    alone = rounds(OPERATIONS, ROUNDS)
    several = together(PROCESSES, OPERATIONS, ROUNDS)
    windows = acknowledged()
    return [
        replace(
            _rate("recorded against a no-op client, one process", [one.per_second for one in alone], 10_000, 30_000),
            peer=JEPSEN_INTERPRETER,
        ),
        _cost("    processor time of each", [one.microseconds for one in alone]),
        _rate(f"the same, {PROCESSES} processes together", [one.per_second for one in several], 50_000),
        _cost("    processor time of each", [one.microseconds for one in several]),
        _rate("acknowledged by three brokers, acks=all, idempotent", [one.per_second for one in windows], 10_000),
        _cost("    processor time of the load workers, each", [one.workers_microseconds for one in windows]),
        _cost("    processor time of the three brokers, each", [one.brokers_microseconds for one in windows]),
    ]


def _rate(name: str, samples: list[float], must: float, stretch: float | None = None) -> Measurement:
    return median_of(name, "operations/s", samples, must=must, stretch=stretch)


def _cost(name: str, samples: list[float]) -> Measurement:
    return median_of(name, "µs", samples, higher_is_better=False)
