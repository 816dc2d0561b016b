"""Runs faults that act repeatedly, or while they are open, each in a separate process ("errand").

    python3 -u PROGRAM --state DIR --id FAULT --ready DESCRIPTOR

A fault must not keep agent or keeper busy, and must not end with the SSH channel. So injecting such a fault starts a
detached process that carries it out (`FaultWorkers`, `CarriedOutByWorker`). The process reads its fault from the
journal and ends when the fault is no longer open or has outlived its time, whichever other processes have died
(`FaultWorker`). If the process dies before that, the fault ends early and is reported so (`cut_short`).

Each errand records its own pid and start time, so that no other process is killed instead of it. What it has done is
recorded too, in one small file each, which outlives it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.daemonize import daemonize
from squall.nemesis.agent.core.journal import Entry, Journal, boot_id, write_durably
from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.core.processes import Identity, identity_of, send_signal, state_of, wait_until_absent
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.verb_error import VerbError

START_TIMEOUT = 10.0
END_TIMEOUT = 2.0
GLANCE = 0.2


def _file(state: Path, id: str, kind: str) -> Path:
    return state / "errands" / f"{file_name(id)}.{kind}.json"


class FaultWorkers:
    """Starts and ends errands of this host, and reads what they did."""

    def __init__(self, state: Path) -> None:
        self._state = state
        (state / "errands").mkdir(parents=True, exist_ok=True)

    def start(self, program: str, id: str) -> None:
        """Start the errand unless it lives. Returns when it is at work; raises VerbError if it does not get there."""
        if self.lives(id):
            return
        _file(self._state, id, "effect").unlink(missing_ok=True)
        started = [*command(program), "--state", str(self._state), "--id", id]
        log_path = self._state / "errands.log"
        if not daemonize("errand", started, "--ready", log_path, START_TIMEOUT):
            raise VerbError("failed", f"{program} did not start: {log_path.read_text()[-300:].strip()}")

    def lives(self, id: str) -> bool:
        identity = self._identity(id)
        return identity is not None and state_of(identity) != "absent"

    def end(self, id: str) -> None:
        """End the errand: SIGTERM first, SIGKILL if it does not end."""
        identity = self._identity(id)
        if identity is None:
            return
        send_signal(identity, signal.SIGTERM)
        send_signal(identity, signal.SIGCONT)
        if not wait_until_absent(identity, END_TIMEOUT):
            send_signal(identity, signal.SIGKILL)
            if not wait_until_absent(identity, END_TIMEOUT):
                raise VerbError("failed", f"the errand of {id}, pid {identity.pid}, does not end on SIGKILL")
        _file(self._state, id, "running").unlink(missing_ok=True)

    def effect(self, id: str) -> dict[str, Any]:
        """What the errand has done so far, as it recorded."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            effect: dict[str, Any] = json.loads(_file(self._state, id, "effect").read_text())
            return effect
        return {}

    def note_cut_short(self, id: str) -> None:
        write_durably(_file(self._state, id, "effect"), json.dumps({**self.effect(id), "cut_short": True}))

    def _identity(self, id: str) -> Identity | None:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            record = json.loads(_file(self._state, id, "running").read_text())
            return Identity(record["pid"], record["started"])
        return None


class CarriedOutByWorker:
    """The common part of fault verbs that an errand carries out. Subclasses add `prepare`."""

    program: str
    """The module of the agent whose `main` carries the fault out."""

    def __init__(self, workers: FaultWorkers) -> None:
        self._workers = workers

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        self._workers.start(self.program, entry.id)
        return {}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._workers.end(entry.id)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        self._workers.end(id)

    def broken(self, entry: Entry) -> bool:
        """Whether the errand has died."""
        return not self._workers.lives(entry.id)

    def note_broken(self, entry: Entry) -> None:
        self._workers.note_cut_short(entry.id)


class FaultWorkerProbe:
    """`probe.errand`: whether such a fault acts, what it has done, and whether it was cut short."""

    def __init__(self, workers: FaultWorkers, journal: Journal) -> None:
        self._workers = workers
        self._journal = journal

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        id = str(arguments.get("id"))
        is_open = self._journal.find(id) is not None
        acts = is_open and self._workers.lives(id)
        effect = self._workers.effect(id)
        cut_short = bool(effect.pop("cut_short", False)) or (is_open and not acts)
        return {"open": acts, "cut_short": cut_short, "effect": effect}


class FaultWorker:
    """The errand's side, in the process that carries a fault out."""

    def __init__(self, state: Path, id: str) -> None:
        self._state = state
        self._id = id
        self._journal = Journal(state)
        self._wake = _woken_by_signal()
        self._ended = False
        entry = self._entry()
        if entry is None:
            raise SystemExit(f"{id} is not an open fault")
        self.verb, self.arguments = entry.verb, entry.arguments

    def note(self, **effect: Any) -> None:
        """Record what has been done so far."""
        path = _file(self._state, self._id, "effect")
        draft = path.with_name(f".{path.name}")
        draft.write_text(json.dumps(effect))
        draft.replace(path)

    def wait(self, seconds: float) -> bool:
        """Wait until `seconds` have passed or the fault is over. Returns whether the fault is still open."""
        deadline = time.monotonic() + seconds
        while not self._ended and (left := deadline - time.monotonic()) > 0:
            self._ended = bool(select.select([self._wake], [], [], min(left, GLANCE))[0]) or not self._is_open()
        return not self._ended and self._is_open()

    def others_open(self, meant: Callable[[Entry], bool]) -> bool:
        """Whether another fault of the same verb that fulfils `meant` is open and within its time."""
        now, boot = self._journal.monotonic(), boot_id()
        return any(
            other.id != self._id and other.verb == self.verb and not other.expired(now, boot) and meant(other)
            for other in self._journal.entries()
        )

    def _entry(self) -> Entry | None:
        return self._journal.find(self._id)

    def _is_open(self) -> bool:
        entry = self._entry()
        return entry is not None and not entry.expired(self._journal.monotonic(), boot_id())


def _woken_by_signal() -> socket.socket:
    """A socket that becomes readable on SIGTERM."""
    wake, waking = socket.socketpair()
    waking.setblocking(False)
    signal.set_wakeup_fd(waking.detach())
    signal.signal(signal.SIGTERM, lambda *_: None)
    return wake


def run_fault_worker(argv: list[str], carry_out: Callable[[FaultWorker], None]) -> int:
    """Run an errand: record its identity, report that it is ready, carry out the fault."""
    parser = argparse.ArgumentParser(description="an errand of squall's host agent, started by it")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--id", required=True, help="the fault")
    parser.add_argument("--ready", type=int, required=True, help="descriptor to write + to when it is at work")
    options = parser.parse_args(argv)
    os.setsid()
    worker = FaultWorker(options.state, options.id)
    identity = identity_of(os.getpid())
    running = _file(options.state, options.id, "running")
    write_durably(running, json.dumps({"pid": identity.pid, "started": identity.started}))
    os.write(options.ready, b"+")
    os.close(options.ready)
    carry_out(worker)
    return 0
