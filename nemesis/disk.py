"""Disks that fail and disks that are slow: named calls of the node's own disk answer with an error, or late.

A node with one log directory stops when that directory fails, as Kafka does: healing starts it again. Evidence is the
count of calls that failed or were slowed, kept where the calls are made (`probe.disk`), and after healing a look at
the process table.
"""

from __future__ import annotations

from collections.abc import Iterable

from squall.nemesis.evidence import Facts, all_of, process_facts
from squall.nemesis.fault import FaultContext
from squall.nemesis.grudge import Grudge
from squall.nemesis.kind import Kind
from squall.nemesis.options import DiskError, DiskSlow, FaultOptions, KillAtCall
from squall.nemesis.selector import Target


def watched_calls(faults: Iterable[FaultOptions]) -> tuple[str, ...]:
    """The disk calls that these faults are about: nodes on hosts have to be started beneath a watch over them."""
    return tuple(dict.fromkeys(call for options in faults for call in _calls_of(options)))


def _calls_of(options: FaultOptions) -> tuple[str, ...]:
    if isinstance(options, KillAtCall):
        return (options.call,)
    return options.calls if isinstance(options, DiskError | DiskSlow) else ()


class DisturbDisk:
    """`disk-error` and `disk-slow`."""

    waits_to_show = True

    def __init__(self, options: DiskError | DiskSlow, context: FaultContext) -> None:
        self.kind: str = options.fault
        self._options = options
        self._context = context
        self._targets: tuple[str, ...] = ()

    async def aim(self) -> Target:
        target = await self._context.resolve(self._options.target)
        self._targets = target.hosts
        return target

    async def observe(self) -> Facts:
        context = self._context
        answers = await all_of(
            context.hosts[name].call("probe.disk", id=context.id, name=context.process) for name in self._targets
        )
        processes = await process_facts(context.hosts, self._targets, context.process, {})
        disks = {
            name: {"open": bool(answer["open"]), "met": answer["met"]}
            for name, answer in zip(self._targets, answers, strict=True)
        }
        return {"disks": disks, "processes": processes}

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        common = {"id": context.id, "name": context.process, "calls": list(options.calls), "ttl": ttl}
        if isinstance(options, DiskError):
            verb, more = "disk.error", {"errno": options.errno, "probability": options.probability}
        else:
            verb, more = "disk.slow", {"latency_s": options.latency}
        await all_of(context.hosts[name].call(verb, **common, **more) for name in self._targets)

    async def heal(self) -> None:
        context = self._context
        await all_of(context.hosts[name].call("heal", id=context.id) for name in self._targets)

    def shows_hold(self, before: Facts, during: Facts) -> str | None:
        idle = [name for name in self._targets if not during["disks"][name]["met"]]
        return f"{idle[0]}: no {' or '.join(self._options.calls)} was made" if idle else None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            if after["disks"][name]["open"]:
                return f"{name}: its disk is still disturbed"
            if after["processes"][name]["state"] != "running":
                return f"{name}: the process is {after['processes'][name]['state']}"
        return None

    def told(self, during: Facts) -> str:
        met = sum(int(seen["met"]) for seen in during["disks"].values())
        if isinstance(self._options, DiskError):
            return f"{met} calls failed with {self._options.errno}"
        return f"{met} calls slower by {self._options.latency * 1000:g} ms"

    def cuts(self) -> Grudge:
        return {}


DISKS = (
    Kind(
        DiskError,
        DisturbDisk,
        ("disk.error",),
        on_hosts="a watch answers the calls in place of the kernel (seccomp user notification)",
        proof="the number of calls that failed",
        limits="part of a write is never left behind; not seen are mapped files and io_uring",
    ),
    Kind(
        DiskSlow,
        DisturbDisk,
        ("disk.slow",),
        on_hosts="a watch answers the calls later (seccomp user notification)",
        proof="the number of calls that were slowed",
        limits="not seen are mapped files and io_uring",
    ),
)
