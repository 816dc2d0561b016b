"""The parent's side of a worker process: start it, ask for seeds, end it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import asdict

from squall.harness.simulation.mutation.seeds import Loaded, SeedOutcome, SeedRun

WALL_FACTOR = 20
"""A worker that has not answered after so many times its limit of processor time is blocked, and ended."""


LIVE: set[subprocess.Popen[str]] = set()
"""The processes that judge mutants now."""


def end_all() -> None:
    """End every process that judges a mutant. What their threads return from then on is void."""
    for process in list(LIVE):
        process.kill()


class WorkerProcess:
    """One worker. Use it from one thread."""

    def __init__(self, loaded: Loaded) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "squall.harness.simulation.mutation.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for the parent, which ends its workers
        )
        LIVE.add(self._process)
        self._write(json.dumps(asdict(loaded)))

    def run(self, asked: SeedRun) -> SeedOutcome:
        """Run one seed. A worker that died, or had to be ended, is an outcome, too."""
        assert self._process.stdout is not None
        timer = threading.Timer(asked.limit_s * WALL_FACTOR, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            self._write(json.dumps(asdict(asked)))
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            return self._died(asked)
        answer = json.loads(line)
        return SeedOutcome(**{**answer, "broken": tuple(answer["broken"])})

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # it has died; reading finds out
            return

    def _died(self, asked: SeedRun) -> SeedOutcome:
        status = self._process.wait()
        hung = -status in (signal.SIGXCPU, signal.SIGKILL)
        name, seconds = ("HANG", asked.limit_s) if hung else ("CRASH", 0.0)
        said = f"the worker ended with status {status}"
        return SeedOutcome(asked.scenario, asked.seed, "invalid", (name,), "", seconds, said)

    def close(self) -> None:
        """End the process at once."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        self._process.wait()
        LIVE.discard(self._process)
