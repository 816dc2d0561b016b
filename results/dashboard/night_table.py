"""What the table `nights` says of a night: how long it took, what it cost, and what was not run and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from squall.results.dashboard.lake_facts import LakeFacts
from squall.results.dashboard.nights import Nights

NO_REASON: Final = "no reason was recorded"


@dataclass(frozen=True)
class NightFacts:
    """A night as it was recorded. `left_out` are pairs of name and reason."""

    seconds: float | None = None
    cost: float | None = None
    currency: str = ""
    left_out: tuple[tuple[str, str], ...] = ()
    recorded: bool = False


def night_facts(facts: LakeFacts, nights: Nights) -> dict[str, NightFacts]:
    """Return what was recorded of nights, by day."""
    found: dict[str, NightFacts] = {}
    for row in facts.nights:
        day = nights.named.get(row["night"] or "", str(row["date"]))
        names, reasons = row["left_out"] or (), row["left_out_why"] or ()
        found[day] = NightFacts(
            seconds=row["seconds"],
            cost=row["cost"],
            currency=row["currency"] or "",
            left_out=tuple(zip(names, [*reasons, *[""] * len(names)], strict=False)),
            recorded=True,
        )
    return found


def not_run_tonight(nights: Nights, recorded: NightFacts | None) -> list[tuple[str, str]]:
    """Return what was not run tonight, with reasons: what the night left out, and scenarios that ran a week before."""
    found = dict(recorded.left_out) if recorded else {}
    week = nights.last(8)[:-1]
    for scenario in nights.scenarios:
        cells = nights.cells[scenario]
        last = max(cells)
        if nights.tonight not in cells and last in week and scenario not in found:
            found[scenario] = NO_REASON
    return sorted(found.items())
