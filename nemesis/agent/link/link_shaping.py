"""`net.shape`: delayed, lossy or narrow links, by an emulator and rules that queue packets for it.

What is shaped is a function of the open entries, as with every fault. When they change, in this order: an emulator for
the new shapes starts and binds its queues; the rules are rewritten and queue to it; the previous emulator is asked to
end, and releases what it holds. When no entry is open, the rules are removed first, then the emulator. Every step may
be repeated. A crash between two steps leaves at worst an emulator to which no rule queues packets: it ends when its
faults are over, and the next change ends it in any case.

Each emulator records its own pid and start time (`state/emulators/PID.json`), so that no other process is killed
instead of it.
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import text
from squall.nemesis.agent.core.daemonize import daemonize
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.processes import Identity, send_signal, state_of, wait_until_absent
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.link.link_rules import Numbers, QueueRules
from squall.nemesis.agent.link.link_shapes import Shape, checked_shape, shape_from
from squall.nemesis.agent.net.expiring_rules import seconds_left

START_TIMEOUT = 10.0
END_TIMEOUT = 2.0


@dataclass(frozen=True)
class Running:
    """An emulator that lives."""

    identity: Identity
    numbers: Numbers
    shapes: tuple[Shape, ...]


class Emulators:
    """Starts and ends emulators of this host."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._directory = state / "emulators"
        self._directory.mkdir(parents=True, exist_ok=True)

    def running(self) -> list[Running]:
        """The emulators that live. Deletes the records of killed ones."""
        found = []
        for path in self._directory.glob("*.json"):
            with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
                record = json.loads(path.read_text())
                identity = Identity(record["pid"], record["started"])
                if state_of(identity) == "absent":
                    path.unlink(missing_ok=True)
                    continue
                shapes = tuple(shape_from(told) for told in record["shapes"])
                found.append(Running(identity, Numbers(record["inward"], record["outward"]), shapes))
        return found

    def emulating(self, shapes: Sequence[Shape]) -> Running:
        """An emulator for exactly these shapes, started unless one lives. Raises VerbError."""
        for one in self._fitting(shapes):
            return one
        self._start(shapes)
        for one in self._fitting(shapes):
            return one
        raise VerbError("failed", "the link emulator ended as soon as it had started")

    def end_all(self, but: Running | None = None) -> None:
        """End all emulators except `but`: SIGTERM first, then SIGKILL."""
        unwanted = [one.identity for one in self.running() if but is None or one.identity != but.identity]
        for identity in unwanted:
            send_signal(identity, signal.SIGTERM)
            send_signal(identity, signal.SIGCONT)
        for identity in unwanted:
            if not wait_until_absent(identity, END_TIMEOUT):
                send_signal(identity, signal.SIGKILL)
                if not wait_until_absent(identity, END_TIMEOUT):
                    raise VerbError("failed", f"the link emulator, pid {identity.pid}, does not end on SIGKILL")
        self.running()

    def _fitting(self, shapes: Sequence[Shape]) -> Iterator[Running]:
        return (one for one in self.running() if one.shapes == tuple(shapes) and state_of(one.identity) == "running")

    def _start(self, shapes: Sequence[Shape]) -> None:
        told = json.dumps([shape.as_json() for shape in shapes])
        log_path = self._state / "emulator.log"
        started = [*command("link.link_emulator"), "--state", str(self._state), "--shapes", told]
        if not daemonize("emulator", started, "--ready", log_path, START_TIMEOUT):
            raise VerbError("failed", f"the link emulator did not start: {log_path.read_text()[-300:].strip()}")


class ShapeLinks:
    """The fault verb."""

    def __init__(self, rules: QueueRules, emulators: Emulators) -> None:
        self._rules = rules
        self._emulators = emulators

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        shape = checked_shape(text(arguments, "id"), arguments)
        return {"shape": shape.as_json(), "tables": self._rules.tables_for(shape)}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        self._apply(entry, open_entries)
        return {"peers": entry.arguments["shape"]["peers"], "tables": entry.arguments["tables"]}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._apply(entry, remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        if remaining:
            self._apply(remaining[-1], remaining)
        else:
            self._rules.clear(self._rules.written())
            self._emulators.end_all()

    def _apply(self, entry: Entry, entries: Sequence[Entry]) -> None:
        if not entries:
            self._rules.clear(entry.arguments["tables"])
            self._emulators.end_all()
            return
        shapes = [shape_from(one.arguments["shape"]) for one in entries]
        emulator = self._emulators.emulating(shapes)
        tables = sorted({table for one in entries for table in one.arguments["tables"]})
        self._rules.write(tables, shapes, emulator.numbers, max(map(seconds_left, entries)))
        self._emulators.end_all(but=emulator)
