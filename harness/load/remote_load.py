"""Run load workers on client hosts: the same program and protocol as locally, over an SSH channel as the pipe.

    control process ──stdin──▶ sshd ──▶ squall.harness.load.worker ──▶ ~/.squall/load/RUN-0/history/segment-000.jsonl

Differences from a local worker:

* Its clock is another machine's. It is read before and after the load (`clocks.py`), over the same pipe.
* Its segment lies on the client host. It is fetched when the worker has ended, for any reason. The run's history is
  put in its place only when *all* segments are there: with half a history, a read of a record whose send is missing
  would look like a phantom.
* The link may be cut without an end of the stream. Then the worker receives no beats any more, and ends by its own
  timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shlex
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from squall.harness.hosts.client_bundle import ClientHost
from squall.harness.hosts.clocks import ClockReading
from squall.harness.hosts.ssh import LineChannel
from squall.harness.hosts.ssh_access import SshError
from squall.harness.load.load import OPEN_SECONDS, LoadWorkers
from squall.harness.load.worker import WorkerSpec
from squall.results.history.segments import SEGMENTS_FOLDER, adopt_segment, segment_path
from squall.workloads.clients.programs.client import ProgramChoice

BEAT_SECONDS = 3.0
SILENCE_SECONDS = 20.0
END_SECONDS = 15.0
CLOCK_EXCHANGES = 25
FETCH_ATTEMPTS = 3
FETCHED_FOLDER = "fetched"

END_WORKER = """
import os, select, signal, sys
try:
    pid = int(open(sys.argv[1]).read())
    handle = os.pidfd_open(pid)
    command = open("/proc/%d/cmdline" % pid, "rb").read()
except (OSError, ValueError):
    sys.exit()
if b"squall.harness.load.worker" in command and not select.select([handle], [], [], float(sys.argv[2]))[0]:
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    select.select([handle], [], [], 5)
"""


class RemoteWorker:
    """A worker process on a client host. Implements `WorkerPipe`."""

    def __init__(self, host: ClientHost, directory: str, channel: LineChannel) -> None:
        self.host = host
        self.directory = directory
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._over = asyncio.Event()
        self._sending = ThreadPoolExecutor(1, thread_name_prefix=f"load-{host.name}")
        threading.Thread(target=self._listen, name=f"load-{host.name}", daemon=True).start()
        self._beating = asyncio.create_task(self._beat())

    @classmethod
    async def start(cls, host: ClientHost, run_id: str, worker: int) -> RemoteWorker:
        """Start a worker. Raises SshError."""
        directory = host.directory(run_id, worker)
        channel = await asyncio.to_thread(host.remote.open_channel, worker_command(host, directory))
        return cls(host, directory, channel)

    async def write(self, line: bytes) -> None:
        try:
            await self._loop.run_in_executor(self._sending, self._channel.send_line, line.rstrip(b"\n"))
        except SshError as lost:
            raise ConnectionError(str(lost)) from None

    async def read(self) -> bytes:
        return await self._lines.get()

    async def end(self) -> None:
        """End its input and wait for the end of its output, for a limited time; then close the channel."""
        if self._beating.done():
            return
        self._beating.cancel()
        await asyncio.to_thread(self._channel.end_input)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), END_SECONDS)
        self._channel.close()
        self._sending.shutdown(wait=False)

    def fetch(self, worker: int, into: Path) -> None:
        """Make sure that the process has ended, and fetch its segment and its log. Raises SshError.

        Blocking. A file that the worker never wrote is no error.
        """
        remote, python = self.host.remote, self.host.deployed.place.python
        argv = [python, "-c", END_WORKER, f"{self.directory}/worker.pid", f"{SILENCE_SECONDS + 5:g}"]
        remote.run(argv, timeout=SILENCE_SECONDS + 15)
        log, segment = f"{self.directory}/worker.log", str(segment_path(self.directory, worker))
        wanted = {log: into / f"worker-{worker}.log", segment: segment_path(into / FETCHED_FOLDER, worker)}
        for source, target in wanted.items():
            if remote.run(["test", "-e", source]).ok:
                target.parent.mkdir(parents=True, exist_ok=True)
                remote.get(source, target)
        remote.run(["rm", "-rf", "--", self.directory])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            with contextlib.suppress(ConnectionError):  # the reader notices
                await self.write(b'{"do": "beat"}')

    def _listen(self) -> None:
        """In a thread: pass on every line, and at last an empty one."""
        with contextlib.suppress(SshError):
            while True:
                line = self._channel.receive_line(timeout=None)
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line + b"\n")
        with contextlib.suppress(RuntimeError):  # if the loop is closed, no task waits any more
            self._loop.call_soon_threadsafe(self._lines.put_nowait, b"")
            self._loop.call_soon_threadsafe(self._over.set)


def worker_command(host: ClientHost, directory: str) -> str:
    """Return the line of shell that becomes the worker, with its process id and its stderr in files of `directory`."""
    place, quoted = host.deployed.place, shlex.quote(directory)
    worker = [place.python, "-m", "squall.harness.load.worker", "--silence", f"{SILENCE_SECONDS:g}"]
    return (
        f"mkdir -p {quoted} && echo $$ >{quoted}/worker.pid && cd {quoted} &&"
        f" PYTHONPATH={shlex.quote(place.library)} PYTHONUNBUFFERED=1 exec {shlex.join(worker)} 2>worker.log"
    )


class RemoteLoadWorkers(LoadWorkers):
    """All workers of a run on client hosts: commanded like local ones, with their history fetched at the end."""

    def __init__(self, workers: Sequence[RemoteWorker], specs: Sequence[WorkerSpec], directory: Path) -> None:
        super().__init__(workers, specs)
        self.workers = workers
        self.directory = directory
        self.first: dict[int, ClockReading] = {}
        self.both: dict[int, ClockReading] = {}
        """Readings before and after the load, by clock id."""
        self.ended = False

    async def open(self) -> list[dict[str, Any]]:
        self._start_listening()
        self.first = await self._read_clocks()
        self.specs = [self._with_clock(spec) for spec in self.specs]
        return await super().open()

    async def close(self) -> int:
        for clock_id, later in (await self._read_clocks()).items():
            self.both[clock_id] = self.first[clock_id].and_later(later)
        return await super().close()

    async def end(self) -> None:
        """Make sure that every worker ends, and fetch their history. What is missing is in `trouble`."""
        await super().end()
        if not self.ended:
            self.ended = True
            await asyncio.to_thread(self._collect)

    def known_clocks(self) -> dict[int, ClockReading]:
        """Return the known reading of every client host's clock, by clock id."""
        now = time.monotonic_ns()
        return {clock_id: first.until(now) for clock_id, first in self.first.items()} | self.both

    async def _read_clocks(self) -> dict[int, ClockReading]:
        """Read every host's clock, by the first of its workers.

        Workers of one host share one reading, so that their times stay exactly comparable with each other.
        """
        first = {spec.clock_id: index for index, spec in reversed(list(enumerate(self.specs)))}
        return {clock_id: await self._read_clock(index) for clock_id, index in first.items()}

    async def _read_clock(self, index: int) -> ClockReading:
        return min([await self._exchange(index) for _ in range(CLOCK_EXCHANGES)], key=lambda one: one.error)

    async def _exchange(self, index: int) -> ClockReading:
        asked = time.monotonic_ns()
        await self._tell(self.pipes[index], "clock")
        theirs = int((await self._answer(index, "clock", OPEN_SECONDS))["now"])
        return ClockReading.of_exchange(asked, theirs, time.monotonic_ns())

    def _with_clock(self, spec: WorkerSpec) -> WorkerSpec:
        reading = self.first[spec.clock_id]
        return dataclasses.replace(spec, clock_offset=reading.offset, clock_error=reading.error)

    def _collect(self) -> None:
        """Fetch everything; put the history in its place if it is whole."""
        with ThreadPoolExecutor(len(self.workers), thread_name_prefix="fetch") as pool:
            self.trouble += [one for one in pool.map(self._fetched, range(len(self.workers))) if one is not None]
        fetched = self.directory / FETCHED_FOLDER
        if self.trouble or not (fetched / SEGMENTS_FOLDER).exists():
            return
        clocks = self.known_clocks()
        for spec in self.specs:
            segment = segment_path(fetched, spec.worker)
            if segment.exists():
                clock = clocks[spec.clock_id]
                adopt_segment(segment, segment, clock.offset, clock.error)
        (fetched / SEGMENTS_FOLDER).rename(self.directory / SEGMENTS_FOLDER)
        shutil.rmtree(fetched)

    def _fetched(self, index: int) -> str | None:
        """Fetch what one worker left. Return what went wrong."""
        worker, number = self.workers[index], self.specs[index].worker
        for attempt in range(FETCH_ATTEMPTS):
            try:
                worker.fetch(number, self.directory)
                return None
            except SshError as wrong:
                problem = wrong.problem
            except OSError as wrong:
                problem = str(wrong)
            time.sleep(attempt)
        return f"the history of load worker {number} is still on its host, in {worker.directory}: {problem}"


async def start_remote_workers(
    count: int,
    *,
    hosts: Sequence[ClientHost],
    directory: Path,
    run_id: str,
    workload: Mapping[str, Any],
    topics: Mapping[str, int],
    bootstrap: Sequence[tuple[str, int]],
    programs: Mapping[str, ProgramChoice] | None = None,
) -> RemoteLoadWorkers:
    """Start `count` workers, in turn on `hosts`. Their history is fetched to `directory` when they have ended.

    `programs` are the clients' programs by host, of a workload with `client: program`.
    """
    placed = [hosts[index % len(hosts)] for index in range(count)]
    starting = (RemoteWorker.start(host, run_id, index) for index, host in enumerate(placed))
    workers = await asyncio.gather(*starting, return_exceptions=True)
    started = [worker for worker in workers if isinstance(worker, RemoteWorker)]
    wrong = [one for one in workers if isinstance(one, BaseException)]
    if wrong:
        await asyncio.gather(*(worker.end() for worker in started))
        raise wrong[0]
    specs = [
        WorkerSpec(
            run_id=run_id,
            worker=index,
            workers=count,
            workload=dict(workload),
            topics=dict(topics),
            bootstrap=list(bootstrap),
            directory=worker.directory,
            clock_id=worker.host.clock_id,
            program=(programs or {}).get(worker.host.name),
        )
        for index, worker in enumerate(started)
    ]
    return RemoteLoadWorkers(started, specs, directory)


def workers_on(hosts: int, at_least: int, most: int) -> int:
    """Return how many workers to start: one per host, but between the local number and the number of producers."""
    return min(max(hosts, at_least), most)
