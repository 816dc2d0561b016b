"""A simulated disk: page cache over durable content, with the cost of every call.

Two kinds of death are kept apart (docs/architecture.md): a *crash* ends the process and leaves the page cache, so
everything written stays; a *power loss* leaves only what was made durable, plus a seeded part of the rest.

Model, as strict as POSIX allows and stricter than ext4:

* Content becomes durable by `File.sync`, names (creation, rename, removal) by `Disk.sync_directory`.
* At a power loss an un-synced tail of a file survives up to a random byte (a torn write), an un-synced truncation is
  either kept or undone, and a random prefix of the un-synced name changes survives, in order.

Each call adds to `cost` (microseconds); the process that made the calls is busy for that long (`take_cost`). A crash
may strike between any two calls: `crash_after` counts calls down and raises `CrashNow` before the one it hits.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


class CrashNow(BaseException):
    """The simulated process dies here. Not an Exception: no handler of the node may swallow it."""


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """Costs in microseconds; an fsync takes `sync` on average, exponentially distributed, with rare stalls."""

    call: int = 2
    megabyte: int = 700
    sync: int = 300
    stall: int = 20_000
    stall_probability: float = 0.002


class _Content:
    """One inode. `durable` bytes from the front are safe; `undone` is the safe tail an un-synced truncation cut."""

    __slots__ = ("data", "durable", "undone")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = 0
        self.undone: bytes | None = None

    def truncate(self, size: int) -> None:
        if size < self.durable:
            cut = bytes(self.data[size : self.durable])
            self.undone = cut + self.undone if self.undone is not None else cut
            self.durable = size
        del self.data[size:]

    def sync(self) -> None:
        self.durable = len(self.data)
        self.undone = None

    def lose_power(self, rng: Random) -> None:
        if self.undone is not None and rng.random() < 0.5:
            self.data = self.data[: self.durable] + bytearray(self.undone)
        else:
            del self.data[rng.randint(self.durable, len(self.data)) :]
        self.sync()


_NameChanges = list[tuple[str, _Content | None]]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


class SimFile:
    """An open file; see `nodes.ports.File`."""

    def __init__(self, disk: SimDisk, content: _Content) -> None:
        self._disk = disk
        self._content = content

    def size(self) -> int:
        return len(self._content.data)

    def read(self, offset: int, length: int) -> bytes:
        self._disk.charge(0, length)
        return bytes(memoryview(self._content.data)[offset : offset + length])

    def append(self, *chunks: bytes | bytearray | memoryview) -> None:
        self._disk.charge(1, sum(len(chunk) for chunk in chunks))
        for chunk in chunks:
            self._content.data += chunk

    def truncate(self, size: int) -> None:
        self._disk.charge(1, 0)
        self._content.truncate(size)

    def sync(self) -> None:
        self._disk.charge_sync()
        self._content.sync()

    def close(self) -> None:
        return None


class SimDisk:
    """One host's disk for one node; outlives the node's incarnations. See `nodes.ports.Disk`."""

    def __init__(self, rng: Random, speed: DiskSpeed = DiskSpeed()) -> None:
        self.speed = speed
        self.crash_after: int | None = None
        self.syncs = 0
        self._rng = rng
        self._cost = 0
        self._names: dict[str, _Content] = {}
        self._durable_names: dict[str, _Content] = {}
        self._pending: list[tuple[str, _NameChanges]] = []

    # -- cost and death ---------------------------------------------------------------------------------------

    def take_cost(self) -> int:
        """Microseconds spent since the last call."""
        cost, self._cost = self._cost, 0
        return cost

    def charge(self, writes: int, size: int) -> None:
        self._count_down(writes)
        self._cost += self.speed.call + size * self.speed.megabyte // 1_000_000

    def charge_sync(self) -> None:
        self._count_down(1)
        self.syncs += 1
        self._cost += round(self._rng.expovariate(1) * self.speed.sync)
        if self._rng.random() < self.speed.stall_probability:
            self._cost += self.speed.stall

    def _count_down(self, calls: int) -> None:
        if self.crash_after is None or calls == 0:
            return
        if self.crash_after <= 0:
            self.crash_after = None
            raise CrashNow
        self.crash_after -= calls

    def lose_power(self) -> None:
        """Forget what was not durable. The process must be dead."""
        kept = self._rng.randint(0, len(self._pending))
        for _, changes in self._pending[:kept]:
            self._apply(self._durable_names, changes)
        self._pending.clear()
        self._names = dict(self._durable_names)
        for content in {id(one): one for one in self._names.values()}.values():
            content.lose_power(self._rng)

    # -- names ------------------------------------------------------------------------------------------------

    @staticmethod
    def _apply(names: dict[str, _Content], changes: _NameChanges) -> None:
        for path, content in changes:
            if content is None:
                names.pop(path, None)
            else:
                names[path] = content

    def _change(self, directory: str, changes: _NameChanges) -> None:
        """One atomic change of names, durable once `directory` is synced."""
        self._apply(self._names, changes)
        self._pending.append((directory, changes))

    def list(self, path: str) -> list[str]:
        prefix = f"{path}/" if path else ""
        inside = {name[len(prefix) :].split("/")[0] for name in self._names if name.startswith(prefix)}
        return sorted(inside)

    def exists(self, path: str) -> bool:
        return path in self._names or any(name.startswith(f"{path}/") for name in self._names)

    def make_directory(self, path: str) -> None:
        self.charge(1, 0)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        content = self._names.get(path)
        if content is None:
            if not create:
                raise FileNotFoundError(path)
            self.charge(1, 0)
            content = _Content()
            self._change(_parent(path), [(path, content)])
        return SimFile(self, content)

    def rename(self, old: str, new: str) -> None:
        self.charge(1, 0)
        moved = [name for name in self._names if name == old or name.startswith(f"{old}/")]
        if not moved:
            raise FileNotFoundError(old)
        arrivals: _NameChanges = [(new + name[len(old) :], self._names[name]) for name in moved]
        departures: _NameChanges = [(name, None) for name in moved]
        self._change(_parent(new), arrivals + departures)

    def remove(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(path)
        self.charge(1, 0)
        self._change(_parent(path), [(path, None)])

    def remove_tree(self, path: str) -> None:
        for name in [name for name in self._names if name == path or name.startswith(f"{path}/")]:
            self.remove(name)

    def sync_directory(self, path: str) -> None:
        self.charge_sync()
        waiting = []
        for directory, changes in self._pending:
            if directory == path or directory.startswith(f"{path}/") or not path:
                self._apply(self._durable_names, changes)
            else:
                waiting.append((directory, changes))
        self._pending = waiting
