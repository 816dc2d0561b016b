"""Virtual time: one heap of events that drives simulated processes and asyncio coroutines alike.

The kernel is an asyncio event loop without sockets, threads or a clock of its own. Time is an integer number of
microseconds and jumps from one event to the next. Node processes are plain callbacks on the heap (`at`); workloads
and the nemesis are ordinary coroutines, whose timers asyncio puts on the same heap through `call_at`.

Laws:

* Events run in order of (time, sequence number of scheduling). Nothing else decides, so one seed is one history.
* Time never goes back, and only `Kernel` advances it.
* An exception in a callback ends the run with that exception: a simulation that goes on after an error proves nothing.

Order leaks that a perfect loop cannot stop (results of `asyncio.wait`, `TaskGroup`, sets of objects; see
docs/architecture.md) are kept out of the code that runs here.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

MICROSECONDS = 1_000_000

Result = TypeVar("Result")


class Deadlock(Exception):
    """The awaited coroutine is not done and no event is left that could finish it."""


class _Timer(asyncio.TimerHandle):
    """A handle on the kernel's heap; `TimerHandle`'s own ordering is never used."""

    __slots__ = ()


class Kernel(asyncio.AbstractEventLoop):
    """An event loop in virtual time. `now` is in microseconds since the start of the run."""

    LAST_EVENTS = 100_000

    def __init__(self) -> None:
        self.now = 0
        self.events_run = 0
        self._heap: list[tuple[int, int, asyncio.Handle]] = []
        self._sequence = 0
        self._running = False
        self._closed = False
        self._failure: BaseException | None = None

    # -- scheduling -------------------------------------------------------------------------------------------

    def at(self, when: int, callback: Callable[..., object], *arguments: object) -> asyncio.Handle:
        """Run `callback` at virtual time `when` (microseconds; the past counts as now)."""
        return self._push(max(when, self.now), callback, arguments, None)

    def after(self, delay: int, callback: Callable[..., object], *arguments: object) -> asyncio.Handle:
        """Run `callback` in `delay` microseconds."""
        return self.at(self.now + delay, callback, *arguments)

    def _push(
        self,
        when: int,
        callback: Callable[..., object],
        arguments: tuple[object, ...],
        context: Context | None,
    ) -> asyncio.TimerHandle:
        handle = _Timer(when / MICROSECONDS, callback, arguments, self, context)
        self._sequence += 1
        heapq.heappush(self._heap, (when, self._sequence, handle))
        return handle

    # -- running ----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        while self._heap:
            when, _, handle = heapq.heappop(self._heap)
            if handle.cancelled():
                continue
            self.now = when
            self.events_run += 1
            handle._run()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            return True
        return False

    def run_until_complete(self, future: Any) -> Any:
        """Run events until the awaitable is done; its result. Raises Deadlock if nothing can finish it."""
        previous = events._get_running_loop()
        events._set_running_loop(self)
        self._running = True
        try:
            task = asyncio.ensure_future(future, loop=self)
            while not task.done():
                if not self.step():
                    raise Deadlock(f"no event left at {self.now} µs")
            return task.result()
        finally:
            self._running = False
            events._set_running_loop(previous)

    def run_for(self, duration: int) -> None:
        """Run every event of the next `duration` microseconds."""
        self.run_until_complete(self._pause(duration))

    def shut_down(self) -> None:
        """End every coroutine that is left, in no particular order: the run is over and its trace is taken."""
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
        finally:
            events._set_running_loop(previous)

    async def _pause(self, duration: int) -> None:
        future = self.create_future()
        self.at(self.now + duration, future.set_result, None)
        await future

    # -- asyncio's side ---------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now / MICROSECONDS

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        return self._push(self.now, callback, args, context or copy_context())

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._push(self.now + max(0, round(delay * MICROSECONDS)), callback, args, context or copy_context())

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return self._push(max(self.now, round(when * MICROSECONDS)), callback, args, context or copy_context())

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        return None

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

    def get_debug(self) -> bool:
        return False

    async def shutdown_asyncgens(self) -> None:
        return None

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return None
