"""Run a node process in virtual time: the same loop as the real shell, around the same `Node`.

One iteration delivers the inputs, runs due timers, takes a turn, flushes, and only then releases the outbox. What the
node releases before the flush leaves at once, even if the flush then kills the node. The process is busy, and its
outbox held, for as long as the turn's work and its disk calls took. A crash may strike between iterations or between
any two disk calls of one (`SimDisk.crash_after`).

A disk that fails (`InjectedError`) ends the process too: a node with one log directory stops as Kafka halts, and the
fault that made the disk fail restarts it. Any other OSError, like any exception, is a bug and ends the run.

States: *stopped* (no node; its files remain), *running*, *paused* (inputs wait in the kernel's buffers, time
continues). Every start is a new incarnation with its own random stream, keyed by name and incarnation, so that a
schedule can be shortened without shifting unrelated draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from random import Random
from typing import Any, Literal, Protocol

from squall.harness.simulation.world.buggify import SeededBuggify
from squall.harness.simulation.world.disk import CrashNow, InjectedError, LossMode, SimDisk
from squall.harness.simulation.world.kernel import Kernel, Scheduled
from squall.harness.simulation.world.network import ConnectionEnd, SimNetwork
from squall.harness.simulation.world.streams import Streams
from squall.nodes.node.base import BaseNode
from squall.nodes.node.effects import Close, Connect, Effect, Pause, Resume, Send
from squall.nodes.ports import Trace

NEVER = 2**63 - 1
Input = tuple[Callable[..., None], tuple[Any, ...]]
Outbox = list[Send | Connect | Close | Pause | Resume]


class SimWallClock:
    """A host's time of day: virtual time from a fixed origin, plus a skew that faults may set."""

    ORIGIN_MS = 1_750_000_000_000

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._base_ms = float(self.ORIGIN_MS)
        self._since = 0
        self._rate = 1.0
        self._period = 0

    def now_ms(self) -> int:
        if self._period and (self._kernel.now - self._since) // self._period % 2:
            return int(self.ORIGIN_MS + self._kernel.now / 1000)
        return int(self._base_ms + (self._kernel.now - self._since) / 1000 * self._rate)

    def skew(self, offset_s: float, rate: float = 1.0, period: int = 0) -> None:
        """Show true time plus `offset_s` from now on, running `rate` times as fast.

        With a period (microseconds), alternate between that time and true time.
        """
        self._period = period
        self._base_ms = self.ORIGIN_MS + self._kernel.now / 1000 + offset_s * 1000
        self._since = self._kernel.now
        self._rate = rate

    def true_s(self) -> float:
        """Return the time of day without any skew."""
        return self.ORIGIN_MS / 1000 + self._kernel.now / 1_000_000

    def offset_s(self) -> float:
        return (self.now_ms() - self.ORIGIN_MS) / 1000 - self._kernel.now / 1_000_000


class NodeFactory(Protocol):
    """Makes a node for a new incarnation; bound to one configuration and mutants."""

    def __call__(self, *, disk: SimDisk, clock: SimWallClock, rng: Random, trace: Trace, now: int) -> BaseNode: ...


class SimProcess:
    """One node on one simulated host, through all its incarnations.

    `listeners` maps a port to the name of the node's listener. `observers` are called after every iteration, when the
    node is between turns and its state may be examined.
    """

    TURN_COST = 20
    INPUT_COST = 15
    EARLY = 8
    """Of so many turns that no deadline caused, one is preceded by a turn without inputs."""

    def __init__(
        self,
        name: str,
        address: str,
        listeners: Mapping[int, str],
        *,
        kernel: Kernel,
        network: SimNetwork,
        disk: SimDisk,
        factory: NodeFactory,
        trace: Trace,
        streams: Streams,
        on_iteration: Callable[[SimProcess], None] | None = None,
        on_early_turn: Callable[[SimProcess, int], Callable[[], None]] | None = None,
        on_early_release: Callable[[SimProcess, Sequence[Effect]], None] | None = None,
        on_loss: Callable[[str], None] | None = None,
        buggify: SeededBuggify | None = None,
    ) -> None:
        """`on_loss` is called with the process's name when its disk has lost what was not durable.

        `on_early_turn` is called before a turn for which nothing is due, with the time that the node has named; what it
        returns is called after that turn. `on_early_release` is called with what leaves before a turn's flush.
        """
        self.name = name
        self.address = address
        self.node: BaseNode | None = None
        self.disk = disk
        self.clock = SimWallClock(kernel)
        self.paused = False
        self.incarnation = 0
        self.crashes = 0
        self.crashes_in_calls = 0
        self.disk_failures = 0
        self.last_failure = ""
        self.unclean_restarts = 0
        self.connecting: dict[int, int] = {}
        """The connections that the node has begun to open, and since when; neither opened, closed nor failed."""
        self.last_inputs: list[Input] = []
        """The inputs of the last turn: (method of the node, arguments)."""
        self.last_effects = 0
        """How many effects the node has asked for in the last turn."""
        self._listeners = dict(listeners)
        self._next: tuple[dict[int, str], NodeFactory] | None = None
        self._kernel = kernel
        self._network = network
        self._factory = factory
        self._trace = trace
        self._streams = streams
        self._on_iteration = on_iteration
        self._on_early_turn = on_early_turn
        self._on_early_release = on_early_release
        self._on_loss = on_loss
        self._buggify = buggify
        self._stopped_cleanly = True
        self._closing = False
        self._stopping: list[Callable[[], None]] = []
        self.told_to_stop_at: int | None = None
        """When this incarnation has taken note of SIGTERM, in microseconds."""
        self._inputs: list[Input] = []
        self._ends: dict[int, ConnectionEnd] = {}
        self._ids: dict[int, int] = {}
        self._held: dict[int, list[bytearray]] = {}
        self._busy_until = 0
        self._busy_without_slowness = 0
        self._deadline = 0
        self._woken = False
        self._not_due = 0
        self._released: tuple[Scheduled, int, Outbox] | None = None
        self._stalled: set[int] = set()
        """The accepted connections whose peer reads nothing at present."""
        self._wake: Scheduled | None = None
        self._wake_at = NEVER

    @property
    def running(self) -> bool:
        return self.node is not None

    @property
    def how_it_ended(self) -> Literal["stopped", "died", "died while it closed"]:
        """How the last incarnation ended; of no meaning while one runs."""
        if self._stopped_cleanly:
            return "stopped"
        return "died while it closed" if self._closing else "died"

    @property
    def now(self) -> int:
        """Virtual time."""
        return self._kernel.now

    @property
    def event_number(self) -> int:
        """The number of the current kernel event."""
        return self._kernel.events_run

    def reconfigure(self, listeners: Mapping[int, str], factory: NodeFactory) -> None:
        """Use another configuration from the next start on."""
        self._next = (dict(listeners), factory)

    # -- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a new incarnation on the files as they are. A crash while starting leaves it stopped."""
        if self.node is not None:
            return
        if self._next is not None:
            (self._listeners, self._factory), self._next = self._next, None
        self.incarnation += 1
        self.unclean_restarts += not self._stopped_cleanly
        self._stopped_cleanly = self._closing = False
        self.paused = False
        rng = self._streams.stream(f"{self.name}/{self.incarnation}")
        self.disk.in_use = True
        self.disk.note_start()
        try:
            with self.disk.reads_noted() as self.disk.read_at_start:
                self.node = self._factory(
                    disk=self.disk, clock=self.clock, rng=rng, trace=self._trace, now=self._kernel.now
                )
        except CrashNow:
            self._struck()
            return
        except OSError as failure:
            self._stopped_by_its_disk(failure)
            return
        finally:
            self.disk.in_use = False
        self._spend(self.disk.take_cost())
        self._deadline = 0
        for port, listener in self._listeners.items():
            self._network.listen(self.address, port, self._acceptor(listener))
        self._network.note(f"start {self.name} {self.incarnation}")
        self._wake_up(self._busy_until)

    def crash(self, *, power_loss: bool = False) -> None:
        """Die at once. The page cache survives unless `power_loss`."""
        if self.node is not None:
            self._died()
        if power_loss:
            self.lose_power()

    def lose_power(self, mode: LossMode = "torn") -> int:
        """Discard what was not durable, as `mode` demands. Return the bytes lost. The process must be dead."""
        lost = self.disk.lose_power(mode)
        if mode != "none":
            self._tell_of_loss()
        return lost

    def wipe_disk(self) -> int:
        """Remove every file. Return the bytes lost. Raise RuntimeError if the process is alive."""
        if self.node is not None:
            raise RuntimeError(f"{self.name}: the disk of a process that is alive is not emptied")
        lost = self.disk.wipe()
        self._tell_of_loss()
        return lost

    def _tell_of_loss(self) -> None:
        if self._on_loss is not None:
            self._on_loss(self.name)

    def ask_to_stop(self, ended: Callable[[], None]) -> None:
        """SIGTERM: the node hands over its leaderships, within a bounded time, and stops cleanly.

        `ended` is called at the end of this incarnation, by any cause. A paused process reacts after it resumes.
        """
        if self.node is None:
            ended()
            return
        self._stopping.append(ended)
        self._wake_up(self._kernel.now)

    def _follow_shutdown(self, node: BaseNode) -> None:
        if self.told_to_stop_at is None:
            self.told_to_stop_at = self._kernel.now
            node.begin_shutdown(self._kernel.now)
            self._wake_up(self._busy_until)
        if node.may_close:
            self._kernel.at(self._busy_until, self._stop_incarnation, self.incarnation)

    def _stop_incarnation(self, incarnation: int) -> None:
        if incarnation == self.incarnation and not self.paused:
            self.stop()

    def stop(self) -> None:
        """Stop cleanly and at once: the node flushes and announces its end; what it sends is still delivered."""
        if self.node is None:
            return
        self.disk.in_use = self._closing = True
        try:
            self.node.close(self._kernel.now)
            self._stopped_cleanly = True
            self._release(self.incarnation, list(self.node.outbox))
        except CrashNow:
            self._struck()
            return
        except OSError as failure:
            self._stopped_by_its_disk(failure)
            return
        finally:
            self.disk.in_use = False
        self._died()

    def _struck(self) -> None:
        """Handle a crash between two disk calls."""
        self.crashes_in_calls += 1
        self._died()

    def _stopped_by_its_disk(self, failure: OSError) -> None:
        """Handle a node that halted because its disk failed. Raises the failure if no fault caused it."""
        cause: BaseException | None = failure
        while cause is not None and not isinstance(cause, InjectedError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise failure
        self.disk_failures += 1
        self.last_failure = str(failure)
        self._died()

    def _died(self) -> None:
        self._network.note(f"death {self.name} {self.incarnation}")
        self.crashes += 1
        self.node = None
        self.paused = False
        self.disk.spare()
        self.disk.take_cost()
        self.disk.take_slowness()
        self._inputs.clear()
        self._ends.clear()
        self._ids.clear()
        self._held.clear()
        self.connecting.clear()
        self._released = None
        self.told_to_stop_at = None
        stopping, self._stopping = self._stopping, []
        self._forget_wake_up()
        self._network.stop_listening(self.address)
        self._network.abandon(self.address)
        if self._on_iteration is not None:
            self._on_iteration(self)
        for ended in stopping:
            ended()

    def pause(self) -> None:
        self.paused = self.node is not None

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self._wake_up(self._kernel.now)

    # -- the network's side (network.Endpoint) ----------------------------------------------------------------

    def _acceptor(self, listener: str) -> Callable[[ConnectionEnd], SimProcess]:
        def accept(end: ConnectionEnd) -> SimProcess:
            self._bind(end, end.identity)
            self._enqueue("opened", end.identity, listener)
            return self

        return accept

    def _bind(self, end: ConnectionEnd, connection: int) -> None:
        self._ends[connection] = end
        self._ids[end.identity] = connection

    @property
    def held_connections(self) -> AbstractSet[int]:
        """The connections from which the host does not read, because the node asked for it."""
        return self._held.keys()

    def peer_address(self, connection: int) -> str | None:
        """Return the address at the other end of an open connection; None if it has ended."""
        end = self._ends.get(connection)
        return None if end is None else end.peer_address

    def connected(self, end: ConnectionEnd) -> None:
        connection = self._ids.get(end.identity)
        if connection is not None and connection < 0:
            self.connecting.pop(connection, None)
            self._enqueue("opened", connection, None)

    def delivered(self, end: ConnectionEnd, frame: bytes) -> None:
        connection = self._ids.get(end.identity)
        if connection is None:
            return
        content = bytearray(frame)
        if connection in self._held:
            self._held[connection].append(content)
        elif self.node is not None:
            self._inputs.append((self.node.received, (connection, content)))
            self._wake_up(self._kernel.now)

    def disconnected(self, end: ConnectionEnd) -> None:
        connection = self._ids.pop(end.identity, None)
        if connection is not None:
            self._forget(connection)
            self._enqueue("closed", connection)

    def _forget(self, connection: int) -> None:
        self.connecting.pop(connection, None)
        self._ends.pop(connection, None)
        self._held.pop(connection, None)

    # -- the loop ---------------------------------------------------------------------------------------------

    def _enqueue(self, method: str, *arguments: object) -> None:
        if self.node is not None:
            self._inputs.append((getattr(self.node, method), arguments))
            self._wake_up(self._kernel.now)

    def wake(self) -> None:
        """Take a turn soon: something has arrived that is not an input of the node."""
        if self.node is not None:
            self._woken = True
            self._wake_up(self._kernel.now)

    def _wake_up(self, when: int) -> None:
        if when < self._busy_until:
            when = self._busy_until
        if when < self._kernel.now:
            when = self._kernel.now
        if when >= self._wake_at:
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake_at = when
        self._wake = self._kernel.at(when, self._iterate)

    def _forget_wake_up(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake, self._wake_at = None, NEVER

    def _iterate(self) -> None:
        self._wake, self._wake_at = None, NEVER
        node = self.node
        if node is None or self.paused:
            return
        now = self._kernel.now
        inputs, self._inputs = self._inputs, []
        self.last_inputs = inputs
        self.disk.in_use = True
        try:
            if self._on_early_turn is not None and now < self._deadline and not self._woken:
                self._turn_early(node, self._on_early_turn)
            self._woken = False
            for method, arguments in inputs:
                method(now, *arguments)
            if self._deadline <= now:
                node.tick(now)
            node.turn(now)
            early = node.release_early()
            if early:
                if self._on_early_release is not None:
                    self._on_early_release(self, early)
                self._release(self.incarnation, early)
            node.flush(now)
        except CrashNow:
            self._struck()
            return
        except OSError as failure:
            self._stopped_by_its_disk(failure)
            return
        finally:
            self.disk.in_use = False
        self._forget_wake_up()  # one that what left early has caused, before it was known how long this turn takes
        cost = self.disk.take_cost() + self.TURN_COST + self.INPUT_COST * len(inputs)
        self._spend(cost + self._waits_for_processor())
        self.last_effects = len(early) + len(node.outbox)
        if node.outbox:
            self._release_when_done(self.incarnation, list(node.outbox))
            node.outbox.clear()
        if self._on_iteration is not None:
            self._on_iteration(self)
            self.disk.take_cost()  # the observer's reads cost the node nothing
            self.disk.take_slowness()
        if self._inputs or self._woken:
            self._wake_up(self._busy_until)
        if self._stopping:
            self._follow_shutdown(node)
        self._deadline = node.deadline()
        if self._deadline < NEVER:
            self._wake_up(self._deadline)

    def _turn_early(self, node: BaseNode, watch: Callable[[SimProcess, int], Callable[[], None]]) -> None:
        """Take a turn before the inputs, every `EARLY`-th time that none is due; a host may call when it likes."""
        self._not_due += 1
        if self._not_due % self.EARLY == 0:
            judge = watch(self, self._deadline)
            node.turn(self._kernel.now)
            judge()

    def _waits_for_processor(self) -> int:
        """Return the microseconds for which the host runs other processes before this one goes on."""
        if self._buggify is None or not self._buggify.happens("turn-late"):
            return 0
        return self._buggify.amount("turn-late", 1_000, 30_000)

    def _spend(self, cost: int) -> None:
        """Be busy for `cost` microseconds, and for what a slow disk adds."""
        self._busy_without_slowness = self._kernel.now + cost
        self._busy_until = self._busy_without_slowness + self.disk.take_slowness()

    def disk_is_fast_again(self) -> None:
        """Finish the current turn no later than without a slow disk.

        The calls of a turn are made at once and paid for afterwards. A real process would make the remaining calls
        after the fault ended, so those must not cost the time of the slow disk.
        """
        until = max(self._kernel.now, self._busy_without_slowness)
        if self.node is None or self.disk.is_slow or until >= self._busy_until:
            return
        self._busy_until = until
        if self._released is not None:
            scheduled, incarnation, outbox = self._released
            scheduled.cancel()
            self._release_when_done(incarnation, outbox)
        self._wake_up(until if self._inputs else max(until, self._deadline))

    def _release_when_done(self, incarnation: int, outbox: Outbox) -> None:
        self._released = self._kernel.at(self._busy_until, self._release, incarnation, outbox), incarnation, outbox

    def _release(self, incarnation: int, outbox: Outbox) -> None:
        self._released = None
        if incarnation != self.incarnation or self.node is None:
            return
        for item in outbox:
            if isinstance(item, Send):
                end = self._ends.get(item.connection)
                if end is not None:
                    message = b"".join(item.chunks)
                    self._network.send(end, message)
                    self._stall(item.connection, len(message))
            elif isinstance(item, Connect):
                self.connecting[item.connection] = self._kernel.now
                self._bind(self._network.connect(self.address, item.host, item.port, self), item.connection)
            elif isinstance(item, Close):
                self._close(item.connection)
            elif isinstance(item, Pause):
                self._held.setdefault(item.connection, [])
            else:
                for frame in self._held.pop(item.connection, []):
                    self._enqueue("received", item.connection, frame)

    def _stall(self, connection: int, size: int) -> None:
        """Let the peer of an accepted connection read nothing for a while: the host holds what was sent to it."""
        accepted = connection > 0 and connection not in self._stalled
        if not accepted or self._buggify is None or not self._buggify.happens("responses-not-taken"):
            return
        self._stalled.add(connection)
        self._enqueue("host_holds", connection, size)
        self._enqueue("stalled", connection, True)
        pause = self._buggify.amount("responses-not-taken", 1_000, 200_000)
        self._kernel.after(pause, self._take_responses, connection)

    def _take_responses(self, connection: int) -> None:
        self._stalled.discard(connection)
        if connection in self._ends:
            self._enqueue("host_holds", connection, 0)
            self._enqueue("stalled", connection, False)

    def _close(self, connection: int) -> None:
        end = self._ends.get(connection)
        if end is not None:
            self._ids.pop(end.identity, None)
            self._forget(connection)
            self._network.close(end)
