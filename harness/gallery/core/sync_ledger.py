"""What a program has fsynced, found by watching it; so that a loss of power can be played to a program of any system.

    ledger = SyncLedger(directory)
    process = ledger.start(["nats-server", …])       # its fsyncs stop, are written down here, and go on
    process.kill(); process.wait()
    loss = ledger.lose_power()                       # cuts what was never fsynced

The program is started by `watched_program.py` under a filter (`squall.nemesis.agent.disk.seccomp`) that hands over
fsync, fdatasync, renames, openings with O_SYNC or O_DSYNC, sync, syncfs and msync. At each fsync the ledger notes the
file's inode and size, before the call goes on.

A loss of power cuts each file at its size at its last fsync, and removes a file that was never fsynced. What stays is
never less than what a real disk would have kept: bytes that were overwritten in place stay as they are, renames and
removals are kept, the old entry of an inode that is used again counts for the new file, and a kill within an fsync
counts as a finished one. What is cut was never fsynced, so that a system may not count on it. A real machine writes
much of it back within half a minute; a loss of power may come before that.

The watch is not proven against io_uring, nor against writes through a mapping that are never msynced.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from squall.harness.gallery.core.trouble import NotReproduced
from squall.nemesis.agent.disk import seccomp
from squall.nemesis.agent.disk.disk_calls import as_int, path_of
from squall.nemesis.agent.disk.seccomp import Notice, Trap

START_SECONDS: Final = 30.0
END_SECONDS: Final = 30.0
DATA_SYNC_BIT: Final = 0o10000
"""O_DSYNC; O_SYNC includes it."""
LAUNCHER: Final = "squall.harness.gallery.core.watched_program"

_NUMBERS: Final[Mapping[str, Mapping[str, int]]] = {
    "x86_64": {
        "fsync": 74, "fdatasync": 75, "openat": 257, "rename": 82, "renameat": 264, "renameat2": 316, "sync": 162,
        "syncfs": 306, "msync": 26,
    },
    "aarch64": {
        "fsync": 82, "fdatasync": 83, "openat": 56, "renameat": 38, "renameat2": 276, "sync": 81, "syncfs": 267,
        "msync": 227,
    },
}  # fmt: skip
_RENAMES: Final[Mapping[str, tuple[tuple[int | None, int], tuple[int | None, int]]]] = {
    "rename": ((None, 0), (None, 1)),
    "renameat": ((0, 1), (2, 3)),
    "renameat2": ((0, 1), (2, 3)),
}
"""The arguments that hold directory and path, of the old name and of the new one."""
_OPEN_FLAGS: Final = 2
"""The argument of openat that holds its flags."""

Inode = tuple[int, int]
"""Device and number."""


@dataclass(frozen=True)
class PowerLoss:
    """What a loss of power took."""

    bytes_gone: int
    files_cut: int
    syncs: int
    """How many fsyncs and synchronous files the watch has seen of this program: 0 means that it has seen nothing."""


class SyncLedger:
    """The ledger of one node's directory. It outlives the node's process, which may be started again and again."""

    def __init__(self, directory: Path) -> None:
        self._directory = Path(os.path.realpath(directory))
        self._durable: dict[Inode, int] = {}
        self._synchronous: set[str] = set()
        """Paths of files that were opened with O_SYNC or O_DSYNC: all that is written to them is durable."""
        self._syncs = 0
        self._calls = {number: name for name, number in _NUMBERS[platform.machine()].items()}
        self._server: threading.Thread | None = None

    def start(self, command: Sequence[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a program under the watch. Raises NotReproduced if this machine cannot watch it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", LAUNCHER, str(theirs.fileno()), *command],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
            theirs.close()
            ours.settimeout(START_SECONDS)
            with contextlib.suppress(OSError):
                _, listeners, _, _ = socket.recv_fds(ours, 1, 1)
                if listeners:
                    self._serve_from_now_on(listeners[0], process)
                    return process
        process.kill()
        process.wait(END_SECONDS)
        raise NotReproduced(f"what {command[0]} fsyncs cannot be watched: {seccomp.why_not() or 'it did not start'}")

    def lose_power(self) -> PowerLoss:
        """Cut what was never fsynced; the process must have ended. Afterwards all that is left is durable."""
        if self._server is not None:
            self._server.join(END_SECONDS)
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

    def _serve_from_now_on(self, listener: int, process: subprocess.Popen[bytes]) -> None:
        ended = os.pidfd_open(process.pid)
        self._server = threading.Thread(target=self._serve, args=(listener, ended), daemon=True)
        self._server.start()

    def _serve(self, listener: int, ended: int) -> None:
        """Take notes and let each call go on, until the process has ended."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(ended, select.POLLIN)
        try:
            while True:
                ready = dict(poll.poll())
                if ready.get(listener, 0) & select.POLLIN:
                    notice = seccomp.receive(listener)
                    if notice is not None:
                        self._note(listener, notice)
                        seccomp.proceed(listener, notice.id)
                elif ended in ready:
                    return
                elif listener in ready:  # no process is left under the filter: the other descriptor will say so
                    poll.unregister(listener)
        finally:
            os.close(listener)
            os.close(ended)

    def _note(self, listener: int, notice: Notice) -> None:
        call = self._calls.get(notice.number, "")
        try:
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
        except OSError:  # the thread, its descriptor or its file no longer exists: nothing of it is durable
            return

    def _renamed(self, old: str, new: str) -> None:
        was_synchronous = old in self._synchronous
        self._synchronous -= {old, new}
        if was_synchronous:
            found = Path(old).stat()
            self._durable[_inode(found)] = found.st_size

    def _all_is_durable(self) -> None:
        self._durable |= {_inode(found): found.st_size for _, found in self._files()}

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in sorted(self._directory.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path, path.stat()


def traps() -> list[Trap]:
    """The calls that the watch must see."""
    numbers = _NUMBERS[platform.machine()]
    opened = numbers["openat"]
    others = [Trap(number) for name, number in numbers.items() if name != "openat"]
    return [*others, Trap(opened, argument=_OPEN_FLAGS, any_bit=DATA_SYNC_BIT)]


def _inode(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino
