"""Clock faults: the wall clock jumps and may run fast or slow; monotonic time stays true.

Evidence is `probe.clock` against the same before the fault: the difference must be what was asked for, and the
running process must be one that follows its clock page, where the host can tell.
"""

from __future__ import annotations

from squall.nemesis.durations import write_seconds
from squall.nemesis.evidence import Facts, all_of, clock_facts
from squall.nemesis.fault import FaultContext
from squall.nemesis.grudge import Grudge
from squall.nemesis.kind import Kind
from squall.nemesis.options import Clock
from squall.nemesis.selector import Target

LEAST_TOLERANCE_SECONDS = 0.05


class SkewClock:
    """Skews the wall clock of its targets."""

    kind = "clock"
    waits_to_show = False

    def __init__(self, options: Clock, context: FaultContext) -> None:
        self._options = options
        self._context = context
        self._targets: tuple[str, ...] = ()
        self._injected_at_ns = 0

    async def aim(self) -> Target:
        target = await self._context.resolve(self._options.target)
        self._targets = target.hosts
        return target

    async def observe(self) -> Facts:
        context = self._context
        facts = await clock_facts(context.hosts, self._targets, context.process)
        elapsed = (context.now_ns() - self._injected_at_ns) / 1e9 if self._injected_at_ns else 0.0
        return {"clocks": facts, "elapsed_s": round(elapsed, 6)}

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        self._injected_at_ns = context.now_ns()
        await all_of(
            context.hosts[target].call(
                "clock.set",
                id=context.id,
                name=context.process,
                offset_s=options.offset,
                rate=options.rate,
                ttl=ttl,
            )
            for target in self._targets
        )

    async def heal(self) -> None:
        await all_of(self._context.hosts[target].call("clock.clear", id=self._context.id) for target in self._targets)

    def shows_hold(self, before: Facts, during: Facts) -> str | None:
        wanted = self._options.offset + (self._options.rate - 1.0) * during["elapsed_s"]
        tolerance = max(LEAST_TOLERANCE_SECONDS, abs(wanted) / 10)
        if abs(wanted) <= 2 * LEAST_TOLERANCE_SECONDS and abs(self._options.rate - 1.0) > 0:
            return "the clock has not run long enough to show its rate"
        for host in self._targets:
            moved = during["clocks"][host]["offset_s"] - before["clocks"][host]["offset_s"]
            if abs(moved - wanted) > tolerance:
                return f"{host}: the clock is off by {moved:+.3f} s, not {wanted:+.3f} s"
            if during["clocks"][host]["mapped"] is False:
                return f"{host}: the running process does not follow its clock page"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for host in self._targets:
            left = after["clocks"][host]["offset_s"] - before["clocks"][host]["offset_s"]
            if abs(left) > LEAST_TOLERANCE_SECONDS:
                return f"{host}: the clock is still off by {left:+.3f} s"
        return None

    def told(self, during: Facts) -> str:
        offsets = [during["clocks"][host]["offset_s"] for host in self._targets]
        shown = ", ".join(f"{offset:+.1f} s" for offset in offsets)
        rate = f", rate {self._options.rate:g}" if self._options.rate != 1.0 else ""
        return f"offset {shown}{rate}" if offsets else f"offset {write_seconds(self._options.offset)}"

    def cuts(self) -> Grudge:
        return {}


CLOCKS = (
    Kind(
        Clock,
        SkewClock,
        ("clock.set",),
        on_hosts="lab: the clock page that the process reads; real hosts: clock_settime, the time service stopped",
        proof="the offset that a process sees; in the lab also that the running node maps its clock page",
    ),
)
