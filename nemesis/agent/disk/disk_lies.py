"""A lying disk: `disk.lie`, under which fsyncs return success without doing anything.

The process records in its ledger (`power.py`) fsyncs that did not happen. So the agent keeps, beside the ledger, which
byte range of it was written under a lie. Its lines about fsyncs in that range do not count when a power loss is
simulated, and `probe.disk` counts those bytes as not fsynced. After the lie has ended, the next fsync of a file makes
all of it durable. Without a power loss no data is ever missing: the page cache has it all.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.journal import Entry, write_durably
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.disk.disk_faults import DisturbDisk

FSYNCS = ("fsync", "fsync-directory")
LINES_OF = {"fsync": "s", "fsync-directory": "y"}


@dataclass(frozen=True)
class Lie:
    """A byte range of a ledger; `end` is None while the lie goes on."""

    id: str
    kinds: tuple[str, ...]
    """The kinds of lines that do not count."""
    pattern: str
    start: int
    end: int | None = None

    def covers(self, at: int, kind: str, path: str) -> bool:
        within = self.start <= at and (self.end is None or at < self.end)
        return within and kind in self.kinds and (self.pattern == "*" or fnmatch.fnmatch(path, self.pattern))


def lies_file(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.lies")


def lies_about(ledger: Path) -> list[Lie]:
    try:
        return [Lie(**{**one, "kinds": tuple(one["kinds"])}) for one in json.loads(lies_file(ledger).read_text())]
    except FileNotFoundError:
        return []


def believable(ledger: Path) -> list[str]:
    """The lines of a ledger without those that were written under a lie."""
    lies, at, kept = lies_about(ledger), 0, []
    for line in ledger.read_bytes().splitlines(keepends=True):
        words = line.decode(errors="replace").rstrip("\n")
        kind, _, rest = words.partition(" ")
        if not any(lie.covers(at, kind, rest.partition(" ")[2]) for lie in lies):
            kept.append(words)
        at += len(line)
    return kept


def _keep(ledger: Path, lies: Iterable[Lie]) -> None:
    write_durably(lies_file(ledger), json.dumps([asdict(lie) for lie in lies]))


def go_on_lying(ledger: Path) -> None:
    """Adjust the lies to a restarted ledger: finished ones are dropped, open ones begin at its present end."""
    lies = lies_about(ledger)
    if lies:
        size = ledger.stat().st_size
        _keep(ledger, [Lie(lie.id, lie.kinds, lie.pattern, size) for lie in lies if lie.end is None])


class LieDisk(DisturbDisk):
    """`disk.lie`"""

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        prepared = super().prepare({"calls": list(FSYNCS), **arguments})
        honest = [call for call in prepared["calls"] if call not in FSYNCS]
        if honest:
            raise VerbError(
                "bad_argument", f"calls: {', '.join(honest)}: only {' and '.join(FSYNCS)} can be lied about"
            )
        definition = self._processes.definition(prepared["name"])
        if not definition.ledger or not Path(definition.ledger).exists():
            raise VerbError("unsupported", f"{definition.name} keeps no ledger of what it has fsynced")
        return {**prepared, "ledger": definition.ledger, "pattern": arguments.get("path", "*")}

    def _particulars(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"lie": True}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        """Start the byte range before the rule: a true fsync in between then counts as a lie, as a real disk may do."""
        ledger, told = Path(entry.arguments["ledger"]), entry.arguments
        lies = lies_about(ledger)
        if not any(lie.id == entry.id for lie in lies):
            kinds = tuple(LINES_OF[call] for call in told["calls"])
            _keep(ledger, [*lies, Lie(entry.id, kinds, told["pattern"], ledger.stat().st_size)])
        return super().inject(entry, open_entries)

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        super().undo(entry, remaining)
        _end_lie(Path(entry.arguments["ledger"]), entry.id)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        super().undo_unknown(id, remaining)
        for name in self._processes.names():
            ledger = self._processes.definition(name).ledger
            if ledger and any(lie.id == id for lie in lies_about(Path(ledger))):
                _end_lie(Path(ledger), id)


def _end_lie(ledger: Path, id: str) -> None:
    if not ledger.exists():
        return
    end = ledger.stat().st_size
    ended = [
        Lie(lie.id, lie.kinds, lie.pattern, lie.start, end) if lie.id == id and lie.end is None else lie
        for lie in lies_about(ledger)
    ]
    _keep(ledger, ended)
