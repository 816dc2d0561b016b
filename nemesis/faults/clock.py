"""Clock faults: one clock of a process, or of a machine, is wrong, and the others stay true.

The wall clock jumps, runs fast or slow, strobes or stands still (`clock`, `clock-strobe`, `clock-freeze`); the
monotonic clock runs ahead (`clock-monotonic`). Evidence is `probe.clock`: what a process with the same environment
reads, for a while if the fault changes how a clock runs, against clocks that no fault changes; and the running process
must follow its clock page, where the host can check that. It is also checked that the other clock is unchanged.
"""

from __future__ import annotations

from abc import abstractmethod

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.durations import write_seconds
from squall.nemesis.core.evidence import Facts, clock_facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import ClockFreeze, ClockMonotonic, ClockSkew, ClockStrobe
from squall.nemesis.options.clock import seconds_of

LEAST_TOLERANCE_SECONDS = 0.05
TIME_TOLERANCE_SECONDS = 1.0
"""Some time passes between setting a clock and reading it."""
STANDS_SECONDS = 0.02
"""A machine's clock runs between two settings by its driver."""
RATE_TOLERANCE = 0.1
WATCH_SECONDS = 0.3
LEAST_PERIODS = 6


class _WrongClock(AimedFault):
    """The common part: observe all targets, and judge host by host."""

    verb = "clock.set"
    watch_s = 0.0

    def __init__(self, options: ClockSkew | ClockStrobe | ClockFreeze | ClockMonotonic, context: FaultContext) -> None:
        super().__init__(options, context)
        self._injected_at_ns = 0

    async def observe(self) -> Facts:
        context = self._context
        facts = await clock_facts(context.hosts, self._targets, context.process, self.watch_s)
        elapsed = (context.now_ns() - self._injected_at_ns) / 1e9 if self._injected_at_ns else 0.0
        return {"clocks": facts, "elapsed_s": round(elapsed, 6)}

    @abstractmethod
    def arguments(self) -> dict[str, object]:
        """The arguments of the verb."""

    async def inject(self, ttl: float) -> None:
        context, arguments = self._context, self.arguments()
        self._injected_at_ns = context.now_ns()
        await self._ask(self.verb, id=context.id, name=context.process, ttl=ttl, **arguments)

    async def heal(self) -> None:
        await self._ask("clock.clear", id=self._context.id)

    @abstractmethod
    def why_not_here(self, before: Facts, during: Facts, elapsed: float) -> str | None:
        """Why these observations of one host do not show the fault; None if they do."""

    def why_not_over(self, before: Facts, after: Facts) -> str | None:
        """Why these observations of one host do not show its end; None if they do."""
        left = after["offset_s"] - before["offset_s"]
        return f"the clock is still off by {left:+.3f} s" if abs(left) > LEAST_TOLERANCE_SECONDS else None

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for host in self._targets:
            was, seen = before["clocks"][host], during["clocks"][host]
            reason = self.why_not_here(was, seen, during["elapsed_s"])
            if reason is None and seen["mapped"] is False:
                reason = "the running process does not follow its clock page"
            if reason is not None:
                return f"{host}: {reason}"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for host in self._targets:
            reason = self.why_not_over(before["clocks"][host], after["clocks"][host])
            if reason is not None:
                return f"{host}: {reason}"
        return None


class SkewClock(_WrongClock):
    """A wall clock that jumped, and may run fast or slow."""

    def __init__(self, options: ClockSkew, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self.watch_s = 0.001 if options.time is not None else 0.0

    def arguments(self) -> dict[str, object]:
        options = self._options
        where: dict[str, object] = {"offset_s": options.offset}
        if options.time is not None:
            where = {"wall_s": seconds_of(options.time)}
        return {**where, "rate": options.rate}

    def why_not_here(self, before: Facts, during: Facts, elapsed: float) -> str | None:
        options = self._options
        if options.time is not None:
            wanted = seconds_of(options.time) + options.rate * elapsed
            off = during["wall_s"] - wanted
            near = max(TIME_TOLERANCE_SECONDS, elapsed / 10)
            return f"the clock is {off:+.3f} s from the time it was set to" if abs(off) > near else None
        wanted = options.offset + (options.rate - 1.0) * elapsed
        tolerance = max(LEAST_TOLERANCE_SECONDS, abs(wanted) / 10)
        if abs(wanted) <= 2 * LEAST_TOLERANCE_SECONDS and abs(options.rate - 1.0) > 0:
            return "the clock has not run long enough to show its rate"
        moved = during["offset_s"] - before["offset_s"]
        return f"the clock is off by {moved:+.3f} s, not {wanted:+.3f} s" if abs(moved - wanted) > tolerance else None

    def told(self, during: Facts) -> str:
        offsets = [during["clocks"][host]["offset_s"] for host in self._targets]
        shown = ", ".join(f"{offset:+.1f} s" for offset in offsets)
        rate = f", rate {self._options.rate:g}" if self._options.rate != 1.0 else ""
        return f"offset {shown}{rate}" if offsets else f"offset {write_seconds(self._options.offset)}"


class StrobeClock(_WrongClock):
    """A wall clock that jumps back and forth."""

    def __init__(self, options: ClockStrobe, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self.watch_s = max(WATCH_SECONDS, LEAST_PERIODS * options.every)

    def arguments(self) -> dict[str, object]:
        return {"offset_s": self._options.offset, "rate": 1.0, "every_s": self._options.every}

    def why_not_here(self, before: Facts, during: Facts, elapsed: float) -> str | None:
        options = self._options
        if before["jumps"]:
            return f"the clock jumped {before['jumps']} times before"
        wanted = during["watched_s"] / options.every
        if during["jumps"] < wanted / 2:
            return f"the clock jumped {during['jumps']} times in {during['watched_s']:.2f} s, not {wanted:.0f} times"
        wide = abs(options.offset)
        if abs(during["jump_s"] - wide) > max(LEAST_TOLERANCE_SECONDS, wide / 10):
            return f"the clock jumps by {during['jump_s']:.3f} s, not {wide:g} s"
        return why_monotonic_is_off(before, during)

    def why_not_over(self, before: Facts, after: Facts) -> str | None:
        if after["jumps"]:
            return f"the clock still jumps, {after['jumps']} times in {after['watched_s']:.2f} s"
        return super().why_not_over(before, after)

    def told(self, during: Facts) -> str:
        first = during["clocks"][self._targets[0]]
        return f"{first['jumps']} jumps by {first['jump_s']:.1f} s in {first['watched_s']:.2f} s, monotonic correct"


class FreezeClock(_WrongClock):
    """A wall clock that stands still."""

    watch_s = WATCH_SECONDS

    def __init__(self, options: ClockFreeze, context: FaultContext) -> None:
        super().__init__(options, context)
        self._time = options.time

    def arguments(self) -> dict[str, object]:
        where: dict[str, object] = {"offset_s": 0.0} if self._time is None else {"wall_s": seconds_of(self._time)}
        return {**where, "rate": 0.0}

    def why_not_here(self, before: Facts, during: Facts, elapsed: float) -> str | None:
        if abs(during["wall_ran_s"]) > STANDS_SECONDS:
            return f"the clock ran on by {during['wall_ran_s']:.3f} s in {during['watched_s']:.2f} s"
        if self._time is not None and abs(during["wall_s"] - seconds_of(self._time)) > LEAST_TOLERANCE_SECONDS:
            return f"the clock stopped {during['wall_s'] - seconds_of(self._time):+.3f} s from the time it was set to"
        if during["watched_s"] < WATCH_SECONDS / 2:
            return f"the clock was watched for {during['watched_s']:.3f} s only"
        return why_monotonic_is_off(before, during)

    def why_not_over(self, before: Facts, after: Facts) -> str | None:
        if after["wall_ran_s"] < after["watched_s"] / 2:
            return "the clock is still stopped"
        return super().why_not_over(before, after)

    def told(self, during: Facts) -> str:
        first = during["clocks"][self._targets[0]]
        return f"stopped for {first['watched_s']:.2f} s, offset {first['offset_s']:+.1f} s, monotonic correct"


class HurryMonotonic(_WrongClock):
    """A monotonic clock that runs ahead."""

    verb = "clock.monotonic"
    watch_s = WATCH_SECONDS

    def __init__(self, options: ClockMonotonic, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options

    def arguments(self) -> dict[str, object]:
        return {"offset_s": self._options.offset, "rate": self._options.rate}

    def why_not_here(self, before: Facts, during: Facts, elapsed: float) -> str | None:
        options = self._options
        rate = during["monotonic_ran_s"] / during["watched_s"]
        if abs(rate - options.rate) > RATE_TOLERANCE * options.rate:
            return f"the monotonic clock runs at {rate:.3f}, not {options.rate:g}"
        if during["monotonic_rate"] is not None and during["monotonic_rate"] != options.rate:
            return f"in the running process it runs at {during['monotonic_rate']:g}"
        wanted = options.offset + (options.rate - 1.0) * elapsed
        ahead = during["monotonic_offset_s"] - before["monotonic_offset_s"]
        near = max(2 * LEAST_TOLERANCE_SECONDS, abs(wanted) / 5, abs(options.rate - 1.0) / 2)
        if abs(ahead - wanted) > near:
            return f"the monotonic clock is ahead by {ahead:.3f} s, not {wanted:.3f} s"
        moved = during["offset_s"] - before["offset_s"]
        return f"the wall clock is off by {moved:+.3f} s too" if abs(moved) > LEAST_TOLERANCE_SECONDS else None

    def why_not_over(self, before: Facts, after: Facts) -> str | None:
        rate = after["monotonic_ran_s"] / after["watched_s"]
        if abs(rate - 1.0) > RATE_TOLERANCE / 4:
            return f"the monotonic clock still runs at {rate:.3f}"
        return super().why_not_over(before, after)

    def told(self, during: Facts) -> str:
        first = during["clocks"][self._targets[0]]
        rate = first["monotonic_ran_s"] / first["watched_s"]
        return f"monotonic clock at rate {rate:.2f}, {first['monotonic_offset_s']:+.1f} s, wall clock correct"


def why_monotonic_is_off(before: Facts, during: Facts) -> str | None:
    """Why a fault of the wall clock affects the monotonic clock too; None if that is unchanged."""
    moved = during["monotonic_offset_s"] - before["monotonic_offset_s"]
    if abs(moved) > LEAST_TOLERANCE_SECONDS:
        return f"the monotonic clock is off by {moved:+.3f} s too"
    return None


CLOCKS = (
    Kind(
        ClockSkew,
        SkewClock,
        ("clock.set",),
        on_hosts="lab: the clock page that the process reads; real hosts: clock_settime, the time service stopped",
        proof="the offset that a process sees; in the lab also that the running node maps its clock page",
        limits="in a lab without a C compiler only `time.time` of Python processes follows the page",
    ),
    Kind(
        ClockStrobe,
        StrobeClock,
        ("clock.set",),
        on_hosts="as `clock`; on real hosts a separate process sets the clock 200 times a second",
        proof="how often and how far a process sees the clock jump while its monotonic clock stays correct",
        limits="on real hosts a jump may come up to 5 ms late",
    ),
    Kind(
        ClockFreeze,
        FreezeClock,
        ("clock.set",),
        on_hosts="as `clock-strobe`",
        proof="a process sees the clock stopped, at `time` if given, while its monotonic clock continues",
        limits="on real hosts the clock runs for up to 5 ms before it is set back",
    ),
    Kind(
        ClockMonotonic,
        HurryMonotonic,
        ("clock.monotonic",),
        simulation=False,
        on_hosts="lab: the clock page that the process reads, by the shim in C; real hosts: not supported",
        proof="the monotonic rate that a process sees, its wall clock correct; the rate in the running node's memory",
        limits="a monotonic clock never goes back: it stays ahead until the host's state is removed; waits other than "
        "sleeping, epoll, poll, semaphores and condition variables use true time",
    ),
)
