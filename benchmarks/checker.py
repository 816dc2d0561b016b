"""The checker at size: seconds and memory from a run's directory to its verdict, up to a billion operations.

Histories are forged (`results/synthetic/forge_wide.py`): half sends, half polls, two records for each operation,
sixteen topic-partitions in a topic of ten million operations, and each process sends to all of them. *Warm* is the time
of each further check in a process with Spark running, as at the end of a suite; *cold* is a separate `squall check`,
JVM and report included. Memory is the peak of the process with its JVM and workers. Every verdict must be valid.

`--operations` makes everything smaller (default ten million; the other sizes keep their ratio to it), and then no bar
applies. `--billion` also checks a history a hundred times as large, which needs some 45 GB of disk meanwhile.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from squall.benchmarks import registers
from squall.benchmarks.parts.check_runs import Judged, judged, watched
from squall.benchmarks.parts.measurement import ELLE, JEPSEN_CHECKERS, Measurement
from squall.benchmarks.verdict import one_verdict
from squall.results.history.operation_tables import LIST_APPEND
from squall.results.synthetic.forge_catalogue import FAMILIES
from squall.results.synthetic.forge_wide import PARTITIONS, forge_wide

OPERATIONS = 10_000_000
RUNS_AT_ONCE = 100
TIMES_LARGE, TIMES_BILLION = 5, 100
TRANSACTIONS_SHARE = REGISTERS_SHARE = 0.1
WARM_UP_OPERATIONS = 20_000
ROUNDS, COLD_ROUNDS, LARGE_ROUNDS = 5, 3, 3
SEED = 7
GIB = 2**30
BYTES_OF_AN_OPERATION = 50
"""Bytes per operation on disk, rounded up generously."""
ROOMY = Path("/var/tmp")
"""A directory on disk even where temporary files are kept in memory."""


class Scene:
    """Keeps histories while they are needed, and the small one with which each process warms up."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.warm = scratch / "warm"
        forge_wide(self.warm, WARM_UP_OPERATIONS, seed=SEED)

    @contextmanager
    def forged(self, operations: int, partitions: int = PARTITIONS, most: int = OPERATIONS) -> Iterator[Path]:
        """The history of one run. Raises OSError if there is no room for it."""
        needed, free = operations * BYTES_OF_AN_OPERATION, shutil.disk_usage(self.scratch).free
        if needed > free:
            raise OSError(f"{self.scratch}: {operations} operations need {needed} bytes, {free} are free: make room")
        run = self.scratch / f"run-{operations}-{partitions}"
        try:
            forge_wide(run, operations, seed=SEED, partitions=partitions, most=most)
            yield run
        finally:
            shutil.rmtree(run, ignore_errors=True)

    def judged(self, runs: Sequence[Path], rounds: int) -> Judged:
        return judged(runs, self.warm, rounds)


def run(operations: int = OPERATIONS, billion: bool = False) -> Iterator[Measurement]:
    """Measure everything, in the order of the table; the billion last. Fewer operations than usual have no bar."""
    for one in _figures(operations, billion):
        yield one if operations >= OPERATIONS else replace(one, must=None, stretch=None)


def _figures(operations: int, billion: bool) -> Iterator[Measurement]:
    place = ROOMY if ROOMY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="squall-bench-", dir=place) as directory:
        scene = Scene(Path(directory))
        yield from one_history(scene, operations)
        yield from larger_one(scene, TIMES_LARGE * operations, operations)
        yield from one_topic_partition(scene, operations)
        yield from many_runs(scene, operations)
        yield from registers_per_second(round(operations * REGISTERS_SHARE))
        yield from transactions_per_second(scene, round(operations * TRANSACTIONS_SHARE))
        if billion:
            yield from the_billion(scene, TIMES_BILLION * operations, operations)


def one_history(scene: Scene, operations: int) -> list[Measurement]:
    """Measure one history warm, cold, and with plain pandas."""
    with scene.forged(operations) as history:
        warm = scene.judged([history], ROUNDS)
        cold = [one_verdict(history, scene.scratch).ended for _ in range(COLD_ROUNDS)]
        said, seconds, plain = watched([sys.executable, "-m", "squall.benchmarks.parts.pandas_check", str(history)])
    assert json.loads(said) == {}, f"plain pandas found {said}"
    size = millions(operations)
    return [
        *warm_figures(f"{size} operations", warm, operations, must=5, stretch=3),
        at_most(f"{size} operations, cold", "s", cold, must=25, stretch=12),
        at_most("    plain pandas", "s", [seconds]),
        at_least("    times as fast as that", "", [seconds / statistics.median(warm.seconds)], must=10, stretch=20),
        at_most("    plain pandas, memory", "GiB", [plain.peak / GIB]),
        at_most("    share of its memory", "", [warm.peak / plain.peak], must=1 / 3),
    ]


def larger_one(scene: Scene, operations: int, most: int) -> list[Measurement]:
    with scene.forged(operations, most=most) as history:
        warm = scene.judged([history], LARGE_ROUNDS)
    return warm_figures(f"{millions(operations)} operations", warm, operations, must=20, stretch=13, memory=5)


def one_topic_partition(scene: Scene, operations: int) -> list[Measurement]:
    with scene.forged(operations, partitions=1) as history:
        warm = scene.judged([history], LARGE_ROUNDS)
    return warm_figures(f"{millions(operations)} in one topic-partition", warm, operations, must=10, stretch=5)


def many_runs(scene: Scene, operations: int) -> list[Measurement]:
    """Measure many runs in one job."""
    each = operations // RUNS_AT_ONCE
    runs = [scene.scratch / "runs" / str(number) for number in range(RUNS_AT_ONCE)]
    for number, one in enumerate(runs):
        forge_wide(one, each, seed=SEED + number)
    warm = scene.judged(runs, ROUNDS)
    shutil.rmtree(scene.scratch / "runs")
    return warm_figures(f"{RUNS_AT_ONCE} runs of {millions(each)}", warm, operations, must=6, stretch=3)


def registers_per_second(operations: int) -> list[Measurement]:
    """The worst rate over few and many registers, few and many open operations, with and without versions."""
    worst: list[float] = []
    for most in registers.REGISTERS:
        # With fewer operations a register, some have no read, and a check of nothing does not count.
        count = min(most, max(1, operations // 100))
        for open_at_once in registers.OPEN_AT_ONCE:
            for versions in (False, True):
                table = registers.forged_table(operations, count, open_at_once, versions=versions)
                rates = registers.per_second(table)
                worst = min(worst or rates, rates, key=statistics.median)
    name = f"{millions(operations)} on registers, at the worst concurrency"
    return [at_least(name, "operations/s and core", worst, must=500_000, stretch=1_200_000)]


def transactions_per_second(scene: Scene, transactions: int) -> list[Measurement]:
    """List-append, checked for strict serializability, from the directory to the verdict."""
    directory = scene.scratch / "transactions"
    directory.mkdir()
    count = FAMILIES[LIST_APPEND].write(directory, SEED, transactions, None)
    warm = scene.judged([directory], ROUNDS)
    shutil.rmtree(directory)
    rates = [count / seconds for seconds in warm.seconds]
    found = at_least(f"{millions(count)} list-append", "transactions/s", rates, must=150_000, stretch=500_000)
    return [replace(found, peer=ELLE)]


def the_billion(scene: Scene, operations: int, most: int) -> list[Measurement]:
    """Measure one history, once."""
    with scene.forged(operations, most=most) as history:
        size = sum(path.stat().st_size for path in history.iterdir())
        once = scene.judged([history], 1)
    return [
        *warm_figures(f"{millions(operations)} operations", once, operations, memory=6),
        at_most("    its history on disk", "GB", [size / 1e9]),
    ]


# Figures --------------------------------------------------------------------------------------------------------------


def warm_figures(
    name: str,
    warm: Judged,
    operations: int,
    *,
    must: float | None = None,
    stretch: float | None = None,
    memory: float | None = None,
) -> list[Measurement]:
    """Seconds, followed by the rate and the peak memory."""
    rates = [operations / seconds for seconds in warm.seconds]
    return [
        at_most(f"{name}, warm", "s", warm.seconds, must=must, stretch=stretch),
        replace(at_least("    of these", "operations/s", rates), peer=JEPSEN_CHECKERS),
        at_most("    memory", "GiB", [warm.peak / GIB], must=memory),
    ]


def at_most(
    name: str, unit: str, samples: Sequence[float], *, must: float | None = None, stretch: float | None = None
) -> Measurement:
    return Measurement(name, statistics.median(samples), unit, must, stretch, False, tuple(samples))


def at_least(
    name: str, unit: str, samples: Sequence[float], *, must: float | None = None, stretch: float | None = None
) -> Measurement:
    return Measurement(name, statistics.median(samples), unit, must, stretch, True, tuple(samples))


def millions(count: int) -> str:
    """A readable number: `10 M`, `100 k`, `1 000 M`."""
    return f"{round(count / 1e6):,} M".replace(",", " ") if count >= 1_000_000 else f"{round(count / 1e3)} k"
