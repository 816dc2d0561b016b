"""Options of process faults: processes that die, stop, pause or lack resources."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from squall.nemesis.durations import Duration, DurationRange, Seconds
from squall.nemesis.options.base import DiskCall, FaultOptions, Target, TopicPartitionTarget
from squall.nemesis.rates import ByteSize


class Kill(FaultOptions):
    """SIGKILL; the process stays down for `for` and is then started again."""

    fault: Literal["kill"]
    target: Target


class Pause(FaultOptions):
    """SIGSTOP, and SIGCONT after `for`: the process sleeps through its own timeouts."""

    fault: Literal["pause"]
    target: Target


class Restart(FaultOptions):
    """SIGTERM; the process stops cleanly, stays down for `for` and is then started again.

    `patience` is how long it may take to stop (a broker first hands its leaderships over); then it is killed.
    """

    fault: Literal["restart"]
    target: Target
    patience: Duration = 10.0


class LeaderKillLagging(FaultOptions):
    """Pauses the followers of a topic-partition for `lag`, kills its leader meanwhile, and keeps it down for `for`."""

    fault: Literal["leader-kill-lagging"]
    target: TopicPartitionTarget
    lag: Duration = 1.0


class Bounce(FaultOptions):
    """SIGKILL and a new start, again and again: one kill `every` so long, each time `down` for a moment."""

    fault: Literal["bounce"]
    target: Target
    every: Duration = 1.0
    down: Duration = 0.1

    @model_validator(mode="after")
    def _comes_up_in_between(self) -> Bounce:
        if self.down >= self.every:
            raise ValueError(f"`down` ({self.down:g} s) must be shorter than `every` ({self.every:g} s)")
        return self


class RollingRestart(FaultOptions):
    """One target after the other is stopped cleanly and started again; the next follows once it accepts connections.

    `patience` is how long each may take to stop, `between` the pause after each. `for` must be long enough for all.
    """

    fault: Literal["rolling-restart"]
    target: Target = "all brokers"
    patience: Duration = 10.0
    between: Seconds = Field(default=0.0, ge=0)


class HostDown(FaultOptions):
    """As if the host lost its power: it falls silent to everyone, clients too, and its process dies; then it boots.

    Its disk keeps its content, as after a crash of the process alone; for data that was not fsynced see `power-loss`.
    """

    fault: Literal["host-down"]
    target: Target


class KillAtCall(FaultOptions):
    """SIGKILL exactly `before` or `after` the `nth` disk call of one kind on a file whose name fits `path`.

    It waits until that call is made; then the process stays down until `for` is over. `path` is a pattern in which *
    matches anything: `*.log`, `events-0/*`.
    """

    fault: Literal["kill-at-call"]
    target: Target
    call: DiskCall = "write"
    path: str = Field(default="*", min_length=1)
    when: Literal["before", "after"] = "before"
    nth: int = Field(default=1, ge=1, le=1_000_000)


class CpuThrottle(FaultOptions):
    """The process gets no more than `share` of one processor."""

    fault: Literal["cpu-throttle"]
    target: Target
    share: float = Field(default=0.05, gt=0, lt=1)


class CpuStress(FaultOptions):
    """So many busy processes beside the node; one for each processor of the host, unless given."""

    fault: Literal["cpu-stress"]
    target: Target
    processes: int | None = Field(default=None, ge=1, le=1024)


class MemoryStress(FaultOptions):
    """A process beside the node that holds `size` bytes of memory."""

    fault: Literal["memory-stress"]
    target: Target
    size: ByteSize = Field(default=67_108_864, ge=4096)


class ProcessLimit(FaultOptions):
    """The process may have little more than it has: so many bytes of address space (`memory`), so many `descriptors`.

    Both are headroom above what it uses when the fault begins. A process that ends for lack of either is restarted when
    the fault is over.
    """

    fault: Literal["process-limit"]
    target: Target
    memory: ByteSize | None = None
    descriptors: int | None = Field(default=None, ge=0, le=1_000_000)

    @model_validator(mode="after")
    def _limits_something(self) -> ProcessLimit:
        if self.memory is None and self.descriptors is None:
            raise ValueError("limits nothing; give `memory` (bytes of headroom) or `descriptors`, or both")
        return self


class Command(FaultOptions):
    """A fault of one's own: the command `inject` brings it about, `heal` ends it, `check` succeeds while it holds.

    A shell on the target's host runs all three. The host also runs `heal` when the time to live is over, and retries it
    until it succeeds. No command may take longer than `timeout`.
    """

    fault: Literal["command"]
    target: Target
    inject: str = Field(min_length=1)
    heal: str = Field(min_length=1)
    check: str = Field(min_length=1)
    timeout: Duration = Field(default=10.0, le=60)


LONGEST_SLEEP = 15.0
"""Seconds that a load worker may sleep: it gives up if it receives nothing from the control process for twenty
seconds.
"""


class PauseClients(FaultOptions):
    """SIGSTOP of the load workers on client hosts, of all or of one by lot, and SIGCONT after `for` (at most 15 s)."""

    fault: Literal["pause-clients"]
    which: Literal["all", "one"] = "all"

    @model_validator(mode="after")
    def _not_too_long(self) -> PauseClients:
        length = self.length()
        longest = length.longest if isinstance(length, DurationRange) else length
        if longest > LONGEST_SLEEP:
            raise ValueError(f"load workers may sleep {LONGEST_SLEEP:g} s at most, and `for` is {longest:g} s")
        return self
