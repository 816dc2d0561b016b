"""Check runs several times in a separate process, as at the end of a suite, and measure time and memory from outside.

`python -m squall.benchmarks.parts.check_runs ROUNDS WARM RUN…` starts Spark, checks the small run WARM so that every
worker is up, then checks all runs in one job ROUNDS times and prints the seconds of each as JSON. Verdicts and tables
are written; reports are not drawn. Memory is that of the process, its JVM and its workers together.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import psutil

from squall.results.check import check_runs
from squall.results.checkers.engine.spark import SparkEngine

SAMPLE_EVERY_S = 0.1


@dataclass(frozen=True)
class Judged:
    """Seconds of each round, the peak memory of the whole process tree in bytes, and its processor time in seconds."""

    seconds: tuple[float, ...]
    peak: int
    processor: float


class Tree:
    """Samples memory and processor time of a process and all its descendants, while it is a context."""

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._root = psutil.Process(pid)
        self._processor: dict[int, float] = {}
        self._ended = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    @property
    def processor(self) -> float:
        return sum(self._processor.values())

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            self._look()

    def _look(self) -> None:
        resident = 0
        try:
            members = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return
        for one in members:
            try:
                resident += one.memory_info().rss
                times = one.cpu_times()
            except psutil.Error:
                continue
            self._processor[one.pid] = times.user + times.system
        self.peak = max(self.peak, resident)

    def __enter__(self) -> Tree:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def watched(command: Sequence[str]) -> tuple[str, float, Tree]:
    """Run a command; return its output, its duration and its usage. Raises RuntimeError if it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process, Tree(process.pid) as tree:
        said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {process.returncode}\n{said}")
    return said, time.perf_counter() - began, tree


def judged(runs: Sequence[Path], warm: Path, rounds: int) -> Judged:
    """Check runs in a separate process. Raises RuntimeError unless every verdict is valid."""
    command = [sys.executable, "-m", __name__, str(rounds), str(warm), *map(str, runs)]
    said, _, tree = watched(command)
    return Judged(tuple(json.loads(said.splitlines()[-1])), tree.peak, tree.processor)


def main(rounds: int, warm: Path, runs: Sequence[Path]) -> None:
    seconds = []
    with SparkEngine() as engine:
        check_runs([warm], engine, report=False)
        for _ in range(rounds):
            began = time.perf_counter()
            verdicts = check_runs(runs, engine, report=False)
            seconds.append(time.perf_counter() - began)
            wrong = [one for one in verdicts if one.verdict != "valid"]
            if wrong:
                sys.exit(
                    f"{len(wrong)} of {len(runs)} verdicts are not valid: {wrong[0].reasons}, {wrong[0].anomalies}"
                )
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), [Path(one) for one in sys.argv[3:]])
