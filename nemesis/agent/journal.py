"""What is broken on this host, and until when: one file per open fault, durable before the fault is injected.

Whoever heals (the agent on request, the keeper on expiry) reads it; what the host should look like is always
computed from the entries that are open, so overlapping faults heal in any order. An entry is removed only after
its undoing, so a crash in between undoes twice, which is harmless, and never not at all.

Deadlines are monotonic: a skewed wall clock neither shortens nor lengthens a fault. They are worth nothing after
a reboot, so each entry carries the boot id; an entry of an earlier boot counts as expired.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Differs after every reboot; empty where the system does not say."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def write_durably(path: Path, text: str) -> None:
    """The file with this content, or as it was: also after a crash at any point."""
    draft = path.with_name(f".{path.name}.draft")
    with open(draft, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Entry:
    """One open fault. `arguments` hold all that undoing needs, such as the pid and start time that were hit."""

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
        self._directory = state / "journal"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock_file = state / "journal.lock"
        self._boot = boot_id()
        self.monotonic = monotonic

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Excludes every other thread and process that changes faults or starts processes on this host."""
        with open(self._lock_file, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def open_entry(self, id: str, verb: str, ttl: float, arguments: dict[str, Any]) -> Entry:
        """Writes the entry; when this returns, it is durable."""
        now = self.monotonic()
        entry = Entry(id, verb, arguments, now + ttl, now, self._boot)
        write_durably(self._path(id), json.dumps(asdict(entry)))
        return entry

    def renew(self, entry: Entry, ttl: float) -> Entry:
        """The same fault with a new time to live, counted from now."""
        renewed = replace(entry, deadline=self.monotonic() + ttl, boot=self._boot)
        write_durably(self._path(entry.id), json.dumps(asdict(renewed)))
        return renewed

    def close(self, id: str) -> None:
        """Removes the entry, if it is there."""
        self._path(id).unlink(missing_ok=True)
        sync_directory(self._directory)

    def find(self, id: str) -> Entry | None:
        return next((entry for entry in self.entries() if entry.id == id), None)

    def entries(self) -> list[Entry]:
        """All open entries, oldest first."""
        found = []
        for path in self._directory.iterdir():
            if path.name.startswith("."):
                continue
            with contextlib.suppress(FileNotFoundError):
                found.append(Entry(**json.loads(path.read_text())))
        return sorted(found, key=lambda entry: (entry.opened, entry.id))

    def expired(self) -> list[Entry]:
        now = self.monotonic()
        return [entry for entry in self.entries() if entry.expired(now, self._boot)]

    def _path(self, id: str) -> Path:
        return self._directory / f"{urllib.parse.quote(id, safe='')}.json"
