"""Faults by signals: `proc.kill`, `proc.term`, `proc.pause`."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from squall.nemesis.agent.core.arguments import text
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.processes import Identity, Processes, send_signal, wait_for_state, wait_until_absent
from squall.nemesis.agent.core.verb_error import VerbError


def identity_in(entry: Entry) -> Identity:
    return Identity(entry.arguments["pid"], entry.arguments["started"])


class ProcessFault:
    """Common part of kill and pause: they affect a running process and record its identity."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        self._processes.definition(name)
        identity = self._processes.alive(name)
        if identity is None:
            raise VerbError("not_running", f"{name} is not running")
        return {"name": name, "pid": identity.pid, "started": identity.started}


class Kill(ProcessFault):
    """`proc.kill`"""

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        identity = identity_in(entry)
        send_signal(identity, signal.SIGKILL)
        if not wait_until_absent(identity, timeout=5):
            raise VerbError("failed", f"pid {identity.pid} is still there 5 s after SIGKILL")
        return {"pid": identity.pid}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        name = entry.arguments["name"]
        still_down = any(other.arguments["name"] == name for other in remaining)
        if not still_down and self._processes.wanted(name):
            self._processes.start(name)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """Start every wanted process that is down: this fault may have killed it."""
        down = {other.arguments["name"] for other in remaining}
        for name in self._processes.names():
            if name not in down and self._processes.wanted(name):
                self._processes.start(name)


class Terminate(Kill):
    """`proc.term`: send the stop signal that an operator would send. The caller waits, without the journal's lock."""

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        identity = identity_in(entry)
        send_signal(identity, self._processes.stop_signal(entry.arguments["name"]))
        send_signal(identity, signal.SIGCONT)
        return {"pid": identity.pid}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        """A process that is still stopping when the time to live is over has taken too long: kill it."""
        self._processes.see_it_stopped(identity_in(entry), timeout=0)
        super().undo(entry, remaining)


class Pause(ProcessFault):
    """`proc.pause`"""

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        identity = identity_in(entry)
        send_signal(identity, signal.SIGSTOP)
        if not wait_for_state(identity, ("stopped", "absent"), timeout=5):
            raise VerbError("failed", f"pid {identity.pid} still runs 5 s after SIGSTOP")
        return {"pid": identity.pid}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        identity = identity_in(entry)
        if not any(identity_in(other) == identity for other in remaining):
            send_signal(identity, signal.SIGCONT)
            wait_for_state(identity, ("running", "absent"), timeout=5)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """Continue every stopped process: this fault may have paused it."""
        paused = {identity_in(other) for other in remaining}
        for identity in filter(None, map(self._processes.alive, self._processes.names())):
            if identity not in paused:
                send_signal(identity, signal.SIGCONT)
