"""Starts and ends helper processes that carry out a fault while it is open, such as a busy process.

Each helper records its own pid and start time (`STATE/helpers/NAME.json`), so that no other process is killed instead
of it. It reads the journal and ends with its fault, even if agent and keeper are dead.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from squall.nemesis.agent.core.daemonize import daemonize
from squall.nemesis.agent.core.journal import Journal, boot_id, write_durably
from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.core.processes import Identity, identity_of, state_of, wait_until_absent
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.verb_error import VerbError

START_TIMEOUT = 10.0
END_TIMEOUT = 5.0
GLANCE = 0.2


class Helpers:
    """Starts and ends the helpers of one program."""

    def __init__(self, state: Path, program: str) -> None:
        self._state = state
        self._program = program
        self._log = state / f"{program.rpartition('.')[2]}.log"

    def start(self, name: str, *options: str) -> Identity:
        """Start the helper unless it lives. Raises VerbError."""
        alive = self.alive(name)
        if alive:
            return alive
        started = [*command(self._program), "--state", str(self._state), "--helper", name, *options]
        if not daemonize("helper", started, "--ready", self._log, START_TIMEOUT):
            raise VerbError("failed", f"{self._program} did not start: {self._log.read_text()[-300:].strip()}")
        alive = self.alive(name)
        if alive is None:
            raise VerbError("failed", f"{self._program} ended as soon as it had started")
        return alive

    def alive(self, name: str) -> Identity | None:
        try:
            record = json.loads(record_file(self._state, name).read_text())
            identity = Identity(record["pid"], record["started"])
        except (FileNotFoundError, ValueError, KeyError):
            return None
        return identity if state_of(identity) != "absent" else None

    def end(self, name: str) -> None:
        """End the helper. Harmless if it has ended."""
        identity = self.alive(name)
        if identity is not None:
            os.kill(identity.pid, signal.SIGKILL)
            if not wait_until_absent(identity, END_TIMEOUT):
                raise VerbError("failed", f"{self._program}, pid {identity.pid}, does not end on SIGKILL")
        record_file(self._state, name).unlink(missing_ok=True)


def record_file(state: Path, name: str) -> Path:
    return state / "helpers" / f"{file_name(name)}.json"


def announce(state: Path, name: str, ready: int) -> None:
    """In the helper, once it works: record its identity durably, then report that it is ready."""
    path = record_file(state, name)
    path.parent.mkdir(exist_ok=True)
    identity = identity_of(os.getpid())
    write_durably(path, json.dumps({"pid": identity.pid, "started": identity.started}))
    os.write(ready, b"+")
    os.close(ready)


def is_open(journal: Journal, id: str) -> bool:
    entry = journal.find(id)
    return entry is not None and not entry.expired(journal.monotonic(), boot_id())
