"""Seconds from `squall check` on a fresh history of quickstart's size to its verdict, JVM and Spark included.

This is how long a user waits after a run: a new process closes the history (segments to Parquet), starts a JVM and
Spark, checks eight topic-partitions, and writes verdict and report. The history is forged: a minute of 1 500 sends per
second on eight topic-partitions with consumers, more than 120 000 operations, without anomalies.

Measured twice: as from the second time on, and as on a machine without any earlier use of Squall. There the first
process also makes Spark's archive of loaded classes, after it has printed the verdict; so that process is measured both
to the verdict and to its end. Every sample is a separate process on its own copy of the history.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from squall.benchmarks.parts.measurement import Measurement
from squall.results.synthetic.forge import Forge, Forged, forge_run
from squall.results.verdict.verdict import Verdict

TOPIC_PARTITIONS = 8
SENDS = 11_250
SPACING_NS = 110_000_000
"""The longest time between sends of one process: twelve of them make 187 sends per second and topic-partition."""
SEED = 7
COLD_RUNS = 2
RUNS = 5
MUST_S, STRETCH_S = 25, 15
TOLD = "VALID"
"""The beginning of the line with the verdict."""


def forge_history(run_dir: Path, partitions: int = TOPIC_PARTITIONS, sends: int = SENDS) -> int:
    """Write the run to be checked. Returns its number of operations."""
    operations: list[Forged] = []
    for partition in range(partitions):
        operations += Forge(SEED, sends, partition, consumers=1, spacing=SPACING_NS).operations
    forge_run(run_dir, operations, seed=SEED, scenario="benchmark")
    return len(operations)


@dataclass(frozen=True)
class Seconds:
    """From the start of a process to its printed verdict, and to its end."""

    told: float
    ended: float


def one_verdict(history: Path, scratch: Path, cache: Path | None = None) -> Seconds:
    """Time a new `squall check` on a copy of the history.

    `cache` is the directory of Spark's archive, if not the user's own cache directory.
    """
    copy = scratch / "run"
    shutil.copytree(history, copy)
    command = [sys.executable, "-m", "squall.harness.cli.main", "check", str(copy)]
    environment = os.environ if cache is None else {**os.environ, "XDG_CACHE_HOME": str(cache)}
    said: list[str] = []
    told = 0.0
    began = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if line.startswith(TOLD):
                told = time.perf_counter() - began
        status = process.wait()
    seconds = Seconds(told, time.perf_counter() - began)
    assert status == 0 and told and Verdict.load(copy).verdict == "valid", f"exit {status}\n{''.join(said)}"
    shutil.rmtree(copy)
    return seconds


def run() -> list[Measurement]:
    """Measure several times without an archive of classes, then with the one made last."""
    with tempfile.TemporaryDirectory(prefix="squall-bench-") as directory:
        scratch = Path(directory)
        history = scratch / "history"
        operations = forge_history(history)
        caches = [scratch / f"cache-{number}" for number in range(COLD_RUNS)]
        first = [one_verdict(history, scratch, cache) for cache in caches]
        later = [one_verdict(history, scratch, caches[-1]) for _ in range(RUNS)]
    return [
        figure(f"cold verdict on {operations} operations", [one.ended for one in later], MUST_S, STRETCH_S),
        figure("the very first one on a machine", [one.told for one in first], MUST_S, STRETCH_S),
        figure("    and its process at an end", [one.ended for one in first]),
    ]


def figure(name: str, samples: list[float], must: float | None = None, stretch: float | None = None) -> Measurement:
    return Measurement(
        name,
        statistics.median(samples),
        "s",
        must=must,
        stretch=stretch,
        higher_is_better=False,
        samples=tuple(samples),
    )
