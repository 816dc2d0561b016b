"""What has arrived of a topic-partition and was not polled yet: passes from the library to the polling process.

The library delivers runs, each of one session: records, or the error that ended them. A poll takes the next whole run,
together with later runs of the same session; position and session are those of the polling process. Where the library
has threads, runs come through a `Mailbox`, in the order in which the threads received them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from squall.workloads.core.operation import FAIL, OK, Completion


@dataclass
class Run:
    """What arrived of one topic-partition in one session: records, or the error that ended them."""

    session: int
    offsets: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    leader_epoch: int | None = None
    error: str | None = None


@dataclass
class Inbox:
    """What has arrived for one topic-partition and was not polled yet.

    `position` is the offset after the last polled record.
    """

    runs: deque[Run] = field(default_factory=deque)
    session: int = 0
    position: int | None = None
    waiter: asyncio.Future[None] | None = None

    def deliver(self, run: Run) -> None:
        """Add a run. An error equal to the last one is dropped."""
        if run.error is None or not self.runs or self.runs[-1].error != run.error:
            self.runs.append(run)
        self.release()

    async def arrival(self, seconds: float) -> None:
        """Wait until there is something to take, at most so long."""
        if self.runs:
            return
        loop = asyncio.get_running_loop()
        self.waiter = loop.create_future()
        timer = loop.call_later(seconds, self.release)
        try:
            await self.waiter
        finally:
            timer.cancel()
            self.waiter = None

    def release(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def begin(self, session: int, position: int) -> Completion:
        """The completion of a seek: continue from `position` in a new session; drop what arrived before."""
        self.runs.clear()
        self.session, self.position = session, position
        return Completion(OK, session=session, position=position)

    def take(self) -> Completion:
        """The completion of one poll: the next whole run."""
        if not self.runs:
            return Completion(OK, session=self.session, position=self.position)
        run = self.runs.popleft()
        if run.session != self.session:
            self.session, self.position = run.session, None
        if run.error is not None:
            return Completion(FAIL, error=run.error, session=run.session)
        while self.runs and self.runs[0].session == run.session and self.runs[0].error is None:
            more = self.runs.popleft()
            run.offsets += more.offsets
            run.values += more.values
            run.leader_epoch = more.leader_epoch
        position, self.position = self.position, run.offsets[-1] + 1
        return Completion(
            OK,
            offsets=tuple(run.offsets),
            values=tuple(run.values),
            session=run.session,
            position=position,
            leader_epoch=run.leader_epoch,
        )


class Mailbox:
    """Calls from the library's threads, which the event loop executes in their order, many at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._expected = False

    def post(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        if not self._expected:
            self._expected = True
            with contextlib.suppress(RuntimeError):  # the event loop has ended and needs no calls
                self._loop.call_soon_threadsafe(self._carry_out)

    def _carry_out(self) -> None:
        self._expected = False  # first, so that a call posted from here on is either executed below or scheduled again
        while self._calls:
            self._calls.popleft()()
