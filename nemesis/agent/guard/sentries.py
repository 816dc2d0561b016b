"""Starts and replaces the keeper's sentries: two shells that restart a killed or stopped keeper.

The shells run `sentry.sh`. The keeper and the agent watch the sentries, and the sentries watch the keeper. So each of
the three may be killed or stopped, and one of the others replaces it. Sentries are identified by pid and start time, in
a file that is written in place, so that replacing one needs no disk space. They exit some seconds after the keeper.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from squall.nemesis.agent.core.durable import write_in_place
from squall.nemesis.agent.core.processes import Identity, identity_of, read_stat

PROGRAM = Path(__file__).resolve().with_name("sentry.sh")
COUNT = 2
LINE = 64


class Sentries:
    """The sentries of one host. The caller holds the journal's lock; otherwise two callers might start too many."""

    def __init__(self, state: Path, command: Sequence[str]) -> None:
        """`command` starts the agent of this host, without `--keeper`."""
        self._state = state
        self._command = tuple(command)
        self._record = state / "sentries"
        self._children: list[subprocess.Popen[bytes]] = []

    def reserve(self) -> None:
        """Create the record while there is room. Raises OSError."""
        self._write(self._known())

    def all_well(self) -> bool:
        """Whether all sentries exist and none is stopped."""
        self._children = [one for one in self._children if one.poll() is None]
        return sum(map(_works, self._known())) >= COUNT

    def ensure(self) -> None:
        """Replace missing or stopped sentries. Raises OSError if a shell cannot be started."""
        if self.all_well():
            return
        working = []
        for one in self._known():
            if _works(one):
                working.append(one)
            elif _is_there(one):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
        while len(working) < COUNT:
            working.append(self._start())
            self._write(working)

    def _start(self) -> Identity:
        child = subprocess.Popen(
            ["/bin/sh", str(PROGRAM), str(self._state), *self._command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        self._children.append(child)
        return identity_of(child.pid)

    def _known(self) -> list[Identity]:
        with contextlib.suppress(OSError, ValueError):
            words = [int(word) for word in self._record.read_text().split()]
            return [Identity(pid, started) for pid, started in zip(words[::2], words[1::2], strict=True) if pid]
        return []

    def _write(self, sentries: Sequence[Identity]) -> None:
        text = " ".join(f"{one.pid} {one.started}" for one in sentries)
        descriptor = os.open(self._record, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_in_place(descriptor, text, LINE)
        finally:
            os.close(descriptor)


def _works(one: Identity) -> bool:
    found = read_stat(one.pid)
    return found is not None and found[1] == one.started and found[0] not in "ZXTt"


def _is_there(one: Identity) -> bool:
    found = read_stat(one.pid)
    return found is not None and found[1] == one.started and found[0] not in "ZX"
