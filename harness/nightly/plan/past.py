"""What is known of the past of each item: rows of the lake, and the ledgers of earlier nights.

The ledgers know how long an item took from beginning to end; the lake knows load and check of every run, also of those
by hand, to which the usual time of set-up is added.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from squall.harness.errors import UsageError
from squall.harness.nightly.ledger.items import Item
from squall.harness.nightly.ledger.ledger import LEDGER, Ended, Event, Planned, read_ledger
from squall.harness.nightly.plan.night_file import SET_UP_SECONDS
from squall.harness.nightly.plan.planning import Past
from squall.results.lake.store import Lake, LakeTrouble

KNOWN_DAYS = 60
FINDING_DAYS = 14
LATEST_NIGHTS = 30
SAMPLES = 9
"""How many of the newest durations count."""

_WORLDS = {"scenario": "hosts", "simulation": "simulation"}


@dataclass(frozen=True)
class Run:
    """One earlier run of an item: when, how long, and how it ended."""

    name: str
    world: str
    day: date
    seconds: float | None
    as_expected: bool
    findings: tuple[str, ...] = ()
    tested: str = "squall"
    """The name of the system under test."""


def past_of(item: Item, runs: Sequence[Run], today: date) -> Past:
    """Return the past of an item among these runs."""
    world = _WORLDS.get(item.kind, item.kind)
    key = (item.name, world, item.tested)
    own = sorted((one for one in runs if (one.name, one.world, one.tested) == key), key=lambda one: one.day)
    if not own:
        return Past()
    seconds = [one.seconds for one in own if one.seconds is not None][-SAMPLES:]
    fresh = [one for one in own if not one.as_expected and (today - one.day).days <= FINDING_DAYS]
    return Past(
        runs=len(own),
        days=float((today - own[-1].day).days),
        failed=not own[-1].as_expected,
        findings=len({name for one in fresh for name in one.findings}),
        seconds=median(seconds) if seconds else None,
    )


def known_runs(lake: Path | None, nights: Path, today: date | None = None) -> list[Run]:
    """Return the runs that a lake and the ledgers of earlier nights know. What cannot be read is not known."""
    today = today or datetime.now(UTC).date()
    since = (today - timedelta(days=KNOWN_DAYS)).isoformat()
    runs: list[Run] = []
    if lake is not None and Lake(lake).exists:
        with contextlib.suppress(LakeTrouble, OSError):
            runs += of_rows(Lake(lake).table("runs", since=since).to_pylist())
    for ledger in sorted(nights.glob(f"*/{LEDGER}"), key=lambda path: path.stat().st_mtime)[-LATEST_NIGHTS:]:
        with contextlib.suppress(UsageError, OSError):
            runs += of_events(read_ledger(ledger.parent))
    return runs


def of_rows(rows: Iterable[Mapping[str, Any]]) -> list[Run]:
    """Return the runs of the lake's rows; those of a night are known by its ledger as well, and better."""
    runs = []
    for row in rows:
        with contextlib.suppress(ValueError):
            load, check = row["load_s"], row["check_s"]
            hosts = row["world"] == "hosts"
            known = load is not None and hosts and not row["night"]
            runs.append(
                Run(
                    name=row["scenario"],
                    world=row["world"],
                    day=date.fromisoformat(row["date"]),
                    seconds=load + (check or 0.0) + SET_UP_SECONDS if known else None,
                    as_expected=bool(row["as_expected"]),
                    findings=tuple(row["anomalies"] or ()),
                    tested=(row["system"] or "squall").partition(" ")[0],
                )
            )
    return runs


def of_events(events: Iterable[Event]) -> list[Run]:
    """Return the runs of a night's ledger."""
    items: dict[str, Item] = {}
    runs = []
    for event in events:
        if isinstance(event, Planned):
            items = {one.item.id: one.item for one in event.chosen}
        if isinstance(event, Ended) and event.item in items:
            item, outcome = items[event.item], event.outcome
            runs.append(
                Run(
                    name=item.name,
                    world=_WORLDS.get(item.kind, item.kind),
                    day=datetime.fromtimestamp(event.at, UTC).date(),
                    seconds=event.seconds if outcome.ending not in ("refused", "error") else None,
                    as_expected=event.as_expected,
                    findings=outcome.anomalies,
                    tested=item.tested,
                )
            )
    return runs
