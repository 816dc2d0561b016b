"""A busy disk: another process writes and fsyncs on the file system of the node's log directory.

Evidence is the kernel's count of what that process has written to the disk, and that the process is missing afterwards;
the time that an fsync of 4 KiB takes for other processes is reported besides (`probe.load`).
"""

from __future__ import annotations

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import DiskLoad

LOOK_SECONDS = 0.3
SEEN = ("open", "pid", "written_bytes", "seconds", "fsync_s")


class LoadDisk(AimedFault):
    """`disk-load`"""

    def __init__(self, options: DiskLoad, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options

    async def observe(self) -> Facts:
        context = self._context
        answers = await self._ask("probe.load", id=context.id, name=context.process, seconds=LOOK_SECONDS)
        loads = {name: {key: answer[key] for key in SEEN} for name, answer in zip(self._targets, answers, strict=True)}
        said = ", ".join(f"{name} an fsync takes {seen['fsync_s'] * 1000:.1f} ms" for name, seen in loads.items())
        return {"loads": loads, "said": said}

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        told = {"id": context.id, "name": context.process, "ttl": ttl}
        await self._ask("disk.load", bytes=options.size, writers=options.writers, **told)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for name in self._targets:
            if during["loads"][name]["pid"] is None:
                return f"{name}: no writer process is running"
            if not during["loads"][name]["written_bytes"]:
                return f"{name}: the writer process wrote nothing to the disk in {during['loads'][name]['seconds']:g} s"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            if after["loads"][name]["open"] or after["loads"][name]["pid"] is not None:
                return f"{name}: the writer process is still running"
        return None

    def told(self, during: Facts) -> str:
        first = during["loads"][self._targets[0]]
        rate = first["written_bytes"] / first["seconds"] / 2**20
        return f"{rate:.0f} MiB/s written by another process, an fsync takes {first['fsync_s'] * 1000:.1f} ms"


LOADS = (
    Kind(
        DiskLoad,
        LoadDisk,
        ("disk.load",),
        simulation=False,
        on_hosts="a process writes and fsyncs an unnamed file beside the log directory, repeatedly",
        proof="the bytes that the kernel counts as written by that process; how long an fsync of another process takes",
        limits="how slow the disk gets depends on the disk; writes to tmpfs are not counted",
    ),
)
