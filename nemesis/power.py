"""A host that loses power, and a disk that comes back empty.

Both end the process first, so what proves a kill proves this half of them; healing starts the node again on what is
left. The other half is seen on the disk by `probe.disk`: a wiped log directory has no files, and a power loss tells
how much it took, which may be nothing if all had been fsynced.
"""

from __future__ import annotations

from squall.nemesis.evidence import Facts, all_of
from squall.nemesis.fault import FaultContext
from squall.nemesis.options import PowerLoss, WipeDisk
from squall.nemesis.process import KillProcess


class _DamageDisk(KillProcess):
    """A kill that also does something to the disk: `verb` says what."""

    def __init__(self, options: PowerLoss | WipeDisk, context: FaultContext) -> None:
        super().__init__(options, context)
        self._arguments: dict[str, object] = {"mode": options.mode} if isinstance(options, PowerLoss) else {}
        self._verb = "proc.power_loss" if isinstance(options, PowerLoss) else "disk.wipe"

    async def inject(self, ttl: float) -> None:
        context = self._context
        await all_of(
            context.hosts[target].call(self._verb, id=context.id, name=context.process, ttl=ttl, **self._arguments)
            for target in self._targets
        )

    async def observe(self) -> Facts:
        """The process table as for a kill, and what the disk has to say."""
        context = self._context
        facts = await super().observe()
        for target in self._targets:
            disk = await context.hosts[target].call("probe.disk", id=context.id, name=context.process)
            facts[target]["files"], facts[target]["lost_bytes"] = disk["files"], disk["lost_bytes"]
        return facts


class LosePower(_DamageDisk):
    """Killed, and what was not fsynced is gone."""

    def told(self, during: Facts) -> str:
        lost = sum(int(during[target]["lost_bytes"] or 0) for target in self._targets)
        return f"process gone, and {lost} bytes that were not fsynced"


class WipeLogDirectory(_DamageDisk):
    """Killed, and its log directory emptied."""

    def shows_hold(self, before: Facts, during: Facts) -> str | None:
        for target in self._targets:
            if during[target]["files"]:
                return f"{target}: its log directory still has {during[target]['files']} files"
        return super().shows_hold(before, during)

    def told(self, during: Facts) -> str:
        return "process gone, log directory empty"
