"""Processes that lack processor time, memory or descriptors: limited, or used by other processes.

Evidence is what the process table shows of the process and of the processes that compete with it (`probe.resources`),
measured over half a second where time matters: how often the process was found stopped, how much processor time it got,
its limits, how much the others have used. This proves that a limit is in force, not that the node reached it; that is
not claimed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of, process_facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.rates import write_size
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import first_reason
from squall.nemesis.options import CpuStress, CpuThrottle, MemoryStress, ProcessLimit

LOOK_FOR = 0.5
SEEMS_FREE = 0.2
"""A process that is stopped in a larger share of looks is throttled."""
TICK = 0.02

UNITS = {"memory": "of address space", "descriptors": "descriptors"}


class _Resources(AimedFault):
    """The common part: observe all targets, and judge host by host."""

    look_for = LOOK_FOR

    async def observe(self) -> Facts:
        context = self._context
        asked = {"id": context.id, "name": context.process, "seconds": self.look_for}
        answers = await self._ask("probe.resources", **asked)
        states = await process_facts(context.hosts, self._targets, context.process, {})
        return {"resources": dict(zip(self._targets, answers, strict=True)), "processes": states}

    async def _call(self, verb: str, ttl: float, **arguments: object) -> None:
        await self._ask(verb, id=self._context.id, ttl=ttl, **arguments)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        return self._first(self._why_not_held, before, during)

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return self._first(self._why_not_over, before, after)

    def _first(self, why_not: Any, before: Facts, seen: Facts) -> str | None:
        """The first host's reason, with its name."""
        reasons = [(host, why_not(before["resources"][host], seen["resources"][host])) for host in self._targets]
        return first_reason([f"{host}: {reason}" if reason else None for host, reason in reasons])

    @abstractmethod
    def _why_not_held(self, before: Facts, during: Facts) -> str | None: ...

    @abstractmethod
    def _why_not_over(self, before: Facts, after: Facts) -> str | None: ...

    def told(self, during: Facts) -> str:
        return "; ".join(f"{host} {self._told(during['resources'][host])}" for host in self._targets)

    @abstractmethod
    def _told(self, seen: Facts) -> str: ...


def stopped_share(seen: Facts) -> float:
    process = seen["process"]
    return float(process["stopped"]) / max(1, int(process["looks"]))


def processors(seen: Facts, who: str) -> float:
    """How many processors were used, by the process or by the competing processes."""
    return float(seen[who]["cpu_s"]) / max(TICK, float(seen["wall_s"]))


class ThrottleProcess(_Resources):
    """`cpu-throttle`"""

    waits_to_show = True

    def __init__(self, options: CpuThrottle, context: FaultContext) -> None:
        super().__init__(options, context)
        self._share = options.share

    async def inject(self, ttl: float) -> None:
        await self._call("cpu.throttle", ttl, name=self._context.process, share=self._share)

    def _why_not_held(self, before: Facts, during: Facts) -> str | None:
        if before["process"] is None or during["process"] is None:
            return "the process is not running"
        if stopped_share(before) > SEEMS_FREE or before["process"]["throttled"]:
            return "the process was already throttled before the fault"
        held = during["process"]["throttled"] or stopped_share(during) >= (1 - self._share) / 2
        if not held:
            return f"the process is not throttled: stopped in {during['process']['stopped']} observations"
        most = self._share * float(during["wall_s"]) * 2 + TICK
        if during["process"]["cpu_s"] > most:
            return f"the process used {during['process']['cpu_s']:.2f} s of {during['wall_s']:.2f} s of processor time"
        return None

    def _why_not_over(self, before: Facts, after: Facts) -> str | None:
        if after["open"] or after["process"] is None:
            return "the throttle is still open" if after["open"] else "the process is not running"
        if stopped_share(after) > SEEMS_FREE or after["process"]["throttled"]:
            return "the process is still throttled"
        return None

    def _told(self, seen: Facts) -> str:
        process = seen["process"]
        held = f"stopped in {process['stopped']} of {process['looks']} observations"
        if seen["driver"] != "duty cycle":
            held = f"throttled {process['throttled']} times"
        return f"{held}, {processors(seen, 'process'):.0%} of a processor ({seen['driver']})"


class StressProcessors(_Resources):
    """`cpu-stress`"""

    def __init__(self, options: CpuStress, context: FaultContext) -> None:
        super().__init__(options, context)
        self._processes = options.processes

    async def inject(self, ttl: float) -> None:
        context = self._context

        async def one(host: str) -> None:
            cpus = (await context.hosts[host].call("info"))["cpus"]
            asked = {"id": context.id, "processes": self._processes or cpus, "ttl": ttl}
            await context.hosts[host].call("host.stress", **asked)

        await all_of(one(host) for host in self._targets)

    def _why_not_held(self, before: Facts, during: Facts) -> str | None:
        if before["eaters"]["pids"]:
            return "busy processes were already running before the fault"
        eaters = during["eaters"]
        wanted = self._processes or int(during["cpus"])
        if eaters["busy"] < wanted:
            return f"{eaters['busy']} busy processes are running, not {wanted}"
        # Their share depends on who else wants the processors; any processor time shows that they compete.
        return None if eaters["cpu_s"] > 0 else f"{eaters['busy']} busy processes got no processor time"

    def _why_not_over(self, before: Facts, after: Facts) -> str | None:
        return f"{len(after['eaters']['pids'])} busy processes are still running" if after["eaters"]["pids"] else None

    def _told(self, seen: Facts) -> str:
        return (
            f"{seen['eaters']['busy']} busy processes use {processors(seen, 'eaters'):.1f} of {seen['cpus']} processors"
        )


class StressMemory(_Resources):
    """`memory-stress`"""

    look_for = 0.0

    def __init__(self, options: MemoryStress, context: FaultContext) -> None:
        super().__init__(options, context)
        self._size = options.size

    async def inject(self, ttl: float) -> None:
        await self._call("host.stress", ttl, memory=self._size)

    def _why_not_held(self, before: Facts, during: Facts) -> str | None:
        if before["eaters"]["pids"]:
            return "memory was already held before the fault"
        resident = int(during["eaters"]["resident_bytes"])
        return f"only {resident} bytes are resident" if resident < self._size else None

    def _why_not_over(self, before: Facts, after: Facts) -> str | None:
        return "the memory is still held" if after["eaters"]["pids"] else None

    def _told(self, seen: Facts) -> str:
        return f"{seen['eaters']['resident_bytes'] / 2**20:.0f} MiB resident in another process"


class LimitProcess(_Resources):
    """`process-limit`"""

    look_for = 0.0

    def __init__(self, options: ProcessLimit, context: FaultContext) -> None:
        super().__init__(options, context)
        self._headroom: Mapping[str, int] = {
            what: amount
            for what, amount in (("memory", options.memory), ("descriptors", options.descriptors))
            if amount is not None
        }
        self._before: dict[str, Facts] = {}

    async def inject(self, ttl: float) -> None:
        await self._call("proc.limit", ttl, name=self._context.process, **self._headroom)

    def _why_not_held(self, before: Facts, during: Facts) -> str | None:
        if before["process"] is None:
            return "the process was not running before"
        if during["process"] is None:
            return "the process ended before its limits were observed"
        if during["process"]["pid"] != before["process"]["pid"]:
            return "it is a different process than before the fault"
        for what in self._headroom:
            was, now = before["process"]["limits"][what], during["process"]["limits"][what]
            if now is None or (was is not None and now >= was):
                return f"its limit {UNITS[what]} is unchanged"
        return None

    def _why_not_over(self, before: Facts, after: Facts) -> str | None:
        if after["open"] or after["process"] is None:
            return "its limits are still those of the fault" if after["open"] else "the process is not running"
        if before["process"] is None:
            return None  # there was no process to limit, which `_why_not_held` has reported
        for what in self._headroom:
            was, now = before["process"]["limits"][what], after["process"]["limits"][what]
            if was != now:
                return f"its limit {UNITS[what]} is {in_words(what, now)}, and was {in_words(what, was)}"
        return None

    def _told(self, seen: Facts) -> str:
        process = seen["process"]
        limits = (
            f"may have {in_words(what, process['limits'][what])} {UNITS[what]} and uses"
            f" {in_words(what, process['used'][what])}"
            for what in self._headroom
        )
        return ", ".join(limits)


def in_words(what: str, amount: int | None) -> str:
    if amount is None:
        return "unlimited"
    return write_size(amount) if what == "memory" and amount % 1024 == 0 else str(amount)


RESOURCES = (
    Kind(
        CpuThrottle,
        ThrottleProcess,
        ("cpu.throttle",),
        simulation=False,
        on_hosts="a control group (v2, else v1); without one, and in a lab, SIGSTOP and SIGCONT ten times a second",
        proof="how often the process is seen stopped, or the kernel's count of periods in which it was throttled; and"
        " the processor time it got",
        limits="does not apply to a process that is started again; under a control group an idle process shows nothing",
    ),
    Kind(
        CpuStress,
        StressProcessors,
        ("host.stress",),
        simulation=False,
        on_hosts="busy processes on the node's host",
        proof="the busy processes in the process table, and the processor time they used",
        limits="hosts of a lab share the processors of one machine, so all of them are affected",
    ),
    Kind(
        MemoryStress,
        StressMemory,
        ("host.stress",),
        simulation=False,
        on_hosts="a process that holds the memory",
        proof="its resident size in the process table",
        limits="refused if it would take more than 90 % of the available memory; hosts of a lab share one memory",
    ),
    Kind(
        ProcessLimit,
        LimitProcess,
        ("proc.limit",),
        simulation=False,
        on_hosts="prlimit on the running process; restored when healed, and a process that ended is started again",
        proof="the limits of the process, from the kernel",
        limits="proves the limit, not that the process reached it; does not apply to a process that is started again",
    ),
)
