"""Add the rows of a campaign or a benchmark to the lake, with the commit and the machine that made them.

Trouble with the lake is reported, and changes neither a verdict nor an exit status.
"""

from __future__ import annotations

import shlex
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from squall.harness.lake.rows import Rows
from squall.harness.provenance import machine, versions
from squall.results.lake.entry import Entry
from squall.results.lake.of_run import machine_row
from squall.results.lake.schema import TABLES
from squall.results.lake.store import Lake


@dataclass
class RowsAdder:
    """Adds what one command did. It counts the time from its making."""

    lake: Path | None
    console: Console
    kind: str
    provenance: Callable[[], tuple[Mapping[str, str], Mapping[str, str]]] = lambda: (versions(), machine())
    _started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _began: float = field(default_factory=time.monotonic)

    def add(self, rows: Callable[[], Rows]) -> None:
        """Make the rows and add them as one entry, unless there are none or there is no lake."""
        if self.lake is None or not (made := rows()) or not any(made.values()):
            return
        seconds = time.monotonic() - self._began
        entry = self._entry(made, seconds)
        add_entry(entry, self.lake, lambda line: self.console.print(line, markup=False, soft_wrap=True))

    def _entry(self, rows: Rows, seconds: float) -> Entry:
        code, facts = self.provenance()
        where = machine_row(facts)
        recorded = datetime.now(UTC).isoformat(timespec="seconds")
        same: dict[str, Any] = {
            "kind": self.kind,
            "started": self._started.isoformat(timespec="seconds"),
            "commit": code.get("commit", ""),
            "dirty": code.get("dirty", "") == "yes",
            "version": code.get("squall", ""),
            "machine": where["machine"],
            "command": shlex.join(["squall", *sys.argv[1:]]),
            "seconds": seconds,
            "recorded": recorded,
        }
        filled: dict[str, list[Mapping[str, Any]]] = {
            table: [{name: value for name, value in same.items() if name in _columns(table)} | row for row in some]
            for table, some in rows.items()
        }
        key = f"{self.kind}-{self._started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        filled["machines"] = [where]
        return Entry.of(key, self._started.date().isoformat(), recorded, filled)


def add_entry(entry: Entry, lake: Path, say: Callable[[str], object]) -> None:
    """Add an entry that has no run directory, or replace that of the same key. Trouble is reported by one line."""
    try:
        Lake(lake).add(entry, keep=True)
    except OSError as trouble:
        say(f"{'lake':<11}no rows were added to {lake}: {trouble}")


def _columns(table: str) -> frozenset[str]:
    return frozenset(one.name for one in TABLES[table].columns)
