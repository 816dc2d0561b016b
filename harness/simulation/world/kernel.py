"""Virtual time: one heap of events that drives both simulated processes and asyncio coroutines.

The kernel is an asyncio event loop without sockets, threads or a clock. Time is an integer number of microseconds and
jumps from one event to the next. Node processes are plain callbacks on the heap (`at`); workloads and the nemesis are
ordinary coroutines, whose timers asyncio puts on the same heap through `call_at`.

Laws:

* Events run in order of (time, sequence number of scheduling). Nothing else decides, so one seed is one history.
* Time never goes back, and only `Kernel` advances it.
* An exception in a callback ends the run with that exception: a simulation that goes on after an error proves nothing.
* Context variables are not kept apart: nothing that runs here uses any, and copying contexts costs a tenth of a run.

Order leaks that a perfect loop cannot stop (results of `asyncio.wait`, `TaskGroup`, sets of objects; see
docs/architecture.md) are kept out of the code that runs here.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Any, TypeVar

MICROSECONDS = 1_000_000

Result = TypeVar("Result")


def _not_before(seconds: float) -> int:
    """Convert seconds to microseconds, rounded up.

    A coroutine that wakes a nanosecond early would find nothing due, sleep again, and repeat this forever. Differences
    of a ten-thousandth of a microsecond count as float error.
    """
    return ceil(seconds * MICROSECONDS - 1e-4)


class Deadlock(Exception):
    """The awaited coroutine is not done, and no remaining event could finish it."""


class Scheduled(list[Any]):
    """One event: [when, sequence number, callback, arguments]; a list, so that heaps compare events in C.

    It serves as asyncio's handle: coroutines may cancel it. A cancelled event has no callback.
    """

    __slots__ = ()

    def cancel(self) -> None:
        self[2] = None

    def cancelled(self) -> bool:
        return self[2] is None

    def when(self) -> float:
        return float(self[0]) / MICROSECONDS


class Kernel(asyncio.AbstractEventLoop):
    """An event loop in virtual time. `now` is in microseconds since the start of the run.

    Events that are due now wait in a queue and not on the heap. All of them were scheduled at this very time, after
    every event that the heap holds for it, so the heap's events come first.
    """

    LAST_EVENTS = 100_000
    FEW_EVENTS = 256
    """A heap of so few events is not searched for cancelled ones."""

    def __init__(self) -> None:
        self.now = 0
        self.events_run = 0
        self._heap: list[list[Any]] = []
        self._due: deque[list[Any]] = deque()
        self._sweep_at = self.FEW_EVENTS
        self._sequence = 0
        self._running = False
        self._closed = False
        self._failure: BaseException | None = None

    # -- scheduling -------------------------------------------------------------------------------------------

    def at(self, when: int, callback: Callable[..., object], *arguments: object) -> Scheduled:
        """Run `callback` at virtual time `when` (microseconds; the past counts as now)."""
        if when <= self.now:
            return self._push(when, callback, arguments)
        self._sequence += 1
        event = Scheduled((when, self._sequence, callback, arguments))
        heappush(self._heap, event)
        if len(self._heap) > self._sweep_at:
            self._sweep()
        return event

    def after(self, delay: int, callback: Callable[..., object], *arguments: object) -> Scheduled:
        """Run `callback` in `delay` microseconds."""
        return self._push(self.now + delay, callback, arguments)

    def _push(self, when: int, callback: Callable[..., object], arguments: tuple[object, ...]) -> Scheduled:
        self._sequence += 1
        if when > self.now:
            event = Scheduled((when, self._sequence, callback, arguments))
            heappush(self._heap, event)
            if len(self._heap) > self._sweep_at:
                self._sweep()
        else:
            event = Scheduled((self.now, self._sequence, callback, arguments))
            self._due.append(event)
        return event

    def _sweep(self) -> None:
        """Drop cancelled events: most timers are cancelled long before they are due, and make the heap large."""
        self._heap[:] = [event for event in self._heap if event[2] is not None]
        heapify(self._heap)
        self._sweep_at = 2 * len(self._heap) + self.FEW_EVENTS

    # -- running ----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        while True:
            if self._due and not (self._heap and self._heap[0][0] <= self.now):
                event = self._due.popleft()
            elif self._heap:
                event = heappop(self._heap)
            else:
                return False
            when, _, callback, arguments = event
            if callback is None:
                continue
            self.now = when
            self.events_run += 1
            callback(*arguments)
            if self._failure is not None:
                self._raise_failure()
            return True

    def _run_until(self, done: Callable[[], bool]) -> None:
        """Repeat `step` in one inlined loop: a run is hundreds of thousands of steps."""
        heap, due = self._heap, self._due
        while not done():
            if due and (not heap or heap[0][0] > self.now):
                event = due.popleft()
            elif heap:
                event = heappop(heap)
            else:
                raise Deadlock(f"no event left at {self.now} µs")
            callback = event[2]
            if callback is None:
                continue
            self.now = event[0]
            self.events_run += 1
            callback(*event[3])
            if self._failure is not None:
                self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        assert failure is not None
        raise failure

    def run_until_complete(self, future: Any) -> Any:
        """Run events until the awaitable is done. Return its result. Raises Deadlock if nothing can finish it."""
        previous = events._get_running_loop()
        events._set_running_loop(self)
        self._running = True
        try:
            task = asyncio.ensure_future(future, loop=self)
            self._run_until(task.done)
            return task.result()
        finally:
            self._running = False
            events._set_running_loop(previous)

    def run_for(self, duration: int) -> None:
        """Run every event of the next `duration` microseconds."""
        self.run_until_complete(self._pause(duration))

    def shut_down(self) -> None:
        """Cancel every remaining coroutine, in no particular order: the run is over and its trace is complete."""
        previous = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for task in asyncio.all_tasks(self):
                task.cancel()
            for _ in range(self.LAST_EVENTS):
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    if not self.step():
                        break
                if not asyncio.all_tasks(self):
                    break
            self._heap.clear()
            self._due.clear()
        finally:
            events._set_running_loop(previous)

    async def _pause(self, duration: int) -> None:
        future = self.create_future()
        self.at(self.now + duration, future.set_result, None)
        await future

    # -- asyncio's side ---------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now / MICROSECONDS

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        self._sequence += 1
        self._due.append([self.now, self._sequence, callback, args])  # nobody cancels these: a plain list is cheaper

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return self._push(self.now + _not_before(delay), callback, args)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return self._push(_not_before(when), callback, args)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Result], **options: Any) -> asyncio.Task[Result]:  # type: ignore[override]
        return asyncio.Task(coro, loop=self, **options)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if self._failure is None:
            self._failure = failure if isinstance(failure, BaseException) else RuntimeError(context["message"])

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._heap.clear()
        self._due.clear()

    def get_debug(self) -> bool:
        return False

    async def shutdown_asyncgens(self) -> None:
        return None

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return None
