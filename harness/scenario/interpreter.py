"""Run a workload: get operations from a generator, let clients invoke them, record what happens; for both worlds.

The interpreter is one coroutine. A thread (of the workload, a number) has at most one operation outstanding; the
generator is called only when its operation may be used; every invocation and completion goes to the generator and to
the recorder. A thread whose operation completed `info` continues under a new process number: old number plus the number
of threads of the whole run, so that workers on several machines never use the same one.

Every operation from the generator is checked against the rules (`Validated`) before it is carried out.

Time comes from a `workloads.ports.Clock`; waiting uses `call_later`, an `Event` and tasks, which the simulated loop has
as well. Open-loop generators return `Pending(until)`; the wait ends early when an operation completes.

No client acts before its invocation has left this process: before any other task runs, the recorded events are passed
on (`hand_over`). Otherwise a worker that is killed would leave effects in the system whose cause was never recorded,
and other clients would seem to have read what was never sent (HX-03).

`stop()` ends the generation of operations. Outstanding operations then have `drain` seconds to complete; what is open
after that stays open in the history, as is correct.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from squall.workloads.clients.common.client import Client
from squall.workloads.core.generator import Context, Generator, Pending, Validated
from squall.workloads.core.operation import INFO, Completion, Event, Operation

BURST = 32


class TimeSource(Protocol):
    def now_ns(self) -> int: ...


Record = Callable[[Event], None]


class Interpreter:
    """Drives one generator over the clients of some threads.

    `clients` maps each thread to the client that serves it (many threads may share one), `client_numbers` each thread
    to that client's number in the history. `total_threads` is the number of threads in the whole run. `record` receives
    every invocation and completion; `hand_over` makes what it received survive this process's death.
    """

    def __init__(
        self,
        generator: Generator,
        clients: Mapping[int, Client],
        client_numbers: Mapping[int, int],
        *,
        clock: TimeSource,
        record: Record,
        hand_over: Callable[[], None] = lambda: None,
        total_threads: int,
        drain: float = 30.0,
    ) -> None:
        self.generator = generator
        self.clients = clients
        self.client_numbers = client_numbers
        self.clock = clock
        self.record = record
        self.hand_over = hand_over
        self.total_threads = total_threads
        self.drain = drain
        self.all_threads = sum(1 << thread for thread in clients)
        self.free = self.all_threads
        self.processes = {thread: thread for thread in clients}
        self.last = -1
        self.stopping = False
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.completed: deque[Event] = deque()
        self.wake = asyncio.Event()

    def stop(self) -> None:
        """Stop generating operations; `run` returns when the outstanding ones have completed or their time is over."""
        self.stopping = True
        self.wake.set()

    async def run(self) -> Generator:
        """Run until the generator is exhausted or `stop` is called. Returns the generator's last state."""
        burst = 0
        while not self.stopping:
            self._take_completions()
            context = self._context(self.clock.now_ns())
            answer, after = self.generator.op(context)
            if isinstance(answer, Operation):
                Validated.check(answer, context)
                self.generator = after
                self._dispatch(answer, context.now)
                burst += 1
                if burst % BURST == 0:
                    self.hand_over()
                    await asyncio.sleep(0)
                continue
            if answer is None:
                if not self.tasks:
                    break
                await self._something_happens(None)
                continue
            self.generator = after
            await self._something_happens(self._delay(answer))
        await self._drain()
        return self.generator

    def _context(self, now: int) -> Context:
        return Context(now, self.free, self.all_threads, self.processes, self.client_numbers, self.last)

    def _delay(self, pending: Pending) -> float | None:
        if pending.until is None:
            return None
        return max(0.0, (pending.until - self.clock.now_ns()) / 1e9)

    def _dispatch(self, operation: Operation, now: int) -> None:
        thread = operation.thread
        self.free &= ~(1 << thread)
        self.last = thread
        event = Event(operation, now)
        self.record(event)
        self.generator = self.generator.update(self._context(now), event)
        self.tasks[thread] = asyncio.get_running_loop().create_task(self._invoke(operation, now))

    async def _invoke(self, operation: Operation, invoked: int) -> None:
        try:
            completion = await self.clients[operation.thread].invoke(operation)
        except Exception as trouble:
            completion = Completion(INFO, error=f"client: {type(trouble).__name__}: {trouble}")
        self.completed.append(Event(operation, invoked, completion, self.clock.now_ns()))
        self.wake.set()

    def _take_completions(self) -> None:
        if not self.completed:
            return
        now = self.clock.now_ns()
        while self.completed:
            event = self.completed.popleft()
            thread = event.operation.thread
            del self.tasks[thread]
            self.record(event)
            if event.completion is not None and event.completion.type == INFO:
                fresh = self.processes[thread] + self.total_threads
                self.processes = {**self.processes, thread: fresh}
            self.free |= 1 << thread
            self.generator = self.generator.update(self._context(now), event)

    async def _something_happens(self, delay: float | None) -> None:
        """Wait for a completion, a stop, or the delay."""
        self.hand_over()
        if self.completed:
            await asyncio.sleep(0)
            return
        self.wake.clear()
        if self.stopping:
            return
        if delay is None:
            await self.wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(delay, self.wake.set)
        try:
            await self.wake.wait()
        finally:
            timer.cancel()

    async def _drain(self) -> None:
        """Wait for outstanding operations, at most `drain` seconds, then leave them open."""
        self._take_completions()
        end = self.clock.now_ns() + int(self.drain * 1e9)
        self.wake.clear()
        while self.tasks and self.clock.now_ns() < end:
            timer = asyncio.get_running_loop().call_later((end - self.clock.now_ns()) / 1e9, self.wake.set)
            await self.wake.wait()
            timer.cancel()
            self.wake.clear()
            self._take_completions()
        for thread in sorted(self.tasks):
            self.tasks[thread].cancel()
