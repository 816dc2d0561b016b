"""Select runs of a lake by words: a night, several nights, columns such as `commit:HASH`, a run's id or its beginning.

2026-11-24                     the runs of a night; of a run that is part of none, its UTC day counts
2026-11-01..2026-11-24         the runs of these nights
commit:8bf7102,system:kafka    the runs with these values; of a commit and a run's id the beginning suffices
0f3c9a1e                       the run whose id begins so
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from squall.results.lake.store import Lake
from squall.results.regression.measured_run import TABLES, MeasuredRun, measured_runs

SELECTED_BY: Final = ("commit", "night", "scenario", "suite", "system", "version", "machine", "verdict", "kind")
BEGINNING_SUFFICES: Final = frozenset({"commit", "machine"})
SHORTEST_BEGINNING: Final = 4
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")

Accepts = Callable[[Mapping[str, Any]], bool]


class NoSuchRuns(Exception):
    """No run fits the words, or they are no selection. The message says what would."""


def selection(words: str) -> Accepts | None:
    """Return which rows of the table `runs` the words select; None if they are no selection. Raises NoSuchRuns."""
    if _DAY.fullmatch(words):
        return _nights(words, words)
    first, dots, last = words.partition("..")
    if dots and _DAY.fullmatch(first) and _DAY.fullmatch(last):
        return _nights(first, last)
    if not re.match(rf"(?:{'|'.join(SELECTED_BY)}):", words):
        return None
    parts = [_by_column(words, part) for part in words.split(",")]
    return lambda row: all(accepts(row) for accepts in parts)


def _nights(first: str, last: str) -> Accepts:
    for day in (first, last):
        try:
            date.fromisoformat(day)
        except ValueError:
            raise NoSuchRuns(f"{day}: is no day of the calendar; write one such as 2026-11-24") from None
    if last < first:
        raise NoSuchRuns(f"{first}..{last}: ends before it begins; write the earlier night first")
    return lambda row: first <= night_of(row) <= last


def night_of(row: Mapping[str, Any]) -> str:
    """Return the night of a run, or the UTC day on which it started if it is part of none."""
    return row["night"] or row["date"]


def _by_column(words: str, part: str) -> Accepts:
    column, colon, value = part.partition(":")
    if not colon or column not in SELECTED_BY or not value:
        raise NoSuchRuns(f"{words}: {part!r} selects nothing; write {', '.join(f'{one}:…' for one in SELECTED_BY)}")
    if column in BEGINNING_SUFFICES and len(value) < SHORTEST_BEGINNING:
        raise NoSuchRuns(f"{words}: {value!r} is too short; write {SHORTEST_BEGINNING} characters of it or more")
    if column == "night":
        return lambda row: night_of(row) == value
    if column in BEGINNING_SUFFICES:
        return lambda row: (row[column] or "").startswith(value)
    return lambda row: row[column] == value


def runs_selected(lake: Lake, words: str, scenario: str | None = None) -> list[MeasuredRun]:
    """Return the runs that words select, of all scenarios or of those whose name contains a text.

    Raises NoSuchRuns, and LakeTrouble.
    """
    rows = lake.table("runs").to_pylist()
    if not rows:
        raise NoSuchRuns(f"{words}: the lake {lake.root} has no runs yet; squall run adds them, or squall lake rebuild")
    accepts = selection(words)
    chosen = _of_id(rows, words) if accepts is None else [row for row in rows if accepts(row)]
    if not chosen:
        raise NoSuchRuns(f"{words}: none of the {len(rows)} runs of the lake {lake.root} fits; {_newest(rows)}")
    found = [row for row in chosen if scenario is None or scenario in (row["scenario"] or "")]
    if not found:
        raise NoSuchRuns(f"{words}: none of its {len(chosen)} runs is of a scenario whose name contains {scenario!r}")
    return measured(lake, found)


def run_of_directory(lake: Lake, directory: Path) -> list[MeasuredRun]:
    """Return the run that lay in a directory when its rows were made; the directory may be gone. Raises LakeTrouble."""
    rows = lake.table("runs").to_pylist()
    return measured(lake, [row for row in rows if row["directory"] and Path(row["directory"]) == directory])


def measured(lake: Lake, runs: list[dict[str, Any]]) -> list[MeasuredRun]:
    """Return the figures of some rows of the table `runs`. Raises LakeTrouble."""
    keys = pa.array([row["key"] for row in runs], pa.string())
    since = min((row["date"] for row in runs), default="")
    tables: dict[str, list[dict[str, Any]]] = {"runs": runs}
    for name in TABLES[1:]:
        table = lake.table(name, since=since)
        tables[name] = table.filter(pc.is_in(table["key"], keys)).to_pylist()
    return measured_runs(tables)


def _of_id(rows: list[dict[str, Any]], words: str) -> list[dict[str, Any]]:
    exact = [row for row in rows if row["key"] == words]
    if exact:
        return exact
    if len(words) < SHORTEST_BEGINNING:
        return []
    found = [row for row in rows if row["key"].startswith(words)]
    if len(found) > 1:
        some = ", ".join(sorted(row["key"] for row in found)[:3])
        raise NoSuchRuns(f"{words}: is the beginning of {len(found)} run ids, such as {some}; write more of it")
    return found


def _newest(rows: list[dict[str, Any]]) -> str:
    newest = max(rows, key=lambda row: (row["started"] or "", row["key"]))
    return f"the newest is {newest['key']}, of {night_of(newest)} and commit {(newest['commit'] or 'unknown')[:10]}"
