"""Power loss and wiped disks: a killed node's files are cut to what it had fsynced, or removed.

The node keeps a ledger of what is durable, lines beside its log directory: `u` there at a start, `s` synced, `c`
created, `t` truncated, `m` moved, `d` removed, `y` directory synced. After the kill each file is cut to its size at its
last fsync (`all`), or to a random length between that and what was written (`torn`, where the last sector may be
zeroes, as on a disk that was writing), or left alone (`none`). A file whose name was never made durable is gone. Then
the ledger is begun anew: what is there now is durable.

The draw is seeded by the fault's id, so a repeated run tears alike where the files are alike. What was lost is kept in
the agent's state by fault id: it is what `probe.disk` tells, and it makes the verb safe to repeat.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faults import Hit, Kill, text
from journal import Entry, write_durably
from processes import Processes
from trouble import Trouble

NOT_DURABLE = -1
SECTOR = 512
MODES = ("all", "torn", "none")


def replay(lines: Sequence[str]) -> dict[str, int]:
    """The durable size of each file, NOT_DURABLE for one without a durable name. A cut-off line says nothing."""
    sizes: dict[str, int] = {}
    for line in lines:
        kind, _, rest = line.partition(" ")
        number, _, path = rest.partition(" ")
        if not path or not number.isdigit():
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


class NodeFiles:
    """The files of one node, and its ledger."""

    def __init__(self, directory: Path, ledger: Path) -> None:
        self.directory = directory
        self.ledger = ledger

    def files(self) -> list[str]:
        found = [path for path in self.directory.rglob("*") if path.is_file() and path.name != ".lock"]
        return sorted(path.relative_to(self.directory).as_posix() for path in found)

    def durable(self) -> dict[str, int]:
        return replay(self.ledger.read_text(encoding="utf-8", errors="replace").splitlines())

    def lose(self, mode: str, seed: str) -> dict[str, list[int]]:
        """Take away what was not durable; for each file that lost some, its size now (-1: gone) and before."""
        durable, rng = self.durable(), random.Random(seed)
        lost: dict[str, list[int]] = {}
        for name in self.files():
            path = self.directory / name
            size, kept = path.stat().st_size, durable.get(name, NOT_DURABLE)
            if mode == "torn" and size > max(kept, 0):
                kept = rng.randint(max(kept, 0), size)
            if kept == NOT_DURABLE:
                path.unlink()
                lost[name] = [NOT_DURABLE, size]
            elif kept < size:
                os.truncate(path, kept)
                if mode == "torn":
                    self._tear(path, max(durable.get(name, 0), 0), kept, rng)
                lost[name] = [kept, size]
        self.begin_ledger_anew()
        return lost

    def _tear(self, path: Path, durable: int, size: int, rng: random.Random) -> None:
        """In one of three cases the last sector that is left was never written: zeroes."""
        start = max(durable, (size - 1) // SECTOR * SECTOR)
        if size > start and rng.random() < 1 / 3:
            with path.open("r+b") as file:
                file.seek(start)
                file.write(bytes(size - start))

    def wipe(self) -> dict[str, list[int]]:
        """Empty the log directory."""
        lost = {name: [NOT_DURABLE, (self.directory / name).stat().st_size] for name in self.files()}
        for path in self.directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != ".lock":
                path.unlink()
        self.begin_ledger_anew()
        return lost

    def begin_ledger_anew(self) -> None:
        """What is there now is durable."""
        sizes = {name: (self.directory / name).stat().st_size for name in self.files()}
        write_durably(self.ledger, "".join(f"s {size} {name}\n" for name, size in sizes.items()))

    def unsynced_bytes(self) -> int:
        """What a power failure would take now."""
        durable = self.durable()
        sizes = {name: (self.directory / name).stat().st_size for name in self.files()}
        return sum(max(0, size - max(durable.get(name, NOT_DURABLE), 0)) for name, size in sizes.items())


class Losses:
    """What each fault took, by its id; it outlives the fault, for whoever looks afterwards."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "losses"
        self._directory.mkdir(parents=True, exist_ok=True)

    def of(self, id: str) -> dict[str, list[int]] | None:
        path = self._path(id)
        if not path.exists():
            return None
        found: dict[str, list[int]] = json.loads(path.read_text())
        return found

    def keep(self, id: str, lost: dict[str, list[int]]) -> None:
        write_durably(self._path(id), json.dumps(lost))

    def forget(self, id: str) -> None:
        self._path(id).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        return self._directory / f"{id.replace('/', '_')}.json"


def lost_bytes(lost: dict[str, list[int]] | None) -> int | None:
    """How many bytes that is; None where it is not known."""
    return None if lost is None else sum(before - max(after, 0) for after, before in lost.values())


class _Damage(Kill, ABC):
    """A kill that does something to the disk before anybody can start the process again."""

    def __init__(self, processes: Processes, losses: Losses) -> None:
        super().__init__(processes)
        self._losses = losses

    @abstractmethod
    def damage(self, entry: Entry, files: NodeFiles) -> dict[str, list[int]]:
        """Do it; for each file that lost something, its size now and before."""

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        prepared = Hit.prepare(self, arguments)
        definition = self._processes.definition(prepared["name"])
        if not definition.data or not definition.ledger:
            raise Trouble(
                "unsupported",
                f"{prepared['name']} was defined without `data` and `ledger`: what it has fsynced is not known",
            )
        self._losses.forget(text(arguments, "id"))
        return {**prepared, "data": definition.data, "ledger": definition.ledger}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        answer = super().inject(entry, open_entries)
        lost = self._losses.of(entry.id)
        if lost is None:
            lost = self.damage(entry, NodeFiles(Path(entry.arguments["data"]), Path(entry.arguments["ledger"])))
            self._losses.keep(entry.id, lost)
        return {**answer, "lost_bytes": lost_bytes(lost)}


class PowerLoss(_Damage):
    """`proc.power_loss`"""

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        mode = str(arguments.get("mode", "all"))
        if mode not in MODES:
            raise Trouble("bad_argument", f"mode: {mode!r} must be one of {', '.join(MODES)}")
        return {**super().prepare(arguments), "mode": mode}

    def damage(self, entry: Entry, files: NodeFiles) -> dict[str, list[int]]:
        mode = entry.arguments["mode"]
        return {} if mode == "none" else files.lose(mode, entry.id)


class WipeDisk(_Damage):
    """`disk.wipe`"""

    def damage(self, entry: Entry, files: NodeFiles) -> dict[str, list[int]]:
        return files.wipe()
