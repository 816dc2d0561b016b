"""The controller's event queue: one procedure at a time, from its first step to its last (ZK-05).

A procedure is a generator. It yields a sequence of operations and is resumed with their responses, when all of them
have arrived; so it reads like the blocking code of a thread, and nothing else of the controller runs in between. What
arrives meanwhile waits in the queue: requests of administrators, fired watches, responses of brokers. During the
bootstrap of a new controller that is every request (ZK-13).

A procedure that computes for long yields `PAUSE` now and then: it is resumed in the next turn, so that the session's
pings and the responses of brokers go on meanwhile. With a million topic-partitions a turn would else outlast the
session.

A procedure ends with `ControllerMoved` when another controller has been elected: the epoch check of a write failed. It
ends with `SessionLost` when the session has expired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence

from squall.nodes.ports import Trace
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.session import Code, Operation, SessionResponse

Steps = Generator[Sequence[Operation], list[SessionResponse], None]
"""A procedure without a result."""


class Pause(tuple[Operation, ...]):
    """No operation, and go on in the next turn."""


PAUSE = Pause()
Start = Callable[[], Steps]


class ControllerMoved(Exception):
    """Another broker is the controller, or nobody is."""


class SessionLost(Exception):
    """The session has expired: its ephemeral znodes are gone, and so are its watches."""


class EventLoop:
    """See the module. `failed(now, error)` is called when a procedure ends with one of the two exceptions."""

    def __init__(
        self, node: int, client: ZooKeeperClient, trace: Trace, failed: Callable[[int, Exception], None]
    ) -> None:
        self._node = node
        self._client = client
        self._trace = trace
        self._failed = failed
        self.on_end: Callable[[str, int, int], None] = _ignore
        """Called when a procedure has ended: its name, and the microseconds that it waited and that it took."""
        self._queue: deque[tuple[str, Start, int]] = deque()
        self._running: Steps | None = None
        self._name, self._put_at, self._began_at = "", 0, 0
        """Of the procedure that runs."""
        self._generation = 0
        self._is_paused = False
        self._is_inside = False
        """Whether a step of the running procedure is being executed."""

    def __len__(self) -> int:
        """The number of procedures that wait."""
        return len(self._queue)

    @property
    def is_idle(self) -> bool:
        return self._running is None and not self._queue

    @property
    def is_paused(self) -> bool:
        """Whether a procedure waits for the next turn, and for nothing else."""
        return self._is_paused

    def put(self, now: int, name: str, start: Start) -> None:
        """Append a procedure."""
        self._queue.append((name, start, now))

    def clear(self) -> None:
        """Drop everything that waits, and the procedure that runs, unless it is the caller."""
        self._queue.clear()
        running = self._running
        if running is not None and not self._is_inside:
            self._generation += 1
            self._running = None
            self._is_paused = False
            running.close()

    def advance(self, now: int) -> None:
        """Go on with the procedure that has paused; begin procedures until one has to wait."""
        if self._is_paused:
            self._is_paused = False
            self._resume(now, [])
        while self._running is None and self._queue:
            name, start, put_at = self._queue.popleft()
            self._name, self._put_at, self._began_at = name, put_at, now
            self._trace.event("controller_event", node=self._node, event=name)
            self._running = start()
            self._resume(now, None)

    def _resume(self, now: int, responses: list[SessionResponse] | None) -> None:
        running = self._running
        if running is None:
            return
        self._is_inside = True
        try:
            operations: Sequence[Operation] = ()
            while not operations and operations is not PAUSE:  # a procedure may find that it has nothing to do
                operations = next(running) if responses is None else running.send(responses)
                responses = []
        except StopIteration:
            self._running = None
            self.on_end(self._name, self._began_at - self._put_at, now - self._began_at)
        except (ControllerMoved, SessionLost) as error:
            self._running = None
            self._failed(now, error)
        else:
            if operations is PAUSE:
                self._is_paused = True
                return
            self._client.submit(now, operations, self._answered(self._generation))
        finally:
            self._is_inside = False

    def _answered(self, generation: int) -> Callable[[int, list[SessionResponse]], None]:
        def answered(now: int, responses: list[SessionResponse]) -> None:
            if generation != self._generation or self._running is None:
                return
            if any(one.code is Code.SESSION_EXPIRED for one in responses):
                self.clear()
                self._failed(now, SessionLost())
                return
            self._resume(now, responses)
            self.advance(now)

        return answered


def _ignore(name: str, waited: int, took: int) -> None:
    pass
