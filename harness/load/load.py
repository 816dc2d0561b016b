"""Control the load workers: start them, send them commands, add up their reports.

A worker (`worker.py`) is a process that exchanges JSON lines on stdin and stdout, so it makes no difference whether the
pipe ends in a local process inside the lab's network or in an SSH channel to a client host. `WorkerPipe` is what both
have in common; local processes are started here, those on client hosts in `remote_load.py`.

`LoadTotals` adds up the workers' progress reports for the screen. The history does not depend on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from squall.harness.errors import UsageError
from squall.harness.load.worker import WorkerSpec
from squall.workloads.clients.programs.client import ProgramChoice
from squall.workloads.core.latency import Latencies, SendLatencies

OPEN_SECONDS = 30.0
STOP_SECONDS = 60.0
RECENT_SECONDS = 10.0


class WorkerFailed(Exception):
    """A worker reported a failure or ended early; the message holds what is known."""


class WorkerPipe(Protocol):
    """A running worker process, on any machine."""

    async def write(self, line: bytes) -> None: ...

    async def read(self) -> bytes:
        """Return the next line; empty once the worker has ended."""
        ...

    async def end(self) -> None:
        """Close its stdin, and make sure that the process ends."""
        ...


class LocalWorker:
    """A worker process on this machine, inside the network of the command `prefix`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, prefix: Sequence[str], log: Path) -> LocalWorker:
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *prefix,
                sys.executable,
                "-m",
                "squall.harness.load.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the control process, which stops its workers in order
                limit=1 << 22,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        return cls(process)

    async def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        await self.process.stdin.drain()

    async def read(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.readline()

    async def end(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 10.0)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


@dataclass
class LoadTotals:
    """The counts of all workers so far, and recent latencies.

    The latencies are those of the last `RECENT_SECONDS`; once the load has stopped, also those of the whole load.
    """

    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    records: int = 0
    latencies_us: list[int] = field(default_factory=list)
    whole: Latencies | None = None

    def of(self, function: str, kind: str) -> int:
        return self.counts[f"{function}.{kind}"]

    def latency_ms(self, quantile: float) -> float | None:
        """Return a quantile of the recent latencies in milliseconds, from intended to acknowledged."""
        if not self.latencies_us:
            return None
        ordered = sorted(self.latencies_us)
        return ordered[min(len(ordered) - 1, int(len(ordered) * quantile))] / 1000


class LoadWorkers:
    """All workers of a run, commanded together."""

    def __init__(self, pipes: Sequence[WorkerPipe], specs: Sequence[WorkerSpec]) -> None:
        self.pipes = pipes
        self.specs = specs
        self.reports: list[asyncio.Queue[dict[str, Any]]] = [asyncio.Queue() for _ in pipes]
        self.latest: list[dict[str, Any]] = [{} for _ in pipes]
        self.recent: deque[tuple[float, list[int]]] = deque()
        """Samples of latencies in µs, with their time of arrival."""
        self.latencies = SendLatencies()
        """Latencies of the whole load; known once it has stopped."""
        self.stopped = False
        self.readers: list[asyncio.Task[None]] = []
        self.trouble: list[str] = []
        """Failures that did not end the load: reasons why the history may not be whole."""
        self.failure: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def open(self) -> list[dict[str, Any]]:
        """Connect all clients. Return what each worker reports about itself."""
        self._start_listening()
        for pipe, spec in zip(self.pipes, self.specs, strict=True):
            await self._tell(pipe, "open", spec=spec.to_json())
        return await self._answers("ready", OPEN_SECONDS)

    async def load(self) -> int:
        """Start the load. Return the moment the first worker began, on the history's clock."""
        for pipe in self.pipes:
            await self._tell(pipe, "load")
        answers = await self._answers("loading", OPEN_SECONDS)
        return min(int(answer["now"]) + spec.clock_offset for answer, spec in zip(answers, self.specs, strict=True))

    async def stop(self) -> None:
        for pipe in self.pipes:
            await self._tell(pipe, "stop")
        for answer in await self._answers("stopped", STOP_SECONDS):
            self.latencies.add(SendLatencies.from_json(answer["send_latencies"]))
        self.stopped = True

    async def final(self, seconds: float) -> list[dict[str, Any]]:
        """Let the first worker do the final reads. Return the state of each topic-partition."""
        await self._tell(self.pipes[0], "final")
        answer = await self._answer(0, "final", seconds + STOP_SECONDS)
        return list(answer["reads"])

    async def close(self) -> int:
        """Close histories and end the workers. Return the number of rows they wrote."""
        for pipe in self.pipes:
            await self._tell(pipe, "close")
        answers = await self._answers("closed", STOP_SECONDS)
        await self.end()
        return sum(int(answer["rows"]) for answer in answers)

    async def end(self) -> None:
        """Make sure that every worker ends; what they recorded stays."""
        await asyncio.gather(*(pipe.end() for pipe in self.pipes), return_exceptions=True)
        for reader in self.readers:
            reader.cancel()
        if not self.failure.done():
            self.failure.cancel()

    def totals(self) -> LoadTotals:
        """Add up all workers' progress."""
        totals = LoadTotals()
        for report in self.latest:
            totals.counts.update(report.get("counts", {}))
            totals.errors.update(report.get("errors", {}))
            totals.records += int(report.get("records", 0))
        self._forget_what_is_old()
        totals.latencies_us = [latency for _, latencies in self.recent for latency in latencies]
        totals.whole = self.latencies.intended if self.stopped else None
        return totals

    def _forget_what_is_old(self) -> None:
        oldest = time.monotonic() - RECENT_SECONDS
        while self.recent and self.recent[0][0] < oldest:
            self.recent.popleft()

    def _start_listening(self) -> None:
        if not self.readers:
            self.readers = [asyncio.create_task(self._listen(index)) for index in range(len(self.pipes))]

    async def _listen(self, index: int) -> None:
        while line := await self.pipes[index].read():
            try:
                report = json.loads(line)
            except ValueError:
                self._fail(f"load worker {index} sent an invalid report: {line[:80]!r}")
                return
            if "counts" in report:
                self.latest[index] = report
                self.recent.append((time.monotonic(), report.get("latencies_us", [])))
                self._forget_what_is_old()
            if report["report"] == "failed":
                self._fail(f"load worker {index}: {report['error']}")
            elif report["report"] != "progress":
                self.reports[index].put_nowait(report)
            if report["report"] == "closed":
                return
        self._fail(f"load worker {index} ended unexpectedly; see its log in the run's directory")

    def _fail(self, reason: str) -> None:
        if not self.failure.done():
            self.failure.set_exception(WorkerFailed(reason))
            self.failure.exception()  # marked as retrieved: it may be that no task awaits it

    async def _tell(self, pipe: WorkerPipe, command: str, **fields: Any) -> None:
        try:
            await pipe.write(json.dumps({"do": command, **fields}).encode() + b"\n")
        except OSError as trouble:
            self._fail(f"a load worker no longer listens: {trouble}")

    async def _answers(self, kind: str, seconds: float) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(self._answer(index, kind, seconds) for index in range(len(self.pipes)))))

    async def _answer(self, index: int, kind: str, seconds: float) -> dict[str, Any]:
        """Return the next report of that kind from one worker. Raises WorkerFailed."""
        wanted: asyncio.Future[Any] = asyncio.ensure_future(self.reports[index].get())
        await asyncio.wait({wanted, self.failure}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            wanted.cancel()
            if self.failure.done():
                self.failure.result()
            raise WorkerFailed(f"load worker {index} did not report {kind!r} within {seconds:g} s")
        report: dict[str, Any] = wanted.result()
        if report["report"] != kind:
            raise WorkerFailed(f"load worker {index} reported {report['report']!r} instead of {kind!r}")
        return report


async def start_local_workers(
    count: int,
    *,
    prefix: Sequence[str],
    directory: Path,
    run_id: str,
    workload: Mapping[str, Any],
    topics: Mapping[str, int],
    bootstrap: Sequence[tuple[str, int]],
    security: Mapping[str, str] | None = None,
    program: ProgramChoice | None = None,
) -> LoadWorkers:
    """Start `count` workers on this machine; their segments and logs go to `directory`."""
    if count < 1:
        raise UsageError("a run needs at least one load worker")
    specs = [
        WorkerSpec(
            run_id=run_id,
            worker=index,
            workers=count,
            workload=dict(workload),
            topics=dict(topics),
            bootstrap=list(bootstrap),
            directory=str(directory),
            security=dict(security or {}),
            program=program,
        )
        for index in range(count)
    ]
    pipes = [await LocalWorker.start(prefix, directory / f"worker-{index}.log") for index in range(count)]
    return LoadWorkers(pipes, specs)
