"""Starts a process under its watch (`disk_watch.py`), and reads what became of both.

Only processes whose definition names disk calls have a watch; all others start without one, at no extra cost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from squall.nemesis.agent.core.disk_rules import DiskState
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.verb_error import VerbError

START_TIMEOUT = 20.0


def start_watched(
    state: Path, name: str, log: IO[bytes], environment: Mapping[str, str], keep: Callable[[int], None]
) -> None:
    """Start the watch of a process; the process begins once `keep` has recorded its pid. Raises VerbError."""
    answer, tell = os.pipe()
    hear, go = os.pipe()
    try:
        watch = subprocess.Popen(
            [
                *command("disk.disk_watch"),
                *("--state", str(state), "--name", name),
                *("--tell", str(tell), "--go", str(hear)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environment),
            pass_fds=(tell, hear),
            start_new_session=True,
        )
        for one in (tell, hear):
            os.close(one)
        tell = hear = -1
        # This process is the parent and must reap it; if this process ends first, the host's init inherits it.
        threading.Thread(target=watch.wait, daemon=True).start()
        said = os.read(answer, 1000).decode() if select.select([answer], [], [], START_TIMEOUT)[0] else "nothing"
        if not said.isdecimal():
            watch.kill()
            raise VerbError("failed", f"cannot start {name} with a watch over its disk calls: {said or 'it died'}")
        keep(int(said))
        with contextlib.suppress(BrokenPipeError):  # the watch has died, and the process with it
            os.write(go, b"+")
    finally:
        for one in (answer, tell, hear, go):
            if one != -1:
                os.close(one)


class Watches:
    """What became of the watches of this host."""

    def __init__(self, state: Path) -> None:
        self._files = DiskState(state)

    def names(self) -> list[str]:
        """Processes that have had a watch."""
        return self._files.watched()

    def lives(self, name: str) -> bool:
        return self._look(name) is None

    def remains(self, name: str) -> str:
        """What the last watch left: its pid if it was killed, `struck` (see `disk_watch.py`), or nothing. Also nothing
        while a watch lives.
        """
        return self._look(name) or ""

    def _look(self, name: str) -> str | None:
        """The content of the watch file; None if it is locked."""
        try:
            with open(self._files.watch_file(name)) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return None
                return file.read().strip()
        except FileNotFoundError:
            return ""
