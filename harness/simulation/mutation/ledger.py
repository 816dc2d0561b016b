"""The ledger: one line of JSON for each mutant and mode, appended when it is judged.

A campaign that was interrupted goes on where it was: what the ledger holds is not judged again. Its first line says
for which code and settings it holds; another campaign is refused, since its figures would not be comparable. A lock
keeps two campaigns from writing at once. A line that a kill cut short is removed when the ledger is opened.
"""

from __future__ import annotations

import fcntl
import json
import threading
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TextIO

from squall.harness.errors import UsageError
from squall.harness.simulation.mutation.generation.mutation import Mutation
from squall.harness.simulation.mutation.judgement import Judgement


@dataclass(frozen=True)
class Campaign:
    """What a ledger holds for. `sampled` is not part of it: a sample may grow."""

    fingerprint: str
    commit: str
    seed: int
    scenarios: tuple[str, ...]
    budget_s: float


@dataclass(frozen=True)
class Entry:
    """One judged mutant in one mode."""

    mutation: Mutation
    judgement: Judgement
    at: str = ""


class Ledger:
    """An open ledger; close it to let another campaign write."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._guard = _locked(path)
        _drop_partial_line(path)
        known, self.entries = read_ledger(path) if path.exists() and path.stat().st_size else (None, [])
        if known is not None and _comparable(known) != _comparable(campaign):
            self._guard.close()
            raise UsageError(
                f"{path} holds another campaign: {_differences(known, campaign)}",
                remedy="name another file: --ledger FILE",
            )
        self._file = path.open("a")
        if known is None:
            self._write({"campaign": asdict(campaign)})

    def has(self, mutation: Mutation, mode: str) -> bool:
        """Whether this mutant has been judged in this mode."""
        return any(one.judgement.mode == mode and one.mutation.change == mutation.change for one in self.entries)

    def append(self, entry: Entry) -> None:
        with self._lock:
            self.entries.append(entry)
            self._write({"mutation": asdict(entry.mutation), "judgement": asdict(entry.judgement), "at": entry.at})

    def _write(self, line: dict[str, object]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self._guard.close()


def read_ledger(path: Path) -> tuple[Campaign, list[Entry]]:
    """Read a ledger. Raises UsageError if the file is none."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        campaign = lines[0]["campaign"]
        entries = [Entry(Mutation(**one["mutation"]), _judgement(one["judgement"]), one["at"]) for one in lines[1:]]
        return Campaign(**{**campaign, "scenarios": tuple(campaign["scenarios"])}), entries
    except (ValueError, KeyError, IndexError, TypeError) as trouble:
        raise UsageError(f"{path} is no ledger of mutants: {trouble}", remedy="squall mutants --generate") from trouble


def _judgement(entry: dict[str, object]) -> Judgement:
    by = entry["by"]
    assert isinstance(by, list)
    known = {one.name for one in fields(Judgement)}
    return Judgement(**{**{key: value for key, value in entry.items() if key in known}, "by": tuple(by)})  # type: ignore[arg-type]


def _locked(path: Path) -> TextIO:
    guard = path.with_suffix(path.suffix + ".lock").open("w")
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as trouble:
        guard.close()
        raise UsageError(f"{path} is in use by another campaign", remedy="wait, or name another file") from trouble
    return guard


def _drop_partial_line(path: Path) -> None:
    if path.exists() and (data := path.read_bytes()) and not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])


def _comparable(campaign: Campaign) -> dict[str, object]:
    return {key: value for key, value in asdict(campaign).items() if key != "commit"}


def _differences(known: Campaign, wanted: Campaign) -> str:
    pairs = zip(_comparable(known).items(), _comparable(wanted).values(), strict=True)
    return ", ".join(f"{key} {one}, not {other}" for (key, one), other in pairs if one != other)
