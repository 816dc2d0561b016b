"""A simulated disk: page cache over durable content, with the cost of every call, and faults at any kind of call.

Two kinds of death are distinct (docs/architecture.md): a *crash* ends the process and leaves the page cache, so
everything written stays; a *power loss* leaves only what was made durable, plus a seeded part of the rest.

Model, as strict as POSIX allows and stricter than ext4:

* Content becomes durable by `File.sync`, names (creation, rename, removal) by `Disk.sync_directory`. The ledger is the
  size up to which each file is durable.
* At a power loss `mode` says what becomes of the rest. `all`: nothing survives that was not synced. `torn`: of an
  un-synced tail a random prefix survives: whole writes, or cut at any byte, and then sectors that never reached the
  disk read as zeros;
  an un-synced truncation is either kept or undone; of the un-synced name changes a random prefix survives, in order.
  `none`: everything survives.

Each call adds to `cost` (microseconds); the process that made the calls is busy for that long (`take_cost`). A crash
may strike between any two calls: `crash_after` counts down calls, or calls of one kind, and raises `CrashNow` before
the call that finds it at zero. Faults (`disturb`) make the calls of some kinds fail with `InjectedError`, or take
longer. A write that fails leaves a random part of its content in the file, as real writes may. While no fault is open,
a call costs one more comparison.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from squall.harness.simulation.world.buggify import SeededBuggify

CallKind = Literal["read", "write", "truncate", "fsync", "create", "rename", "remove", "fsync-directory"]
LossMode = Literal["all", "torn", "none"]

SECTOR = 512
MISSING_SECTOR_PROBABILITY = 0.25
BETWEEN_WRITES_PROBABILITY = 0.4
"""How often an un-synced tail is lost from the beginning of one of its writes on, and nothing of it is torn."""


class CrashNow(BaseException):
    """The simulated process dies here. Not an Exception: no handler of the node may swallow it."""


class InjectedError(OSError):
    """A disk call failed because of an open fault."""

    def __init__(self, number: int) -> None:
        super().__init__(number, os.strerror(number))


@dataclass(slots=True, eq=False)
class Disturbance:
    """What a fault does to the calls of some kinds.

    Fails them with `error` (an errno number) at `probability`, or adds `delay` microseconds. `met` counts the calls
    that it affected.
    """

    calls: frozenset[str]
    error: int | None = None
    probability: float = 1.0
    delay: int = 0
    met: int = 0
    path: str = "*"
    """Affect only files whose names match."""
    lie: bool = False
    """Report success of an fsync without making anything durable."""


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """Costs in microseconds; an fsync takes `sync` on average, exponentially distributed, with rare stalls."""

    call: int = 2
    megabyte: int = 700
    sync: int = 300
    stall: int = 20_000
    stall_probability: float = 0.002


class Read(NamedTuple):
    """A read of a file: `length` bytes from `position` on were asked for."""

    path: str
    position: int
    length: int


class _Content:
    """One inode.

    `durable` bytes from the front are safe; `undone` is the durable tail that an un-synced truncation removed. `ends`
    are the sizes after each write that was not synced, as far as the file was not cut below them since. `synced_by` is
    the number of the process that has synced it since the last change, -1 if none has.
    """

    __slots__ = ("data", "durable", "ends", "synced_by", "undone")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = 0
        self.synced_by = -1
        self.ends: list[int] = []
        self.undone: bytes | None = None

    def append(self, *chunks: bytes | bytearray | memoryview) -> None:
        for chunk in chunks:
            self.data += chunk
        self.ends.append(len(self.data))
        self.synced_by = -1

    def truncate(self, size: int) -> None:
        self.synced_by = -1
        if size < self.durable:
            cut = bytes(self.data[size : self.durable])
            self.undone = cut + self.undone if self.undone is not None else cut
            self.durable = size
        del self.data[size:]
        while self.ends and self.ends[-1] > size:
            self.ends.pop()

    def sync(self) -> None:
        self.durable = len(self.data)
        self.ends.clear()
        self.undone = None

    def lose_power(self, rng: Random, mode: LossMode) -> int:
        """Discard what was not durable. Return the number of bytes that were lost or came back."""
        before = len(self.data)
        if mode != "none" and self.undone is not None and (mode == "all" or rng.random() < 0.5):
            self.data = self.data[: self.durable] + bytearray(self.undone)
            lost = before - self.durable + len(self.undone)
        elif mode == "all":
            del self.data[self.durable :]
            lost = before - self.durable
        elif mode == "torn":
            if self.ends and rng.random() < BETWEEN_WRITES_PROBABILITY:
                del self.data[rng.choice((self.durable, *self.ends)) :]
                lost = before - len(self.data)
            else:
                del self.data[rng.randint(self.durable, before) :]
                lost = before - len(self.data) + self._miss_sectors(rng)
        else:
            lost = 0
        self.sync()
        return lost

    def _miss_sectors(self, rng: Random) -> int:
        """Zero some sectors of the surviving tail: they never reached the disk although the file's size did."""
        if rng.random() < 0.5:
            return 0
        missed = 0
        for start in range(self.durable - self.durable % SECTOR, len(self.data), SECTOR):
            first, last = max(start, self.durable), min(start + SECTOR, len(self.data))
            if rng.random() < MISSING_SECTOR_PROBABILITY:
                self.data[first:last] = bytes(last - first)
                missed += last - first
        return missed


_NameChanges = list[tuple[str, _Content | None]]


class _Names(dict[str, _Content]):
    """Files by path. Knows what each directory holds, so that looking into one does not cost a look at all files."""

    def __init__(self, files: Mapping[str, _Content] | None = None) -> None:
        super().__init__()
        self._inside: dict[str, dict[str, int]] = {}
        """For each directory: its entries, with the number of files at or below each."""
        for path, content in (files or {}).items():
            self[path] = content

    def __setitem__(self, path: str, content: _Content) -> None:
        if path not in self:
            self._count(path, 1)
        super().__setitem__(path, content)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        if self.pop(path, None) is not None:
            self._count(path, -1)

    def clear(self) -> None:
        super().clear()
        self._inside.clear()

    def inside(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is no file at any depth."""
        return sorted(self._inside.get(directory, ()))

    def has_directory(self, path: str) -> bool:
        return path in self._inside

    def _count(self, path: str, step: int) -> None:
        while path:
            directory, _, entry = path.rpartition("/")
            entries = self._inside.setdefault(directory, {})
            entries[entry] = entries.get(entry, 0) + step
            if not entries[entry]:
                del entries[entry]
                if not entries:
                    del self._inside[directory]
            path = directory


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


class SimFile:
    """An open file; see `nodes.ports.File`."""

    def __init__(self, disk: SimDisk, content: _Content, path: str) -> None:
        self._disk = disk
        self._content = content
        self.path = path

    def size(self) -> int:
        return len(self._content.data)

    def read(self, offset: int, length: int) -> bytes:
        self._disk.charge("read", length, self._content)
        if self._disk.reads is not None:
            self._disk.reads.append(Read(self.path, offset, length))
        return bytes(memoryview(self._content.data)[offset : offset + length])

    def append(self, *chunks: bytes | bytearray | memoryview) -> None:
        try:
            self._disk.charge("write", sum(len(chunk) for chunk in chunks), self._content)
        except InjectedError:
            self._content.append(self._disk.part_of(chunks))
            raise
        self._content.append(*chunks)
        if self._disk.writes_back():
            self._content.sync()

    def truncate(self, size: int) -> None:
        self._disk.charge("truncate", 0, self._content)
        self._content.truncate(size)

    def sync(self) -> None:
        is_durable = self._disk.charge_sync("fsync", self._content)
        self._disk.note_sync(self.path, self._content)
        if is_durable:
            self._content.sync()

    def close(self) -> None:
        self._disk.close(self)


class SimDisk:
    """One host's disk for one node; outlives the node's incarnations. See `nodes.ports.Disk`."""

    def __init__(self, rng: Random, speed: DiskSpeed | None = None) -> None:
        self.speed = speed or DiskSpeed()
        self.crash_after: int | None = None
        self.crash_kind: CallKind | None = None
        self.in_use = True
        """Whether calls come from the disk's process.

        Faults affect only those: the simulation observer may read at any time.
        """
        self.syncs = 0
        self.errors = 0
        self.bytes_lost = 0
        self.damaged_files = 0
        """How many index files something other than the node has damaged, while no process was using the disk."""
        self.keeps_promises = True
        """Whether no fault has wiped this disk or made it pretend to sync. A power loss alone breaks no promise."""
        self.buggify: SeededBuggify | None = None
        self.reads: list[Read] | None = None
        """What has been read since a list was put here."""
        self.read_at_start: list[Read] = []
        """What the disk's process, or the last one, read of its files while it started."""
        self._rng = rng
        self._cost = 0
        self._slowness = 0
        self._names = _Names()
        self._durable_names = _Names()
        self._pending: list[tuple[str, _NameChanges]] = []
        self._left: list[tuple[str, _NameChanges]] = []
        self._open: dict[str, SimFile] = {}
        self._misused: list[str] = []
        self._needless: list[str] = []
        self._processes = 0
        self._disturbances: dict[str, Disturbance] = {}

    # -- cost and death ---------------------------------------------------------------------------------------

    def take_cost(self) -> int:
        """Return the microseconds spent since the last call, without those that a slow disk adds."""
        cost, self._cost = self._cost, 0
        return cost

    def take_slowness(self) -> int:
        """Return the microseconds that a slow disk has added since the last call."""
        slowness, self._slowness = self._slowness, 0
        return slowness

    @contextmanager
    def at_no_cost(self) -> Iterator[None]:
        """Let an observer read in the middle of a turn: no fault strikes its calls, and the node does not pay them."""
        before = self.in_use, self._cost, self._slowness
        self.in_use = False
        try:
            yield
        finally:
            self.in_use, self._cost, self._slowness = before

    @contextmanager
    def reads_noted(self) -> Iterator[list[Read]]:
        """Note all reads meanwhile."""
        before, self.reads = self.reads, []
        try:
            yield self.reads
        finally:
            self.reads = before

    @property
    def is_slow(self) -> bool:
        return any(disturbance.delay for disturbance in self._disturbances.values())

    def charge(self, kind: CallKind, size: int, where: _Content | str) -> None:
        """Account for one call about this file. Raises CrashNow and InjectedError."""
        if self.crash_after is not None and self.in_use:
            self._count_down(kind)
        if self._disturbances and self.in_use:
            self._suffer(kind, where)
        self._cost += self.speed.call + size * self.speed.megabyte // 1_000_000

    def charge_sync(self, kind: CallKind, where: _Content | str) -> bool:
        """Account for one call that waits for the medium. Return whether it is durable, which a lying disk pretends."""
        if self.crash_after is not None and self.in_use:
            self._count_down(kind)
        honest = not (self._disturbances and self.in_use and self._suffer(kind, where))
        self.keeps_promises = self.keeps_promises and honest
        self.syncs += 1
        self._cost += round(self._rng.expovariate(1) * self.speed.sync)
        if self._rng.random() < self.speed.stall_probability:
            self._cost += self.speed.stall
        if self.buggify is not None and self.buggify.happens("fsync-slow"):
            self._cost += self.buggify.amount("fsync-slow", 5_000, 80_000)
        return honest

    def writes_back(self) -> bool:
        """Whether the host makes the file durable that was just appended to, on its own."""
        return self.buggify is not None and self.buggify.happens("written-back")

    def _count_down(self, kind: CallKind) -> None:
        if kind == "read" or self.crash_after is None or self.crash_kind not in (None, kind):
            return
        if self.crash_after <= 0:
            self.spare()
            raise CrashNow
        self.crash_after -= 1

    def spare(self) -> None:
        """Cancel a pending crash."""
        self.crash_after = None
        self.crash_kind = None

    def _suffer(self, kind: CallKind, where: _Content | str) -> bool:
        """Apply the open faults to one call. Return whether the call is only pretended."""
        lied = False
        for disturbance in self._disturbances.values():
            if kind not in disturbance.calls or not self._is_about(disturbance.path, where):
                continue
            if disturbance.lie:
                disturbance.met += 1
                lied = True
            elif disturbance.error is None:
                disturbance.met += 1
                self._slowness += disturbance.delay
            elif self._rng.random() < disturbance.probability:
                disturbance.met += 1
                self.errors += 1
                raise InjectedError(disturbance.error)
        return lied

    def _is_about(self, pattern: str, where: _Content | str) -> bool:
        """Return whether a file, given by name or content, matches a pattern."""
        if pattern == "*":
            return True
        names = [where] if isinstance(where, str) else [name for name, one in self._names.items() if one is where]
        return any(fnmatch(name, pattern) for name in names)

    def part_of(self, chunks: tuple[bytes | bytearray | memoryview, ...]) -> bytes:
        """Return the random part that a failing write leaves in the file."""
        whole = b"".join(chunks)
        return whole[: self._rng.randint(0, len(whole))]

    def disturb(self, cause: str, disturbance: Disturbance) -> None:
        """Make calls fail or take longer until `undisturb(cause)`."""
        self._disturbances[cause] = disturbance

    def undisturb(self, cause: str) -> None:
        self._disturbances.pop(cause, None)

    @property
    def failing(self) -> bool:
        """Whether an open fault makes calls fail."""
        return any(one.error is not None for one in self._disturbances.values())

    def lose_power(self, mode: LossMode = "torn") -> int:
        """Discard what was not durable. Return the number of bytes lost. The process must be dead."""
        kept = {"all": 0, "none": len(self._pending)}.get(mode, -1)
        if kept < 0:
            kept = self._rng.randint(0, len(self._pending))
        before = sum(len(content.data) for content in self._contents())
        for _, changes in self._pending[:kept]:
            self._apply(self._durable_names, changes)
        self._pending.clear()
        self._names = _Names(self._durable_names)
        lost = max(0, before - sum(len(content.data) for content in self._contents()))
        lost += sum(content.lose_power(self._rng, mode) for content in self._contents())
        self.bytes_lost += lost
        return lost

    def _contents(self) -> list[_Content]:
        """Return every file once, even if it has several names."""
        return list({id(one): one for one in self._names.values()}.values())

    def wipe(self) -> int:
        """Delete everything, durably. Return the number of bytes. The process must be dead."""
        lost = sum(len(content.data) for content in self._contents())
        self.keeps_promises = False
        self._names.clear()
        self._durable_names.clear()
        self._pending.clear()
        self.bytes_lost += lost
        return lost

    @property
    def unsynced_bytes(self) -> int:
        """Bytes of content that a power loss could take now."""
        return sum(len(content.data) - content.durable for content in self._contents())

    @property
    def files(self) -> int:
        return len(self._names)

    # -- names ------------------------------------------------------------------------------------------------

    @staticmethod
    def _apply(names: _Names, changes: _NameChanges) -> None:
        for path, content in changes:
            if content is None:
                names.remove(path)
            else:
                names[path] = content

    def _change(self, directory: str, changes: _NameChanges) -> None:
        """One atomic change of names, durable once `directory` is synced."""
        self._apply(self._names, changes)
        self._pending.append((directory, changes))

    def content(self, path: str) -> bytes | None:
        """Return a file's content as it is in the page cache, at no cost to the node; None without such a file."""
        found = self._names.get(path)
        return None if found is None else bytes(found.data)

    def note_start(self) -> None:
        """Note that another process begins to use this disk: see `names_left`, `open_files` and `needless_syncs`."""
        self._processes += 1
        self._needless.clear()
        self._left = list(self._pending)
        self._open.clear()
        self._misused.clear()

    def names_left(self) -> list[str]:
        """Return the files that earlier processes have created or renamed, and whose names are not durable yet."""
        pending = {id(one) for one in self._pending}
        left = [changes for one in self._left if id(one) in pending for changes in one[1]]
        return [path for path, content in left if content is not None and path in self._names]

    def open_files(self) -> list[str]:
        """Return the paths of the files that the disk's process, or the last one, has opened and not closed."""
        return list(self._open)

    def misused_files(self) -> list[str]:
        """Return what the disk's process, or the last one, did with files that it had open, and a host cannot bear.

        A real file caches its size, and may be closed and opened again by its path any time (`nodes/server/disk.py`).
        So no file may be opened a second time, renamed, replaced or removed while it is open.
        """
        return list(self._misused)

    def note_sync(self, path: str, content: _Content) -> None:
        """Note that a file is synced; see `needless_syncs`."""
        if not self.in_use:
            return
        if content.synced_by == self._processes:
            self._needless.append(path)
        content.synced_by = self._processes

    def needless_syncs(self) -> list[str]:
        """Return the files that the disk's process, or the last one, has synced twice without a change between."""
        return list(self._needless)

    def durable_bytes(self, path: str) -> int:
        """Return how many bytes of a file survive any power loss: none if its name may be lost."""
        content = self._names.get(path)
        return 0 if content is None or self._durable_names.get(path) is not content else content.durable

    def returning(self, directory: str) -> list[str]:
        """Return the files in a directory that are removed, or replaced, and that a power loss may bring back."""
        paths = [f"{directory}/{name}" for name in self._durable_names.inside(directory)]
        return [path for path in paths if self._names.get(path) is not self._durable_names.get(path)]

    def copy_to(self, directory: Path) -> None:
        """Copy every file, as it is in the page cache, to a directory of the real machine, at no cost to the node."""
        for name, content in self._names.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.data)

    def list(self, path: str) -> list[str]:
        return self._names.inside(path)

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all files, in order, at no cost to the node."""
        return tuple(sorted(self._names))

    def exists(self, path: str) -> bool:
        return path in self._names or self._names.has_directory(path)

    def make_directory(self, path: str) -> None:
        self.charge("create", 0, path)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        content = self._names.get(path)
        if content is None:
            if not create:
                raise FileNotFoundError(path)
            self.charge("create", 0, path)
            content = _Content()
            self._change(_parent(path), [(path, content)])
        file = SimFile(self, content, path)
        if self.in_use:
            self._not_while_open(path, "opened again")
            self._open[path] = file
        return file

    def close(self, file: SimFile) -> None:
        """Note that a file is closed; see `open_files`."""
        if self._open.get(file.path) is file:
            del self._open[file.path]

    def _not_while_open(self, path: str, deed: str) -> None:
        if path in self._open:
            self._misused.append(f"{path} was {deed}")

    def rename(self, old: str, new: str) -> None:
        self.charge("rename", 0, old)
        moved = [old] if old in self._names else [name for name in self._names if name.startswith(f"{old}/")]
        if not moved:
            raise FileNotFoundError(old)
        for name in moved:
            self._not_while_open(name, "renamed")
            self._not_while_open(new + name[len(old) :], "replaced")
        arrivals: _NameChanges = [(new + name[len(old) :], self._names[name]) for name in moved]
        departures: _NameChanges = [(name, None) for name in moved]
        self._change(_parent(new), arrivals + departures)

    def remove(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(path)
        self.charge("remove", 0, path)
        self._not_while_open(path, "removed")
        self._change(_parent(path), [(path, None)])

    def remove_tree(self, path: str) -> None:
        for name in [name for name in self._names if name == path or name.startswith(f"{path}/")]:
            self.remove(name)

    def sync_directory(self, path: str) -> None:
        if not self.charge_sync("fsync-directory", path):
            return
        waiting = []
        for directory, changes in self._pending:
            if directory == path or directory.startswith(f"{path}/") or not path:
                self._apply(self._durable_names, changes)
            else:
                waiting.append((directory, changes))
        self._pending = waiting
