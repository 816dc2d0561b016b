"""The journal of this host's open faults: one file per fault, durable before the fault is injected.

The agent (on request) and the keeper (on expiry) heal from it. The state of the host is always computed from the open
entries, so overlapping faults heal in any order. An entry is removed only after its fault is reverted, so a crash in
between reverts twice, which is harmless; it never skips reverting.

Each entry is written twice, in `journal` and in `journal.copy`. If one of the two is empty, torn or missing, the other
counts. If both are damaged, only the entry's file name is known: its verb is `damaged`, it counts as expired, and
healing it reverts every fault that it could be (`faults.py`).

Deadlines are monotonic: a skewed wall clock neither shortens nor lengthens a fault. A reboot makes them meaningless, so
each entry carries the boot id; an entry of an earlier boot counts as expired.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.durable import sync_directory as sync_directory
from squall.nemesis.agent.core.durable import write_durably as write_durably
from squall.nemesis.agent.core.lock_holders import end_stopped_holders
from squall.nemesis.agent.core.names import file_name, id_of

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DAMAGED = "damaged"
"""The verb of an entry that cannot be read."""
LOCK_STEP = 0.005
LOCK_PATIENCE = 1.0
"""Seconds after which a waiting process checks whether the lock's holder is stopped."""


def boot_id() -> str:
    """An id that differs after every reboot; empty where the system has none."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Entry:
    """One open fault. `arguments` hold all that reverting needs, such as the pid and start time of the affected
    process.
    """

    id: str
    verb: str
    arguments: dict[str, Any]
    deadline: float
    opened: float
    boot: str

    def expired(self, now: float, boot: str) -> bool:
        return self.boot != boot or now >= self.deadline


class Journal:
    """The open faults of this host, in a directory that the agent and the keeper share."""

    def __init__(self, state: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._directories = (state / "journal", state / "journal.copy")
        for directory in self._directories:
            directory.mkdir(parents=True, exist_ok=True)
        self._lock_file = state / "journal.lock"
        self._boot = boot_id()
        self.monotonic = monotonic

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude every other thread and process that changes faults or starts processes on this host.

        A process of the agent's that was stopped (SIGSTOP) while it held the lock is killed: it would delay healing.
        """
        with open(self._lock_file, "a") as file:
            look_at = time.monotonic() + LOCK_PATIENCE
            while not _try_lock(file.fileno()):
                if time.monotonic() >= look_at:
                    end_stopped_holders(self._lock_file)
                    look_at = time.monotonic() + LOCK_PATIENCE
                time.sleep(LOCK_STEP)
            yield

    def open_entry(self, id: str, verb: str, ttl: float, arguments: dict[str, Any]) -> Entry:
        """Write the entry; it is durable on return."""
        now = self.monotonic()
        entry = Entry(id, verb, arguments, now + ttl, now, self._boot)
        try:
            self._write(entry)
        except OSError:
            with contextlib.suppress(OSError):
                self.close(id)  # half an entry would be healed needlessly
            raise
        return entry

    def renew(self, entry: Entry, ttl: float) -> Entry:
        """Give the fault a new time to live, counted from now."""
        renewed = replace(entry, deadline=self.monotonic() + ttl, boot=self._boot)
        self._write(renewed)
        return renewed

    def close(self, id: str) -> None:
        """Remove the entry if it exists."""
        for path in reversed(self._paths(id)):
            path.unlink(missing_ok=True)
        for directory in self._directories:
            with contextlib.suppress(OSError):  # an entry that reappears after a crash is reverted again
                sync_directory(directory)

    def find(self, id: str) -> Entry | None:
        return self._read(file_name(id) + ".json")

    def entries(self) -> list[Entry]:
        """All open entries, oldest first."""
        names = {path.name for directory in self._directories for path in directory.iterdir()}
        found = [self._read(name) for name in names if name.endswith(".json") and not name.startswith(".")]
        return sorted((entry for entry in found if entry), key=lambda entry: (entry.opened, entry.id))

    def is_empty(self) -> bool:
        """Whether no fault is open."""
        return not self.entries()

    def expired(self) -> list[Entry]:
        now = self.monotonic()
        return [entry for entry in self.entries() if entry.expired(now, self._boot)]

    def _write(self, entry: Entry) -> None:
        text = json.dumps(asdict(entry))
        for path in self._paths(entry.id):
            write_durably(path, text)

    def _read(self, name: str) -> Entry | None:
        """Read the first intact copy; None if there is no copy."""
        there = False
        for directory in self._directories:
            try:
                entry = _entry_in((directory / name).read_bytes(), name)
            except FileNotFoundError:
                continue
            except OSError:
                entry = None
            if entry is not None:
                return entry
            there = True
        return Entry(id_of(name.removesuffix(".json")), DAMAGED, {}, 0.0, 0.0, self._boot) if there else None

    def _paths(self, id: str) -> tuple[Path, ...]:
        return tuple(directory / f"{file_name(id)}.json" for directory in self._directories)


def _entry_in(content: bytes, name: str) -> Entry | None:
    """Parse an entry; None unless it is complete and has that name."""
    try:
        told = json.loads(content)
        entry = Entry(**told)
    except (ValueError, TypeError, RecursionError):
        return None
    whole = (
        isinstance(entry.id, str)
        and f"{file_name(entry.id)}.json" == name
        and isinstance(entry.verb, str)
        and isinstance(entry.arguments, dict)
        and isinstance(entry.boot, str)
        and all(isinstance(one, int | float) and math.isfinite(one) for one in (entry.deadline, entry.opened))
    )
    return entry if whole else None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
