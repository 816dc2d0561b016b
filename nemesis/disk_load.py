"""A busy disk: somebody else writes and fsyncs on the file system that the node's log directory lies on.

Evidence is the kernel's account of what that process has given to the disk meanwhile, and that it is gone afterwards;
how long an fsync of 4 KiB takes for others is told beside it (`probe.load`).
"""

from __future__ import annotations

from squall.nemesis.evidence import Facts, all_of
from squall.nemesis.fault import FaultContext
from squall.nemesis.grudge import Grudge
from squall.nemesis.kind import Kind
from squall.nemesis.options import DiskLoad
from squall.nemesis.selector import Target

LOOK_SECONDS = 0.3
SEEN = ("open", "pid", "written_bytes", "seconds", "fsync_s")


class LoadDisk:
    """`disk-load`"""

    waits_to_show = False

    def __init__(self, options: DiskLoad, context: FaultContext) -> None:
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
            context.hosts[name].call("probe.load", id=context.id, name=context.process, seconds=LOOK_SECONDS)
            for name in self._targets
        )
        loads = {name: {key: answer[key] for key in SEEN} for name, answer in zip(self._targets, answers, strict=True)}
        said = ", ".join(f"{name} an fsync takes {seen['fsync_s'] * 1000:.1f} ms" for name, seen in loads.items())
        return {"loads": loads, "said": said}

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        told = {"id": context.id, "name": context.process, "ttl": ttl}
        await all_of(
            context.hosts[name].call("disk.load", bytes=options.size, writers=options.writers, **told)
            for name in self._targets
        )

    async def heal(self) -> None:
        context = self._context
        await all_of(context.hosts[name].call("heal", id=context.id) for name in self._targets)

    def shows_hold(self, before: Facts, during: Facts) -> str | None:
        for name in self._targets:
            if during["loads"][name]["pid"] is None:
                return f"{name}: nobody is there who writes"
            if not during["loads"][name]["written_bytes"]:
                return f"{name}: who writes has given nothing to the disk in {during['loads'][name]['seconds']:g} s"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            if after["loads"][name]["open"] or after["loads"][name]["pid"] is not None:
                return f"{name}: somebody still writes"
        return None

    def told(self, during: Facts) -> str:
        first = during["loads"][self._targets[0]]
        rate = first["written_bytes"] / first["seconds"] / 2**20
        return f"{rate:.0f} MiB/s written by another process, an fsync takes {first['fsync_s'] * 1000:.1f} ms"

    def cuts(self) -> Grudge:
        return {}


LOADS = (
    Kind(
        DiskLoad,
        LoadDisk,
        ("disk.load",),
        on_hosts="a process writes and fsyncs a file without a name beside the log directory, over and over",
        proof="what that process has given to the disk, by the kernel's account; how long an fsync takes for others",
        limits="how slow the disk gets is the disk's to say; memory file systems (tmpfs) count as nothing written",
    ),
)
