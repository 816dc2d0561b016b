"""What a program has fsynced, found by watching it; so that a loss of power can be played to a program of any system.

    ledger = SyncLedger(directory)
    process = ledger.start(["nats-server", …])       # its fsyncs stop, are written down here, and go on
    process.kill(); process.wait()
    loss = ledger.lose_power()                       # cuts what was never fsynced

The program is started under a watch (`disk_watch.py`) that hands over fsync, fdatasync, renames, openings with O_SYNC
or O_DSYNC, sync, syncfs and msync. At each fsync the ledger notes the file's inode and size, before the call goes on.

A loss of power cuts each file at its size when its last fsync began, and removes a file that was never fsynced. What is
cut was written after that, so that a system may not count on it. A real machine writes much of it back within half a
minute; a loss of power may come before that. More may be kept than a disk would have kept: bytes that were overwritten
in place, renames and removals, the old entry of an inode that is used again, an fsync that a kill has cut short, a path
that was once opened with O_SYNC.

The watch is not proven against io_uring, nor against writes through a mapping that are never msynced.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from squall.harness.gallery.core.disk_watch import DiskWatch
from squall.nemesis.agent.disk import seccomp
from squall.nemesis.agent.disk.disk_calls import as_int, path_of
from squall.nemesis.agent.disk.seccomp import Notice

_RENAMES: Final[Mapping[str, tuple[tuple[int | None, int], tuple[int | None, int]]]] = {
    "rename": ((None, 0), (None, 1)),
    "renameat": ((0, 1), (2, 3)),
    "renameat2": ((0, 1), (2, 3)),
}
"""The arguments that hold directory and path, of the old name and of the new one."""
Inode = tuple[int, int]
"""Device and number."""


@dataclass(frozen=True)
class PowerLoss:
    """What a loss of power took."""

    bytes_gone: int
    files_cut: int
    syncs: int
    """How many fsyncs and synchronous files the watch has seen of this program: 0 means that it has seen nothing."""


class SyncLedger(DiskWatch):
    """The ledger of one node's directory. It outlives the node's process, which may be started again and again."""

    watches = "syncs"

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = Path(os.path.realpath(directory))
        self._durable: dict[Inode, int] = {}
        self._synchronous: set[str] = set()
        """Paths of files that were opened with O_SYNC or O_DSYNC: all that is written to them is durable."""
        self._syncs = 0

    def lose_power(self) -> PowerLoss:
        """Cut what was never fsynced; the process must have ended. Afterwards all that is left is durable."""
        self.wait_until_ended()
        gone = cut = 0
        for path, found in self._files():
            keep = found.st_size if str(path) in self._synchronous else self._durable.get(_inode(found))
            if keep is not None and keep >= found.st_size:
                continue
            gone, cut = gone + found.st_size - (keep or 0), cut + 1
            if keep is None:
                path.unlink()
            else:
                os.truncate(path, keep)
        self._all_is_durable()
        return PowerLoss(gone, cut, self._syncs)

    # --- the watch ---------------------------------------------------------------------------------------------

    def decide(self, listener: int, notice: Notice, call: str) -> bool:
        """Take a note of the call. It always goes on."""
        with contextlib.suppress(OSError):  # the thread, its descriptor or its file no longer exists
            self._note(listener, notice, call)
        return True

    def _note(self, listener: int, notice: Notice, call: str) -> None:
        if call in ("fsync", "fdatasync"):
            found = Path(f"/proc/{notice.thread}/fd/{as_int(notice.arguments[0])}").stat()
            if seccomp.is_valid(listener, notice.id):
                self._durable[_inode(found)] = found.st_size
                self._syncs += 1
        elif call == "openat":
            self._synchronous.add(path_of(notice, 0, 1))
            self._syncs += 1
        elif call.startswith("rename"):
            old, new = _RENAMES[call]
            self._renamed(path_of(notice, *old), path_of(notice, *new))
        else:
            self._all_is_durable()

    def _renamed(self, old: str, new: str) -> None:
        """Carry over what is synchronous at the old name or below it. The old name stays: the call may fail."""
        below = [one for one in self._synchronous if one == old or one.startswith(f"{old}/")]
        self._synchronous |= {new + one.removeprefix(old) for one in below}

    def _all_is_durable(self) -> None:
        self._durable |= {_inode(found): found.st_size for _, found in self._files()}

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for directory, _, names in os.walk(self._directory):  # what vanishes meanwhile is left out
            for path in (Path(directory, name) for name in sorted(names)):
                with contextlib.suppress(OSError):
                    found = path.lstat()
                    if stat.S_ISREG(found.st_mode):
                        yield path, found


def _inode(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino
