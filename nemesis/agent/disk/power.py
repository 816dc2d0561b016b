"""Power loss and wiped disks: a killed node's files are cut to what it had fsynced, or removed.

The node keeps a ledger of what is durable, as lines beside its log directory: `u` existed at a start, `s` synced, `c`
created, `t` truncated, `m` moved, `d` removed, `y` directory synced. After the kill each file is cut to its size at its
last fsync (`all`), or to a random length between that and its written size (`torn`, where the last sector may be
zeroes, as on a disk that was writing), or left unchanged (`none`). A file whose name was never made durable is removed.
The ledger stays as the dead node wrote it, so that `probe.disk` can compare the files with it. When the fault ends, the
ledger is restarted before the node starts: everything that exists then is durable. Its lines about fsyncs while the
disk lied (`disk_lies.py`) do not count.

Not LazyFS: it needs FUSE and a mount. The ledger works on any file system and leaves no mount behind.

The random draw is seeded by the fault's id, so a repeated run tears equal files equally. The losses, by file and by
offsets of logs, are kept in the agent's state by fault id: `probe.disk` reports them, and they make the verb
idempotent.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import text
from squall.nemesis.agent.core.journal import Entry, write_durably
from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.disk.batches import Offsets, joined, log_of, offsets_beyond
from squall.nemesis.agent.disk.disk_lies import believable, go_on_lying
from squall.nemesis.agent.process.signals import Kill

NOT_DURABLE = -1
SECTOR = 512
MODES = ("all", "torn", "none")


def replay(lines: Sequence[str]) -> dict[str, int]:
    """The durable size of each file; NOT_DURABLE for a file without a durable name. Ignores a cut-off line."""
    sizes: dict[str, int] = {}
    for line in lines:
        kind, _, rest = line.partition(" ")
        number, _, path = rest.partition(" ")
        if not path or not number.isdecimal():
            continue
        size = int(number)
        if kind == "u":
            sizes.setdefault(path, size)
        elif kind == "s":
            sizes[path] = size
        elif kind == "c":
            sizes.setdefault(path, NOT_DURABLE)
        elif kind == "t":
            sizes[path] = min(sizes.get(path, NOT_DURABLE), size)
        elif kind == "m":
            old, _, new = path.partition("\t")
            sizes.update({new + name[len(old) :]: sizes.pop(name) for name in _at_or_below(sizes, old)})
        elif kind == "d":
            for name in _at_or_below(sizes, path):
                del sizes[name]
        elif kind == "y":
            sizes.update({name: max(sizes[name], 0) for name in _at_or_below(sizes, "" if path == "." else path)})
    return sizes


def _at_or_below(sizes: dict[str, int], path: str) -> list[str]:
    return [name for name in sizes if not path or name == path or name.startswith(f"{path}/")]


@dataclass
class Loss:
    """What a fault took: for each file its size now (-1: removed) and before; for each log the first missing offset and
    the one after the last.
    """

    files: dict[str, list[int]] = field(default_factory=dict)
    offsets: dict[str, Offsets] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(before - max(after, 0) for after, before in self.files.values())

    def note(self, name: str, path: Path, kept: int, good: int) -> None:
        """Record that a file is about to be cut to `kept` bytes (-1: removed), of which the first `good` stay as
        written.
        """
        self.files[name] = [kept, path.stat().st_size]
        log = log_of(name)
        gone = offsets_beyond(path, good) if log else None
        if log and gone:
            self.offsets[log] = joined(self.offsets.get(log), gone)


class NodeFiles:
    """The files of one node, and its ledger."""

    def __init__(self, directory: Path, ledger: Path) -> None:
        self.directory = directory
        self.ledger = ledger

    def files(self) -> list[str]:
        found = [path for path in self.directory.rglob("*") if path.is_file() and path.name != ".lock"]
        return sorted(path.relative_to(self.directory).as_posix() for path in found)

    def durable(self) -> dict[str, int]:
        return replay(believable(self.ledger))

    def lose(self, mode: str, seed: str) -> Loss:
        """Remove what was not durable."""
        durable, rng = self.durable(), random.Random(seed)
        loss = Loss()
        for name in self.files():
            path = self.directory / name
            size, safe = path.stat().st_size, durable.get(name, NOT_DURABLE)
            kept = rng.randint(max(safe, 0), size) if mode == "torn" and size > max(safe, 0) else safe
            if kept != NOT_DURABLE and kept >= size:
                continue
            good = self._good_until(safe, kept, rng) if mode == "torn" else max(kept, 0)
            loss.note(name, path, kept, good)
            if kept == NOT_DURABLE:
                path.unlink()
            else:
                os.truncate(path, good)
                os.truncate(path, kept)  # bytes that were never written read as zeroes
        return loss

    def _good_until(self, safe: int, kept: int, rng: random.Random) -> int:
        """In one of three cases the last remaining sector was never written."""
        start = max(safe, 0, (kept - 1) // SECTOR * SECTOR)
        return start if kept > start and rng.random() < 1 / 3 else max(kept, 0)

    def wipe(self) -> Loss:
        """Empty the log directory: logs, checkpoints and the node's identity."""
        loss = Loss()
        for name in self.files():
            loss.note(name, self.directory / name, NOT_DURABLE, 0)
        self.empty()
        return loss

    def empty(self) -> None:
        for path in self.directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()

    def begin_ledger_anew(self) -> None:
        """Restart the ledger: everything that exists now is durable."""
        sizes = {name: (self.directory / name).stat().st_size for name in self.files()}
        write_durably(self.ledger, "".join(f"s {size} {name}\n" for name, size in sizes.items()))
        go_on_lying(self.ledger)

    def unsynced_bytes(self) -> int:
        """How many bytes a power failure would take now."""
        durable = self.durable()
        sizes = {name: (self.directory / name).stat().st_size for name in self.files()}
        return sum(max(0, size - max(durable.get(name, NOT_DURABLE), 0)) for name, size in sizes.items())


class Losses:
    """What each fault took, by its id; kept after the fault as evidence."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "losses"
        self._directory.mkdir(parents=True, exist_ok=True)

    def of(self, id: str) -> Loss | None:
        path = self._path(id)
        return Loss(**json.loads(path.read_text())) if path.exists() else None

    def keep(self, id: str, loss: Loss) -> None:
        write_durably(self._path(id), json.dumps(asdict(loss)))

    def forget(self, id: str) -> None:
        self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self._directory / f"{file_name(id)}.json"


class Damage(Kill, ABC):
    """A kill that changes the disk before the process can restart."""

    needs_ledger = True
    """Whether what it takes depends on what the process had fsynced."""

    def __init__(self, processes: Processes, losses: Losses) -> None:
        super().__init__(processes)
        self._losses = losses

    @abstractmethod
    def damage(self, entry: Entry, files: NodeFiles) -> Loss:
        """Damage the disk. Returns what was lost."""

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check the arguments. A node that is down can lose its disk too: then there is no process to kill, and `pid`
        is null.
        """
        name = text(arguments, "name")
        definition = self._processes.definition(name)
        if not definition.data or (self.needs_ledger and not definition.ledger):
            missing = "`data` and `ledger`: what it has fsynced is not known" if self.needs_ledger else "`data`"
            raise VerbError("unsupported", f"{name} was defined without {missing}")
        self._losses.forget(text(arguments, "id"))
        identity = self._processes.alive(name)
        process = {"pid": identity.pid, "started": identity.started} if identity else {"pid": None, "started": None}
        return {"name": name, **process, "data": definition.data, "ledger": definition.ledger}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        runs = entry.arguments["pid"] is not None
        answer = super().inject(entry, open_entries) if runs else {"pid": None}
        loss = self._losses.of(entry.id)
        if loss is None:
            loss = self.damage(entry, _files_in(entry))
            self._losses.keep(entry.id, loss)
        return {**answer, "lost_bytes": loss.bytes}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        if entry.arguments["ledger"] and self._processes.alive(entry.arguments["name"]) is None:
            _files_in(entry).begin_ledger_anew()
        super().undo(entry, remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        down = {other.arguments["name"] for other in remaining}
        for name in self._processes.names():
            told = self._processes.definition(name)
            lost = self._losses.of(id) is not None and told.data and told.ledger and Path(told.data).is_dir()
            if lost and name not in down and self._processes.alive(name) is None:
                NodeFiles(Path(told.data), Path(told.ledger)).begin_ledger_anew()
        super().undo_unknown(id, remaining)


def _files_in(entry: Entry) -> NodeFiles:
    return NodeFiles(Path(entry.arguments["data"]), Path(entry.arguments["ledger"]))


class PowerLoss(Damage):
    """`proc.power_loss`"""

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        mode = str(arguments.get("mode", "all"))
        if mode not in MODES:
            raise VerbError("bad_argument", f"mode: {mode!r} must be one of {', '.join(MODES)}")
        return {**super().prepare(arguments), "mode": mode}

    def damage(self, entry: Entry, files: NodeFiles) -> Loss:
        mode = entry.arguments["mode"]
        return Loss() if mode == "none" else files.lose(mode, entry.id)


class WipeDisk(Damage):
    """`disk.wipe`: of any process whose data directory is known."""

    needs_ledger = False

    def damage(self, entry: Entry, files: NodeFiles) -> Loss:
        return files.wipe()
