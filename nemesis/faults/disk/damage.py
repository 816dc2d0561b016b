"""Files of a node that are damaged or lost, and log directories that go back in time.

The first look (`probe.file`) chooses the place, so that every look reads the same stretch of the same file. Evidence is
what another process reads there: its digest before, during and after. The cluster does not heal damage; at the end the
bytes are restored if `restore` says so, and a node that ended because of them is restarted. What the node makes of
damage that it read in between is for the checks to judge: a verdict of *invalid* may be right.
"""

from __future__ import annotations

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of, process_facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import MARGIN_SECONDS, why_not_back, why_not_killed
from squall.nemesis.options import BitFlip, CopyChunk, FileCopyRestore, LoseFile, TruncateFile

PLACE = ("file", "offset", "length", "source")
UNTIL_RESTORED = 1.0
"""Seconds by which a node that is down outlives the damage if the hosts' times to live end both."""

DamageOptions = BitFlip | TruncateFile | CopyChunk | LoseFile


class DamageFiles(AimedFault):
    """Damages one file of each target."""

    def __init__(self, options: DamageOptions, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self._places: dict[str, dict[str, object]] = {}

    @property
    def _down(self) -> bool:
        return self._options.node == "down"

    def _how(self) -> tuple[str, dict[str, object]]:
        """The kind of damage, and the arguments that choose its place."""
        match self._options:
            case BitFlip():
                return self._options.become, {"length": self._options.bytes, "where": self._options.where}
            case TruncateFile():
                return "truncate", {"length": self._options.bytes}
            case CopyChunk():
                return "copy", {"length": self._options.bytes, "where": self._options.where}
            case LoseFile():
                return self._options.how, {"length": 0}

    async def observe(self) -> Facts:
        context = self._context
        files = await all_of(self._look(name) for name in self._targets)
        processes = await process_facts(context.hosts, self._targets, context.process, context.ports)
        seen = dict(zip(self._targets, files, strict=True))
        said = ", ".join(f"{name} {_in_words(file)}" for name, file in seen.items())
        return {"files": seen, "processes": processes, "said": said}

    async def _look(self, name: str) -> Facts:
        """Look at the file; the first look chooses the place."""
        context = self._context
        how, chosen_by = self._how()
        where = self._places.get(name) or {"file": self._options.file, "how": how, **chosen_by}
        seen = await context.hosts[name].call("probe.file", id=context.id, name=context.process, **where)
        self._places.setdefault(name, {key: seen[key] for key in PLACE})
        return {key: seen[key] for key in (*PLACE, "size", "digest", "open")}

    async def inject(self, ttl: float) -> None:
        context, (how, _) = self._context, self._how()
        if self._down:
            longer = ttl + UNTIL_RESTORED
            await self._ask("proc.kill", id=self._kill_id, name=context.process, ttl=longer)
        told = {"id": context.id, "name": context.process, "how": how, "restore": self._options.restore, "ttl": ttl}
        await all_of(context.hosts[name].call("disk.damage", **told, **self._places[name]) for name in self._targets)

    @property
    def _kill_id(self) -> str:
        return f"{self._context.id}/node"

    async def heal(self) -> None:
        for id in (self._context.id, *((self._kill_id,) if self._down else ())):
            await self._ask("heal", id=id)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for name in self._targets:
            was, seen = before["files"][name], during["files"][name]
            if was["digest"] is None:
                return f"{name}: {was['file']} did not exist before the fault"
            if seen["digest"] == was["digest"]:
                return f"{name}: {was['file']} has the same content as before"
            if isinstance(self._options, LoseFile) and seen["digest"] is not None:
                return f"{name}: {was['file']} still exists"
            if self._down:
                reason = why_not_killed(name, before["processes"][name], during["processes"][name])
                if reason is not None:
                    return reason
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        for name in self._targets:
            was, seen = before["files"][name], after["files"][name]
            if seen["open"]:
                return f"{name}: the fault is still open"
            if self._options.restore and seen["digest"] != was["digest"]:
                return f"{name}: {was['file']} differs from its old content from byte {was['offset']} on"
            reason = why_not_back(name, after["processes"][name])
            if reason is not None:
                return reason
        return None

    def told(self, during: Facts) -> str:
        first = during["files"][self._targets[0]]
        match self._options:
            case BitFlip(become="flip"):
                what = f"{first['length']} bits flipped at byte {first['offset']} of {first['file']}"
            case BitFlip():
                what = f"{first['length']} bytes of {self._options.become} at byte {first['offset']} of {first['file']}"
            case TruncateFile():
                what = f"{first['file']} cut at byte {first['offset']}"
            case CopyChunk():
                what = f"{first['length']} bytes copied over byte {first['offset']} of {first['file']}"
            case LoseFile():
                what = f"{first['file']} {'deleted' if self._options.how == 'delete' else 'renamed'}"
        return f"{what}, the node {self._options.node}"


def _in_words(file: Facts) -> str:
    reads = f"from byte {file['offset']} on has digest {file['digest'][:8]}" if file["digest"] else "does not exist"
    return f"{file['file']} {reads}"


class RestoreCopy(AimedFault):
    """`file-copy-restore`: as when a backup is restored, or a virtual machine goes back to a snapshot."""

    def __init__(self, options: FileCopyRestore, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options

    @property
    def _copy(self) -> str:
        return f"{self._context.id}/copy"

    async def observe(self) -> Facts:
        context = self._context
        facts = await process_facts(context.hosts, self._targets, context.process, context.ports)
        for name in self._targets:
            host = context.hosts[name]
            copy = await host.call("probe.copy", copy=self._copy, name=context.process)
            disk = await host.call("probe.disk", id=context.id, name=context.process)
            facts[name] |= {"same": copy["same"], "files": copy["files"], "lost_bytes": disk.get("lost_bytes")}
        return facts

    async def inject(self, ttl: float) -> None:
        """Copy first; when the copy is old enough, kill and replace."""
        context, common = self._context, {"name": self._context.process}
        longer = ttl + self._options.age + MARGIN_SECONDS
        await self._ask("disk.copy", id=self._copy, ttl=longer, **common)
        await context.sleep(self._options.age)
        await self._ask("disk.rewind", id=context.id, copy=self._copy, ttl=ttl, **common)

    async def heal(self) -> None:
        for id in (self._context.id, self._copy):
            await self._ask("heal", id=id)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for name in self._targets:
            reason = why_not_killed(name, before[name], during[name])
            if reason is not None:
                return reason
            if not during[name]["same"]:
                return f"{name}: its log directory differs from the copy"
            if not during[name]["lost_bytes"]:
                return f"{name}: nothing was written since the copy, so restoring it changed nothing"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        reasons = (why_not_back(name, after[name]) for name in self._targets)
        return next((reason for reason in reasons if reason), None)

    def told(self, during: Facts) -> str:
        lost = sum(int(during[name]["lost_bytes"] or 0) for name in self._targets)
        return f"{self._options.age:g} s back: {lost} bytes written since the copy are lost, the process gone"


BY_ROOT = "the agent writes to the node's file, keeps the old bytes, and restores them unless `restore: false`"
READ_BY_ANOTHER = "the digest of the byte range as another process reads it, before, during and after"
NOT_HEALED = (
    "healing does not undo what the node did with the bytes; restores only bytes that the node has not written "
    "since, and nothing that it holds in memory"
)

DAMAGES = (
    Kind(
        BitFlip,
        DamageFiles,
        ("disk.damage",),
        simulation=False,
        on_hosts=BY_ROOT,
        proof=READ_BY_ANOTHER,
        limits=NOT_HEALED,
    ),
    Kind(
        TruncateFile,
        DamageFiles,
        ("disk.damage",),
        simulation=False,
        on_hosts=BY_ROOT,
        proof=READ_BY_ANOTHER,
        limits=NOT_HEALED,
    ),
    Kind(
        CopyChunk,
        DamageFiles,
        ("disk.damage",),
        simulation=False,
        on_hosts=BY_ROOT,
        proof=READ_BY_ANOTHER,
        limits=NOT_HEALED,
    ),
    Kind(
        LoseFile,
        DamageFiles,
        ("disk.damage",),
        simulation=False,
        on_hosts="the file is moved out of the log directory or renamed in it; moved back unless `restore: false`",
        proof="another process does not find it",
        limits=NOT_HEALED,
    ),
    Kind(
        FileCopyRestore,
        RestoreCopy,
        ("disk.copy", "disk.rewind"),
        simulation=False,
        on_hosts="the log directory is copied while the node is paused; later SIGKILL, and the copy takes "
        "its place; started again when healed",
        proof="as for `kill`; the digests of all files equal those of the copy; how many bytes were written since",
        limits="not undone: bytes written since the copy are lost",
    ),
)
