"""What the table `nights` says of a night: how long it took, what it cost, and what was not run and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from squall.results.dashboard.lake_facts import LakeFacts, Row
from squall.results.dashboard.nights import Nights

NO_REASON: Final = "no reason was recorded"


@dataclass(frozen=True)
class NightFacts:
    """What was recorded of the nights of a day: shards, for instance, are several. `left_out` has names with reasons.

    `costs` has a sum for each currency; that of a night which does not name one has an empty name.
    """

    nights: int = 0
    seconds: float | None = None
    costs: tuple[tuple[str, float], ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def night_facts(facts: LakeFacts, nights: Nights) -> dict[str, NightFacts]:
    """Return what was recorded of nights, by day."""
    by_day: dict[str, list[Row]] = defaultdict(list)
    for row in facts.nights:
        by_day[nights.named.get(row["night"] or "", str(row["date"]))].append(row)
    return {day: _facts(rows) for day, rows in by_day.items()}


def _facts(rows: Sequence[Row]) -> NightFacts:
    seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
    costs: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["cost"] is not None:
            costs[row["currency"] or ""] += row["cost"]
    return NightFacts(
        nights=len(rows),
        seconds=sum(seconds) if seconds else None,
        costs=tuple(sorted(costs.items())),
        left_out=tuple(pair for row in rows for pair in _left_out(row)),
    )


def _left_out(row: Row) -> Iterator[tuple[str, str]]:
    names, reasons = row["left_out"] or (), row["left_out_why"] or ()
    return zip(names, [*reasons, *[""] * len(names)], strict=False)


def not_run_tonight(nights: Nights, recorded: NightFacts | None) -> list[tuple[str, str]]:
    """Return what was not run tonight, with reasons: what was left out, and scenarios that ran a week before.

    What one night leaves out and another of the same day runs was run. A night calls a scenario by its name in both
    worlds.
    """
    ran = {scenario for scenario, cells in nights.cells.items() if nights.tonight in cells}
    names = {scenario: nights.name_of(scenario) for scenario in nights.scenarios}
    ran_by_name = {names[one] for one in ran}
    found = {name: why for name, why in (recorded.left_out if recorded else ()) if name not in ran_by_name}
    week = nights.last(8)[:-1]
    missing = [one for one in nights.scenarios if one not in ran and max(nights.cells[one]) in week]
    without_reason = {one: NO_REASON for one in missing if names[one] not in found}
    return sorted((found | without_reason).items())
