"""The rules for a process's disk, from the agent to the process's watch; and how often each struck.

    STATE/disk/NAME.rules    the open faults of the process, whole, in a file that is replaced when they change
    STATE/disk/ID.met        how many calls the fault ID has struck, written by the watch, kept after the fault

They are files because each side must survive the other's death: a fault continues under the next watch, with its count;
and a rule ends at its deadline even if agent and keeper are dead. A call that begins after the file was replaced meets
the new rules: the watch checks the file's identity at every call, which costs about a microsecond. It keeps the file it
read open, so that no new file can have the same identity.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.journal import write_durably
from squall.nemesis.agent.core.names import file_name

DIGITS = 20

STRUCK = "struck"
"""What a watch leaves if its process ended soon after a call was made to fail, or was killed at a call."""


@dataclass(frozen=True)
class Rule:
    """One open fault: calls of these kinds fail (`error` is a number of errno) or take `delay` seconds longer."""

    id: str
    calls: tuple[str, ...]
    deadline: float
    """On the host's monotonic clock."""
    error: int = 0
    probability: float = 1.0
    delay: float = 0.0
    kill: str = ""
    """`before` or `after`: kill the process there, at the `nth` such call on a file of this name."""
    nth: int = 1
    path: str = "*"
    lie: bool = False
    """Such calls return success, and nothing is done."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rule:
        return cls(**{**data, "calls": tuple(data["calls"])})


class DiskState:
    """The files that agent and watch share."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "disk"
        self._directory.mkdir(parents=True, exist_ok=True)

    def rules_file(self, name: str) -> Path:
        return self._directory / f"{name}.rules"

    def count_file(self, id: str) -> Path:
        return self._directory / f"{file_name(id)}.met"

    def watch_file(self, name: str) -> Path:
        """The file that a watch over this process locks while it lives; `disk_watch.py` says what the watch leaves in
        it.
        """
        return self._directory / f"{name}.watch"

    def watched(self) -> list[str]:
        """The names of processes that have ever had a watch."""
        return sorted(path.name.removesuffix(".watch") for path in self._directory.glob("*.watch"))

    def write_rules(self, name: str, rules: Iterable[Rule]) -> None:
        write_durably(self.rules_file(name), json.dumps([asdict(rule) for rule in rules]))

    def met(self, id: str) -> int:
        """How many calls this fault has struck so far."""
        try:
            return int(self.count_file(id).read_text() or 0)
        except FileNotFoundError:
            return 0

    def forget_count(self, id: str) -> None:
        self.count_file(id).unlink(missing_ok=True)


class RuleReader:
    """Reads the current rules of one process."""

    def __init__(self, state: DiskState, name: str) -> None:
        self._path = state.rules_file(name)
        self._rules: tuple[Rule, ...] = ()
        self._descriptor = -1
        self._identity = (-1, -1)

    def current(self, now: float) -> Sequence[Rule]:
        """The rules that are not over at this time."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return ()
        if (found.st_dev, found.st_ino) != self._identity:
            self._read()
        if self._rules and any(now >= rule.deadline for rule in self._rules):
            self._rules = tuple(rule for rule in self._rules if now < rule.deadline)
        return self._rules

    def _read(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY)
        found = os.fstat(descriptor)
        with open(descriptor, "rb", closefd=False) as file:
            self._rules = tuple(Rule.from_json(one) for one in json.load(file))
        self.close()
        self._descriptor, self._identity = descriptor, (found.st_dev, found.st_ino)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Counts:
    """How often each fault has struck; continues the count of an earlier watch."""

    def __init__(self, state: DiskState) -> None:
        self._state = state
        self._open: dict[str, tuple[int, int]] = {}

    def add(self, id: str) -> int:
        """Count one more call. Returns the new count."""
        descriptor, met = self._open.get(id) or self._begin(id)
        os.pwrite(descriptor, str(met + 1).zfill(DIGITS).encode(), 0)
        self._open[id] = (descriptor, met + 1)
        return met + 1

    def _begin(self, id: str) -> tuple[int, int]:
        met = self._state.met(id)
        return os.open(self._state.count_file(id), os.O_WRONLY | os.O_CREAT, 0o644), met

    def close(self) -> None:
        for descriptor, _ in self._open.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._open.clear()
