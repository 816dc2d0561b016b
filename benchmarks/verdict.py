"""Seconds from `squall check` on a fresh history of quickstart's size to its verdict, JVM and Spark included.

What a person waits for after a run: a new process closes the history (segments to Parquet), starts a JVM and Spark,
checks eight topic-partitions, judges, and writes verdict and report. The history is forged: a minute of 1 500 sends
per second on eight topic-partitions with consumers beside, 120 000 operations and more, all well.

Measured twice: as on a machine where Squall has never been (Spark's archive of loaded classes is yet to be made), and
as from the second time on. Every sample is a process of its own on its own copy of the history.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from squall.benchmarks.measurement import Measurement
from squall.results.forge import Forge, Forged, forge_run
from squall.results.verdict import Verdict

TOPIC_PARTITIONS = 8
SENDS = 11_250
SPACING_NS = 110_000_000
"""Time between the sends of one process, at most: twelve of them make 187 sends per second and topic-partition."""
SEED = 7
COLD_RUNS = 2
RUNS = 5
MUST_S, STRETCH_S = 25, 15
TIMEOUT_S = 300


def forge_history(run_dir: Path, partitions: int = TOPIC_PARTITIONS, sends: int = SENDS) -> int:
    """Write the run to be judged; how many operations it has."""
    operations: list[Forged] = []
    for partition in range(partitions):
        operations += Forge(SEED, sends, partition, consumers=1, spacing=SPACING_NS).operations
    forge_run(run_dir, operations, seed=SEED, scenario="benchmark")
    return len(operations)


def one_verdict(history: Path, scratch: Path, cache: Path) -> float:
    """Seconds a fresh `squall check` takes for a copy of the history. `cache` is where Spark's archive is kept."""
    copy = scratch / "run"
    shutil.copytree(history, copy)
    command = [sys.executable, "-m", "squall.harness.cli", "check", str(copy)]
    try:
        began = time.perf_counter()
        done = subprocess.run(
            command,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        seconds = time.perf_counter() - began
        assert done.returncode == 0, f"squall check ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert Verdict.load(copy).verdict == "valid", done.stdout
    finally:
        shutil.rmtree(copy)
    return seconds


def run() -> list[Measurement]:
    """First without an archive of classes, several times; then with the one that was made last."""
    with tempfile.TemporaryDirectory(prefix="squall-bench-") as directory:
        scratch = Path(directory)
        history = scratch / "history"
        operations = forge_history(history)
        caches = [scratch / f"cache-{number}" for number in range(COLD_RUNS)]
        first = [one_verdict(history, scratch, cache) for cache in caches]
        later = [one_verdict(history, scratch, caches[-1]) for _ in range(RUNS)]
    return [
        figure(f"cold verdict on {operations} operations", later),
        figure("the very first one on a machine", first),
    ]


def figure(name: str, samples: list[float]) -> Measurement:
    return Measurement(
        name,
        statistics.median(samples),
        "s",
        must=MUST_S,
        stretch=STRETCH_S,
        higher_is_better=False,
        samples=tuple(samples),
    )
