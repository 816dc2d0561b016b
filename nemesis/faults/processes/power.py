"""A host that loses power, and a disk that is empty after a restart.

Both first end the process, if it runs, so this half is proven as a kill is; healing restarts the node on what is left.
`probe.disk` observes the other half: a wiped log directory has no files; after a power loss no file holds more than the
dead node had recorded as fsynced (unless the fault leaves a part). The probe also reports how much is lost, in bytes
and, on hosts, in offsets of each log; that may be nothing if all was fsynced.
"""

from __future__ import annotations

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import KillProcess
from squall.nemesis.options import PowerLoss, WipeDisk

SEEN_ON_DISK = ("files", "unsynced_bytes", "lost_bytes", "lost_offsets")
TOLD = 2
"""So many logs are named in the proof of a power loss; the evidence has all."""


class _DamageDisk(KillProcess):
    """A kill that also changes the disk, by `verb`."""

    def __init__(self, options: PowerLoss | WipeDisk, context: FaultContext) -> None:
        super().__init__(options, context)
        self._arguments: dict[str, object] = {"mode": options.mode} if isinstance(options, PowerLoss) else {}
        self._verb = "proc.power_loss" if isinstance(options, PowerLoss) else "disk.wipe"

    async def inject(self, ttl: float) -> None:
        context = self._context
        await self._ask(self._verb, id=context.id, name=context.process, ttl=ttl, **self._arguments)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        """Judge as for a kill of a running node: a node that was down before must still be down."""
        ran = {host: {**before[host], "state": "running"} for host in self._targets}
        return super().check_effect(ran, during)

    async def observe(self) -> Facts:
        """Observe the process table as for a kill, and the disk."""
        context = self._context
        facts = await super().observe()
        for target in self._targets:
            disk = await context.hosts[target].call("probe.disk", id=context.id, name=context.process)
            facts[target] |= {name: disk[name] for name in SEEN_ON_DISK if name in disk}
        return facts


class LosePower(_DamageDisk):
    """Kills the process; what it had not fsynced is lost."""

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        left = {target: int(during[target].get("unsynced_bytes") or 0) for target in self._targets}
        if self._arguments["mode"] == "all" and any(left.values()):
            target = next(name for name in self._targets if left[name])
            return f"{target}: {left[target]} bytes that were not fsynced are still there"
        return super().check_effect(before, during)

    def told(self, during: Facts) -> str:
        lost = sum(int(during[target]["lost_bytes"] or 0) for target in self._targets)
        logs = [log for target in self._targets for log in (during[target].get("lost_offsets") or {}).items()]
        logs.sort(key=lambda log: (log[0].startswith("__"), log[0]))  # logs of the load first
        offsets = ", ".join(f"{log} from offset {first} to {after - 1}" for log, (first, after) in logs[:TOLD])
        more = f", {len(logs) - TOLD} more" if len(logs) > TOLD else ""
        return f"process gone, and {lost} bytes that were not fsynced" + (f" ({offsets}{more})" if offsets else "")


class WipeLogDirectory(_DamageDisk):
    """Kills the process and empties its log directory."""

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for target in self._targets:
            if during[target]["files"]:
                return f"{target}: its log directory still has {during[target]['files']} files"
        return super().check_effect(before, during)

    def told(self, during: Facts) -> str:
        return "process gone, log directory empty"


POWER = (
    Kind(
        PowerLoss,
        LosePower,
        ("proc.power_loss",),
        on_hosts="SIGKILL, then files are truncated to what was fsynced; started again when healed",
        proof="as for `kill`; no file holds more than was fsynced (mode `all`); how many bytes were lost",
    ),
    Kind(
        WipeDisk,
        WipeLogDirectory,
        ("disk.wipe",),
        on_hosts="SIGKILL, then the log directory is emptied; started again when healed",
        proof="as for `kill`; and a log directory without files",
    ),
)
