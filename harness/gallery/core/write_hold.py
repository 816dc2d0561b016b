"""Hold a program's writes to its files: a disk that does not answer, so that nothing more reaches it.

    hold = WriteHold(directory)
    process = hold.start(["etcd", …])
    hold.begin()                         # from now on writes and fsyncs of files in the directory wait
    hold.held                            # how many wait
    hold.end()                           # they go on

A call that is held has not begun. If its process is killed meanwhile, it never happens. Sockets and other files are not
affected; each write to them takes a fraction of a millisecond longer.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from squall.harness.gallery.core.disk_watch import DiskWatch
from squall.nemesis.agent.disk import seccomp
from squall.nemesis.agent.disk.disk_calls import as_int
from squall.nemesis.agent.disk.seccomp import Notice


class WriteHold(DiskWatch):
    """The hold of one node's directory."""

    watches = "writes"

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = os.path.realpath(directory)
        self._lock = threading.Lock()
        self._holds = False
        self._waiting: list[tuple[int, int]] = []
        """Listener and identity of each call that is held."""
        self._met = 0

    @property
    def held(self) -> int:
        """How many calls have been held since `begin`."""
        with self._lock:
            return self._met

    def begin(self) -> None:
        with self._lock:
            self._holds, self._met = True, 0

    def end(self) -> None:
        """Let all go on; those of a process that has ended are void."""
        with self._lock:
            self._holds = False
            waiting, self._waiting = self._waiting, []
        if self.runs:
            for listener, identity in waiting:
                seccomp.proceed(listener, identity)

    def decide(self, listener: int, notice: Notice, call: str) -> bool:
        with self._lock:
            if not self._holds or not self._is_about(notice):
                return True
            self._waiting.append((listener, notice.id))
            self._met += 1
        return False

    def _is_about(self, notice: Notice) -> bool:
        try:
            path = str(Path(f"/proc/{notice.thread}/fd/{as_int(notice.arguments[0])}").readlink())
        except OSError:  # the thread or its descriptor no longer exists
            return False
        return path.startswith(f"{self._directory}/")
