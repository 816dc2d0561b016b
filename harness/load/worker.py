"""Run a load worker: one process that runs its shard of the workload and writes its own segment of the history.

    python -m squall.harness.load.worker          # locally, inside the lab's network, or on a client host over SSH

It exchanges JSON lines with the control process, commands in on stdin, reports out on stdout:

    {"do": "clock"}     {"report": "clock", "now": …}           this machine's clock; before open, and after final
    {"do": "open", "spec": {…WorkerSpec…}}
                        {"report": "ready", …}                  clients are connected
    {"do": "load"}      {"report": "loading", "now": …}         then {"report": "progress", …} twice a second
    {"do": "stop"}      {"report": "stopped", …}                no new operations, open ones drained
    {"do": "final"}     {"report": "final", "reads": […], …}
    {"do": "close"}     {"report": "closed", …}                 and the process ends
    {"do": "beat"}      nothing                                 a sign of life, see below
    trouble             {"report": "failed", "error": …}        at any point

When stdin ends (the control process has ended, by any death) or on SIGTERM the worker stops, flushes its segment and
ends. What it had recorded stays readable (HX-03). A link that was cut does not end stdin; so a worker started with
`--silence SECONDS` also ends when it has received nothing for that long.

It imports nothing heavy (no numpy, no pyarrow): its imports are what has to be sent to a client host.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import squall.harness.plugins.load_plugins  # noqa: F401  # workloads of installed packages become known
from squall.harness.scenario.interpreter import Interpreter
from squall.harness.scenario.recording import Recorder
from squall.workloads.clients.common.client import Client, ClientFactory, ClientPlan
from squall.workloads.clients.kits import factory_of
from squall.workloads.clients.programs.client import ProgramChoice
from squall.workloads.core.latency import SendLatencies
from squall.workloads.core.operation import OK, SEND, Event
from squall.workloads.core.ports import Clock, Connector
from squall.workloads.log import Shard, final_states
from squall.workloads.workload import connector_of, kind_of, options_from, workload_of

PROGRESS_SECONDS = 0.5
DRAIN_SECONDS = 15.0


@dataclass(frozen=True)
class WorkerSpec:
    """All a worker needs to know; sent as JSON."""

    run_id: str
    worker: int
    workers: int
    workload: dict[str, Any]
    topics: dict[str, int]
    bootstrap: list[tuple[str, int]]
    directory: str
    clock_id: int = 0
    clock_offset: int = 0
    clock_error: int = 0
    security: dict[str, str] = field(default_factory=dict)
    """How clients connect to a secured cluster, by librdkafka's keys. It has credentials and is written nowhere."""
    program: ProgramChoice | None = None
    """The program of each client, of a workload with `client: program`."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> WorkerSpec:
        bootstrap = [(host, port) for host, port in data["bootstrap"]]
        program = data.get("program") and ProgramChoice(
            **{**data["program"], "command": tuple(data["program"]["command"])}
        )
        return cls(**{**data, "bootstrap": bootstrap, "program": program})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class MonotonicClock:
    """CLOCK_MONOTONIC: shared by every process of one machine."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LoadProgress:
    """Counts for the control process's progress line: totals, and latencies since the last report."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.errors: Counter[str] = Counter()
        self.records = 0
        self.latencies: list[int] = []
        self.sends = SendLatencies()

    def note(self, event: Event) -> None:
        self.sends.note(event)
        completion = event.completion
        if completion is None or event.completed is None:
            return
        operation = event.operation
        self.counts[operation.f, completion.type] += 1
        self.records += len(completion.offsets)
        if completion.error is not None:
            self.errors[completion.error] += 1
        if operation.f == SEND and completion.type == OK:
            self.latencies.append(event.completed - operation.at)

    def look(self) -> dict[str, Any]:
        """Return the counts so far; the latencies (µs, a sample of at most 200) since the last call."""
        latencies, self.latencies = sorted(self.latencies), []
        step = max(1, len(latencies) // 200)
        return {
            "counts": {f"{function}.{kind}": count for (function, kind), count in self.counts.items()},
            "errors": dict(self.errors.most_common(8)),
            "records": self.records,
            "latencies_us": [value // 1000 for value in latencies[::step]],
        }


class LoadWorker:
    """Carries out a worker's commands, one at a time."""

    def __init__(self, spec: WorkerSpec, factory: ClientFactory, report: Callable[..., None]) -> None:
        self.spec = spec
        self.factory = factory
        self.report = report
        self.clock = MonotonicClock()
        options = options_from(spec.workload)
        self.workload = workload_of(options, spec.topics)
        self.recorder = Recorder.open(
            Path(spec.directory),
            spec.run_id,
            spec.worker,
            acks=options.acks,
            idempotent=options.idempotent and options.acks == "all",
            clock_id=spec.clock_id,
            clock_offset=spec.clock_offset,
            clock_error=spec.clock_error,
        )
        self.progress = LoadProgress()
        self.shard = self.workload.shard(spec.worker, spec.workers)
        self.clients: list[Client] = []
        self.interpreter: Interpreter | None = None
        self.loading: asyncio.Task[Any] | None = None

    async def open(self) -> None:
        self.interpreter = await self._interpreter(self.shard)
        self.report("ready", pid=os.getpid(), now=self.clock.now_ns(), threads=len(self.interpreter.clients))

    async def load(self) -> None:
        assert self.interpreter is not None, "open comes before load"
        self.loading = asyncio.create_task(self.interpreter.run())
        self.report("loading", now=self.clock.now_ns())

    async def stop(self) -> None:
        """End the load; open operations get their time to complete."""
        if self.interpreter is not None and self.loading is not None:
            self.interpreter.stop()
            await self.loading
            self.loading = None
        await self._close_clients()
        self.recorder.flush()
        latencies = self.progress.sends.to_json()
        self.report("stopped", now=self.clock.now_ns(), send_latencies=latencies, **self.progress.look())

    async def final(self) -> None:
        """Write markers and read every topic-partition completely."""
        interpreter = await self._interpreter(self.workload.final_shard())
        generator = await interpreter.run()
        await self._close_clients()
        self.recorder.flush()
        reads = [asdict(state) for state in final_states(generator)]
        self.report("final", reads=reads, now=self.clock.now_ns(), **self.progress.look())

    async def close(self) -> None:
        await self._close_clients()
        self.recorder.close()
        self.report("closed", rows=self.recorder.rows)

    async def abandon(self) -> None:
        """Keep what was recorded, at once: the control process has ended, or asks the worker to end."""
        self.recorder.flush()
        if self.interpreter is not None:
            self.interpreter.drain = 0.0
            self.interpreter.stop()
        if self.loading is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.loading, 2.0)
        self.recorder.close()

    async def report_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            self.recorder.flush()
            self.report("progress", now=self.clock.now_ns(), **self.progress.look())

    async def _interpreter(self, shard: Shard) -> Interpreter:
        clients: dict[int, Client] = {}
        numbers: dict[int, int] = {}
        for plan in shard.clients:
            client = await self._opened(plan)
            for thread in plan.threads:
                clients[thread], numbers[thread] = client, plan.client
        return Interpreter(
            shard.generator,
            clients,
            numbers,
            clock=self.clock,
            record=self._record,
            hand_over=self.recorder.flush,
            total_threads=self.workload.total_threads,
            drain=DRAIN_SECONDS,
        )

    async def _opened(self, plan: ClientPlan) -> Client:
        client = self.factory.client(plan)
        await client.open()
        await client.setup()
        self.clients.append(client)
        return client

    def _record(self, event: Event) -> None:
        self.recorder.record(event)
        self.progress.note(event)

    async def _close_clients(self) -> None:
        await asyncio.gather(*(client.close() for client in self.clients))
        self.clients.clear()


def report_on_stdout(kind: str, **fields: Any) -> None:
    """Write one JSON line to the control process; if it no longer reads, stdin will end."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps({"report": kind, **fields}) + "\n")
        sys.stdout.flush()


async def commands(ended: asyncio.Event, silence: float | None) -> asyncio.Queue[dict[str, Any]]:
    """Return a queue of commands from stdin; `ended` is set when stdin ends, or is silent for `silence` seconds."""
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def pump() -> None:
        with contextlib.suppress(TimeoutError):
            while line := await asyncio.wait_for(reader.readline(), silence):
                asked = json.loads(line)
                if asked["do"] != "beat":
                    queue.put_nowait(asked)
        ended.set()

    queue.pump = asyncio.create_task(pump())  # type: ignore[attr-defined]  # kept from being collected
    return queue


async def serve(report: Callable[..., None] = report_on_stdout, silence: float | None = None) -> int:
    """Carry out commands until `close`, or until the control process has ended."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    queue = await commands(ended, silence)
    worker: LoadWorker | None = None
    progress: asyncio.Task[None] | None = None
    gone = asyncio.create_task(ended.wait())
    try:
        while True:
            command = asyncio.create_task(queue.get())
            await _command_or_failure(command, gone, worker, progress)
            if not command.done():
                command.cancel()
                break
            asked = command.result()
            if asked["do"] == "clock":
                report("clock", now=time.monotonic_ns())
                continue
            if asked["do"] == "open":
                spec = WorkerSpec.from_json(asked["spec"])
                worker = LoadWorker(spec, factory_for(spec), report)
            if worker is None:
                raise RuntimeError(f"{asked['do']} before open")
            await _interruptible(getattr(worker, asked["do"])(), gone)
            if gone.done():
                break
            if asked["do"] == "load":
                progress = asyncio.create_task(worker.report_progress())
            if asked["do"] in ("stop", "close") and progress is not None:
                progress.cancel()
            if asked["do"] == "close":
                return 0
    except Exception as trouble:
        report("failed", error=f"{type(trouble).__name__}: {trouble}")
        if worker is not None:
            await worker.abandon()
        return 1
    if worker is not None:
        await worker.abandon()
    return 0


async def _command_or_failure(
    command: asyncio.Task[Any],
    gone: asyncio.Task[Any],
    worker: LoadWorker | None,
    progress: asyncio.Task[None] | None,
) -> None:
    """Wait for a command or the end of the control process.

    Raises what ends the load or its reports before that.
    """
    working = {task for task in (progress, None if worker is None else worker.loading) if task is not None}
    while True:
        await asyncio.wait({command, gone, *working}, return_when=asyncio.FIRST_COMPLETED)
        for task in [task for task in working if task.done()]:
            working.discard(task)
            if not task.cancelled() and (trouble := task.exception()) is not None:
                command.cancel()
                raise trouble
        if command.done() or gone.done():
            return


def factory_for(spec: WorkerSpec) -> ClientFactory:
    """Return the client library of a worker's workload. Raises LibraryMissing."""
    options = options_from(spec.workload)
    clients = kind_of(options).clients
    if clients is not None:
        return clients(options, tuple(spec.bootstrap))

    def native() -> tuple[Connector, Clock]:
        from squall.harness.load.tcp import SocketsHere, TcpConnector

        if spec.security:
            from squall.harness.load.secure import SecureConnector

            return connector_of(options, SecureConnector(SocketsHere(), spec.security)), MonotonicClock()
        return connector_of(options, TcpConnector(SocketsHere())), MonotonicClock()

    return factory_of(options.client, tuple(spec.bootstrap), native, spec.security, spec.program)


async def _interruptible(work: Any, gone: asyncio.Task[Any]) -> None:
    """Do the work, but not beyond the end of the control process."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    else:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m squall.harness.load.worker", description="One load worker.")
    parser.add_argument("--silence", type=float, help="end after so many seconds without a word on stdin")
    status = asyncio.run(serve(silence=parser.parse_args().silence))
    with contextlib.suppress(OSError):  # the control process no longer reads
        sys.stdout.flush()
    os._exit(status)  # client libraries may have threads that wait for brokers; all data is on disk by now


if __name__ == "__main__":
    main()
