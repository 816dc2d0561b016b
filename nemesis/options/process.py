"""Options of process faults: processes that die, stop, pause or lack resources."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from squall.nemesis.core.durations import Duration, DurationRange, Seconds
from squall.nemesis.core.rates import ByteSize
from squall.nemesis.options.base import DiskCall, FaultOptions, Target, TopicPartitionTarget


class Kill(FaultOptions):
    """Kills the process with SIGKILL; starts it again after `for`."""

    fault: Literal["kill"]
    target: Target


class Pause(FaultOptions):
    """Pauses the process with SIGSTOP; resumes it with SIGCONT after `for`, when its timeouts may have expired."""

    fault: Literal["pause"]
    target: Target


class Restart(FaultOptions):
    """Stops the process cleanly with SIGTERM; starts it again after `for`.

    `patience` is how long it may take to stop (a broker first hands its leaderships over); then it is killed.
    """

    fault: Literal["restart"]
    target: Target
    patience: Duration = 10.0


class LeaderKillLagging(FaultOptions):
    """Pauses a topic-partition's followers for `lag`, kills its leader meanwhile, and starts it again after `for`."""

    fault: Literal["leader-kill-lagging"]
    target: TopicPartitionTarget
    lag: Duration = 1.0


class Bounce(FaultOptions):
    """Kills the process with SIGKILL once per `every` and starts it again `down` later."""

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
    """Restarts the targets cleanly one by one; the next follows once the previous one accepts connections.

    `patience` is how long each may take to stop, `between` the pause after each. `for` must be long enough for all.
    """

    fault: Literal["rolling-restart"]
    target: Target = "all brokers"
    patience: Duration = 10.0
    between: Seconds = Field(default=0.0, ge=0)


SettingName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
ADDRESS = "{address}"
"""In a value of `set`: the address of the node's host."""


class Reconfigure(FaultOptions):
    """Gives brokers other settings: restarts them cleanly with these, one by one, and back again when healed.

    `set` has the settings by Kafka's names; `{address}` in a value is the address of the node's host. They come after
    those of the file, so that of equal names the fault's applies. `patience` is how long each may take to stop,
    `between` the pause after each. `for` must be long enough for all restarts; the way back begins when it is over.
    """

    fault: Literal["reconfigure"]
    target: Target = "all brokers"
    settings: dict[SettingName, str | bool | int | float] = Field(alias="set", min_length=1)
    patience: Duration = 10.0
    between: Seconds = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _one_line_each(self) -> Reconfigure:
        for key, value in self.texts("").items():
            if not value.isprintable() or "\\" in value:
                raise ValueError(f"has {value!r} for {key} in `set`; a value is one printable line without backslash")
        return self

    def texts(self, address: str) -> dict[str, str]:
        """The settings as they stand in the file of a host with this address."""
        written = {key: _text(value) for key, value in self.settings.items()}
        return {key: value.replace(ADDRESS, address) for key, value in written.items()}


def _text(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class HostDown(FaultOptions):
    """Acts as if the host lost power: cuts it from all hosts and clients, kills its process; later starts it again.

    Its disk keeps its content, as after a crash of the process alone; for data that was not fsynced see `power-loss`.
    """

    fault: Literal["host-down"]
    target: Target


class KillAtCall(FaultOptions):
    """Kills the process `before` or `after` its `nth` disk call of one kind on a file that matches `path`.

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
    """Limits the process to `share` of one processor."""

    fault: Literal["cpu-throttle"]
    target: Target
    share: float = Field(default=0.05, gt=0, lt=1)


class CpuStress(FaultOptions):
    """Runs `processes` busy processes on the node's host; by default one for each processor."""

    fault: Literal["cpu-stress"]
    target: Target
    processes: int | None = Field(default=None, ge=1, le=1024)


class MemoryStress(FaultOptions):
    """Runs a process on the node's host that holds `size` bytes of memory."""

    fault: Literal["memory-stress"]
    target: Target
    size: ByteSize = Field(default=67_108_864, ge=4096)


class ProcessLimit(FaultOptions):
    """Limits the process to what it uses plus `memory` bytes of address space and `descriptors` file descriptors.

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
            raise ValueError("has no limit; give `memory` (bytes of headroom) or `descriptors`, or both")
        return self


class Command(FaultOptions):
    """Runs a fault of yours: the command `inject` injects it, `heal` heals it, `check` succeeds while it is active.

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
    """Pauses all load workers on client hosts, or a random one, with SIGSTOP; SIGCONT after `for` (at most 15 s)."""

    fault: Literal["pause-clients"]
    which: Literal["all", "one"] = "all"

    @model_validator(mode="after")
    def _not_too_long(self) -> PauseClients:
        length = self.length()
        longest = length.longest if isinstance(length, DurationRange) else length
        if longest > LONGEST_SLEEP:
            raise ValueError(f"`for` is {longest:g} s; load workers may be paused for at most {LONGEST_SLEEP:g} s")
        return self
