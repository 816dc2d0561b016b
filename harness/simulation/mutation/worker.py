"""A process that simulates seeds with one module replaced, or with probes, on request.

    python -m squall.harness.simulation.mutation.worker

The first line of standard input says what is loaded; every further line asks for one seed, and is answered by one line
on standard output. A seed that uses too much processor time, or makes no progress in virtual time, ends as `HANG`; one
that uses too much memory crashes. If even that fails, the kernel ends the process at its limit of processor time.

No module of the nodes may be imported before the mutant is installed, so the simulation is imported late.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import asdict
from types import FrameType
from typing import Any, TextIO

from squall.harness.simulation.mutation.loading import load_mutant
from squall.harness.simulation.mutation.reach import Reached
from squall.harness.simulation.mutation.seeds import Loaded, SeedOutcome, SeedRun

TICK_S = 1.0
TICKS_WITHOUT_PROGRESS = 5
MEMORY_BYTES = 6 << 30
HARD_FACTOR, HARD_EXTRA_S = 1.5, 10


class Hang(KeyboardInterrupt):
    """The seed made no progress, or used too much processor time. No `except Exception` in nodes may catch it."""


class Watchdog:
    """Ends a seed that hangs: raises Hang in the main thread, once a second of processor time from then on."""

    def __init__(self) -> None:
        self.kernel: Any = None
        self._until = float("inf")
        self._now = -1
        self._still = 0

    def start(self, limit_s: float) -> None:
        used = time.process_time()
        self._until, self.kernel, self._still = used + limit_s, None, 0
        hard = int(used + limit_s * HARD_FACTOR + HARD_EXTRA_S)
        resource.setrlimit(resource.RLIMIT_CPU, (hard, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _tick(self, number: int, frame: FrameType | None) -> None:
        now = -1 if self.kernel is None else self.kernel.now
        self._still = self._still + 1 if now == self._now and now > 0 and self.kernel.is_running() else 0
        self._now = now
        if self._still >= TICKS_WITHOUT_PROGRESS:
            raise Hang("no progress in virtual time")
        if time.process_time() > self._until:
            raise Hang("too much processor time")


def run_seed(asked: SeedRun, watchdog: Watchdog, reached: Reached | None = None) -> SeedOutcome:
    """Run one seed in this process."""
    began = time.process_time()
    watchdog.start(asked.limit_s)
    try:
        from squall.harness.simulation.mutation.simulated import simulate_seed  # which imports the mutant

        found = simulate_seed(asked, watchdog)
    except Hang as trouble:
        found = SeedOutcome(asked.scenario, asked.seed, "invalid", ("HANG",), "", 0.0, str(trouble))
    except Exception as trouble:
        said = f"{type(trouble).__name__}: {trouble}\n{traceback.format_exc(limit=-3)}"
        found = SeedOutcome(asked.scenario, asked.seed, "invalid", ("CRASH",), "", 0.0, said)
    finally:
        watchdog.stop()
    answer = asdict(found)
    answer.update(seconds=time.process_time() - began, reached=None if reached is None else reached.take())
    return SeedOutcome(**answer)


def serve(requests: TextIO, answers: TextIO) -> None:
    """Load what the first line says, then run one seed for each further line."""
    loaded = Loaded(**json.loads(requests.readline()))
    reached = Reached() if loaded.probed else None
    if reached is not None:
        reached.install()
    if loaded.module:
        load_mutant(loaded.module, loaded.source)
    watchdog = Watchdog()
    for line in requests:
        outcome = run_seed(SeedRun(**json.loads(line)), watchdog, reached)
        answers.write(json.dumps(asdict(outcome)) + "\n")
        answers.flush()


def main() -> None:
    """Serve on standard input and output; what nodes print goes nowhere."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
