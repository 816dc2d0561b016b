"""Disks that fail, are slow, stall, are full, read-only or lie: faults of the node's own disk calls.

A node with one log directory stops when that directory fails, as Kafka does: healing restarts it. Evidence is the count
of affected calls, kept where the calls are made (`probe.disk`), and after healing a look at the process table. A stall
also shows in the kernel, by a thread of the process that waits in such a call; a full disk by its free bytes and a
write beside the log directory, where it was really filled (`probe.fill`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, process_facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import (
    DiskError,
    DiskFull,
    DiskSlow,
    DiskStall,
    FaultOptions,
    KillAtCall,
    LyingFsync,
    ReadOnlyDisk,
)

CHANGES = ("write", "truncate", "create", "rename", "remove")
"""What a read-only file system refuses."""
TAKES_SPACE = ("write", "create", "rename")
FOR_EVER = 86_400.0
"""Seconds of delay for a call that must end with the fault."""

WatchedDisk = DiskError | DiskSlow | DiskStall | ReadOnlyDisk | LyingFsync


def watched_calls(faults: Iterable[FaultOptions]) -> tuple[str, ...]:
    """The disk calls that these faults concern: nodes on hosts must be started under a watch over them."""
    return tuple(dict.fromkeys(call for options in faults for call in _calls_of(options)))


def _calls_of(options: FaultOptions) -> tuple[str, ...]:
    if isinstance(options, KillAtCall):
        return (options.call,)
    if isinstance(options, DiskFull):
        return TAKES_SPACE
    if isinstance(options, ReadOnlyDisk):
        return CHANGES
    return options.calls if isinstance(options, DiskError | DiskSlow | DiskStall | LyingFsync) else ()


def _verb_and_more(options: WatchedDisk) -> tuple[str, Mapping[str, object]]:
    """The verb, and its arguments other than the calls and files."""
    match options:
        case DiskError():
            return "disk.error", {"errno": options.errno, "probability": options.probability}
        case ReadOnlyDisk():
            return "disk.error", {"errno": "EROFS"}
        case DiskSlow():
            return "disk.slow", {"latency_s": options.latency}
        case DiskStall():
            return "disk.slow", {"latency_s": FOR_EVER}
        case LyingFsync():
            return "disk.lie", {}


class DisturbDisk(AimedFault):
    """Faults carried out by answering the node's disk calls instead of the kernel."""

    waits_to_show = True
    probe = "probe.disk"

    def __init__(self, options: WatchedDisk | DiskFull, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self._calls = _calls_of(options)

    async def observe(self) -> Facts:
        context = self._context
        answers = await self._ask(self.probe, id=context.id, name=context.process)
        processes = await process_facts(context.hosts, self._targets, context.process, {})
        disks = {
            name: {"open": bool(answer["open"]), "met": answer["met"], **self._seen(answer)}
            for name, answer in zip(self._targets, answers, strict=True)
        }
        return {"disks": disks, "processes": processes}

    def _seen(self, answer: Mapping[str, object]) -> Facts:
        """The other evidence in a response."""
        if isinstance(self._options, DiskStall):
            return {"under_way": answer.get("under_way")}
        return {"unsynced_bytes": answer.get("unsynced_bytes")} if isinstance(self._options, LyingFsync) else {}

    async def inject(self, ttl: float) -> None:
        context = self._context
        assert not isinstance(self._options, DiskFull)
        verb, more = _verb_and_more(self._options)
        path = {} if isinstance(self._options, ReadOnlyDisk) else {"path": self._options.path}
        told = {"id": context.id, "name": context.process, "calls": list(self._calls), "ttl": ttl, **path, **more}
        await self._ask(verb, **told)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for name in self._targets:
            seen = during["disks"][name]
            if not seen["met"]:
                return f"{name}: no {' or '.join(self._calls)} was made"
            waiting = seen.get("under_way")
            if waiting is not None and not set(waiting) & {call.partition("-")[0] for call in self._calls}:
                return f"{name}: a call was held, and none of the process's threads waits in one"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            if after["disks"][name]["open"]:
                return f"{name}: its disk calls are still affected"
            if after["processes"][name]["state"] != "running":
                return f"{name}: the process is {after['processes'][name]['state']}"
        return None

    def told(self, during: Facts) -> str:
        met = sum(int(seen["met"]) for seen in during["disks"].values())
        match self._options:
            case DiskError():
                return f"{met} calls failed with {self._options.errno}"
            case ReadOnlyDisk():
                return f"{met} calls failed with EROFS"
            case DiskSlow():
                return f"{met} calls slower by {self._options.latency * 1000:g} ms"
            case DiskStall():
                return f"{met} calls do not return"
            case LyingFsync():
                behind = sum(int(seen["unsynced_bytes"] or 0) for seen in during["disks"].values())
                return f"{met} fsyncs returned success without effect, {behind} bytes not on the disk"
            case DiskFull():
                return f"{met} calls failed with ENOSPC"


class FillDisk(DisturbDisk):
    """`disk-full`: really filled where the node has a separate file system."""

    probe = "probe.fill"

    def __init__(self, options: DiskFull, context: FaultContext) -> None:
        super().__init__(options, context)
        self._leave = options.leave

    def _seen(self, answer: Mapping[str, object]) -> Facts:
        return {key: answer.get(key) for key in ("driver", "free_bytes", "refused")}

    async def inject(self, ttl: float) -> None:
        context = self._context
        told = {"id": context.id, "name": context.process, "leave": self._leave, "ttl": ttl}
        await self._ask("disk.fill", **told)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        filled = [name for name in self._targets if during["disks"][name]["driver"] == "filler"]
        for name in filled:
            free, refused = during["disks"][name]["free_bytes"], during["disks"][name]["refused"]
            if free > self._leave:
                return f"{name}: {free} bytes are still free"
            if refused != "ENOSPC" and not self._leave:
                return f"{name}: a write beside the log directory ended in {refused or 'success'}"
        reasons = super().check_effect(before, during)
        return None if set(filled) == set(self._targets) else reasons

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            if after["disks"][name]["refused"] is not None:
                return f"{name}: a write beside the log directory still ends in {after['disks'][name]['refused']}"
        return super().shows_end(before, after)

    def told(self, during: Facts) -> str:
        filled = [seen for seen in during["disks"].values() if seen["driver"] == "filler"]
        if filled:
            return f"{max(seen['free_bytes'] for seen in filled)} bytes free, a write ends in ENOSPC"
        return super().told(during)


NOT_SEEN = "mapped files and io_uring are not intercepted"

DISKS = (
    Kind(
        DiskError,
        DisturbDisk,
        ("disk.error",),
        on_hosts="a supervisor responds to the calls instead of the kernel (seccomp user notification)",
        proof="the number of calls that failed",
        limits=f"a failed write never writes a part; {NOT_SEEN}",
    ),
    Kind(
        DiskSlow,
        DisturbDisk,
        ("disk.slow",),
        on_hosts="a supervisor delays the calls (seccomp user notification)",
        proof="the number of calls that were delayed",
        limits=NOT_SEEN,
    ),
    Kind(
        DiskStall,
        DisturbDisk,
        ("disk.slow",),
        on_hosts="a supervisor holds the calls until the fault ends (seccomp user notification)",
        proof="the number of calls that were held, and a thread that waits in one, according to the kernel",
        limits=NOT_SEEN,
    ),
    Kind(
        DiskFull,
        FillDisk,
        ("disk.fill",),
        on_hosts="a file takes all free space, if the log directory has its own file system; otherwise, as in the lab, "
        "a supervisor fails writes and new names with ENOSPC",
        proof="free bytes, and a refused write beside the log directory; otherwise the number of refused calls",
        limits="the machine's own disk is never filled; there `leave` must be 0",
    ),
    Kind(
        ReadOnlyDisk,
        DisturbDisk,
        ("disk.error",),
        on_hosts="a supervisor fails every changing call with EROFS (seccomp user notification)",
        proof="the number of calls that failed",
        limits=f"read-only for the node alone, because permissions and mounts do not stop root; {NOT_SEEN}",
    ),
    Kind(
        LyingFsync,
        DisturbDisk,
        ("disk.lie",),
        on_hosts="a supervisor returns 0 for fsyncs without doing them (seccomp user notification)",
        proof="the number of such fsyncs, and how many bytes that the node takes for durable a power loss would lose",
        limits="has an effect only with `power-loss`, which then also loses the bytes of false fsyncs; the first real "
        "fsync of a file makes all of it durable",
    ),
)
