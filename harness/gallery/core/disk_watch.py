"""A watch over disk calls of a program of any system: each waits until it is decided that it goes on.

A subclass says which calls are handed over (`watches`) and decides each of them (`decide`), in a thread of its own. The
program is started by `watched_program.py` under a filter of `squall.nemesis.agent.disk.seccomp`, as the watch of disk
faults does it on hosts. It needs no root, no mount and no help of the program.
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
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import IO, ClassVar, Final, Literal

from squall.harness.gallery.core.trouble import NotReproduced
from squall.nemesis.agent.disk import seccomp
from squall.nemesis.agent.disk.seccomp import Notice, Trap

START_SECONDS: Final = 30.0
END_SECONDS: Final = 30.0
LAUNCHER: Final = "squall.harness.gallery.core.watched_program"
DATA_SYNC_BIT: Final = 0o10000
"""O_DSYNC; O_SYNC includes it."""
Watches = Literal["syncs", "writes"]

_NUMBERS: Final[Mapping[Watches, Mapping[str, Mapping[str, int]]]] = {
    "syncs": {
        "x86_64": {
            "fsync": 74, "fdatasync": 75, "openat": 257, "rename": 82, "renameat": 264, "renameat2": 316, "sync": 162,
            "syncfs": 306, "msync": 26,
        },
        "aarch64": {
            "fsync": 82, "fdatasync": 83, "openat": 56, "renameat": 38, "renameat2": 276, "sync": 81, "syncfs": 267,
            "msync": 227,
        },
    },
    "writes": {
        "x86_64": {"write": 1, "pwrite64": 18, "writev": 20, "fsync": 74, "fdatasync": 75},
        "aarch64": {"write": 64, "pwrite64": 68, "writev": 66, "fsync": 82, "fdatasync": 83},
    },
}  # fmt: skip
_OPEN_FLAGS: Final = 2
"""The argument of openat that holds its flags."""


class DiskWatch(ABC):
    """Watches one node. It outlives the node's process, which may be started again and again."""

    watches: ClassVar[Watches]

    def __init__(self) -> None:
        self._calls = {number: name for name, number in _NUMBERS[self.watches][platform.machine()].items()}
        self._server: threading.Thread | None = None
        self._trouble: Exception | None = None

    @abstractmethod
    def decide(self, listener: int, notice: Notice, call: str) -> bool:
        """Whether a call goes on at once; otherwise the subclass lets it go on later (`seccomp.proceed`)."""

    def start(self, command: Sequence[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a program under the watch. Raises NotReproduced if this machine cannot watch it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", LAUNCHER, self.watches, str(theirs.fileno()), *command],
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
        raise NotReproduced(f"disk calls of {command[0]} cannot be watched: {seccomp.why_not() or 'it did not start'}")

    @property
    def runs(self) -> bool:
        """Whether the process still runs, so that its calls can go on."""
        return self._server is not None and self._server.is_alive()

    def wait_until_ended(self) -> None:
        """Wait until all calls of the process, which has ended, are decided. Raises NotReproduced if that failed."""
        if self._server is not None:
            self._server.join(END_SECONDS)
        if self._trouble is not None:
            raise NotReproduced(f"the watch over disk calls failed: {self._trouble!r}")

    def _serve_from_now_on(self, listener: int, process: subprocess.Popen[bytes]) -> None:
        ended = os.pidfd_open(process.pid)
        self._server = threading.Thread(target=self._serve, args=(listener, ended), daemon=True)
        self._server.start()

    def _serve(self, listener: int, ended: int) -> None:
        """Decide each call until the process has ended."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(ended, select.POLLIN)
        try:
            while True:
                ready = dict(poll.poll())
                if ready.get(listener, 0) & select.POLLIN:
                    notice = seccomp.receive(listener)
                    if notice is not None:
                        self._meet(listener, notice)
                elif ended in ready:
                    return
                elif listener in ready:  # no process is left under the filter: the other descriptor will say so
                    poll.unregister(listener)
        except Exception as trouble:  # the process's calls fail from now on, which is no fault of the system
            self._trouble = trouble
        finally:
            os.close(listener)
            os.close(ended)

    def _meet(self, listener: int, notice: Notice) -> None:
        if self.decide(listener, notice, self._calls.get(notice.number, "")):
            seccomp.proceed(listener, notice.id)


def traps(watches: Watches) -> list[Trap]:
    """The calls that a watch must see."""
    numbers = _NUMBERS[watches][platform.machine()]
    found = [Trap(number) for name, number in numbers.items() if name != "openat"]
    if "openat" in numbers:
        found.append(Trap(numbers["openat"], argument=_OPEN_FLAGS, any_bit=DATA_SYNC_BIT))
    return found
