"""Group runs into nights, and say in one word how a scenario ended in a night.

Runs of one night belong to the day on which it began, also after midnight; runs by hand to their own day.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from squall.results.dashboard.lake_facts import Row, Run
from squall.results.regression.nights import days_of_nights

Outcome = Literal["valid", "expected", "unknown", "invalid"]
"""How a run ended, compared with what its scenario expects. Both a violation that was not expected and an expected one
that was missed are `invalid`; a violation that was expected is `expected`."""

WORST_FIRST: Final[tuple[Outcome, ...]] = ("invalid", "unknown", "expected", "valid")
OUTCOME_NAMES: Final[Mapping[Outcome, str]] = {
    "valid": "valid",
    "expected": "invalid, as expected",
    "unknown": "unknown",
    "invalid": "not as expected",
}


def outcome_of(run: Run) -> Outcome:
    """Return how a run ended. What is not decided is unknown, also if the scenario expects that."""
    if run.verdict not in ("valid", "invalid"):
        return "unknown"
    if not run.as_expected:
        return "invalid"
    return "valid" if run.verdict == "valid" else "expected"


def outcome_text(run: Run) -> str:
    """Return the verdict in words, with anomalies and what was expected instead."""
    names = ", ".join(dict.fromkeys(run.row["anomalies"] or ()))
    verdict = "never judged" if run.verdict == "none" else run.verdict
    text = f"{verdict}: {names}" if names else verdict
    if run.as_expected:
        return text if run.verdict != "invalid" else f"{text}, as expected"
    expected = run.row["expected"] or "valid"
    return text if expected == "valid" else f"{text}, expected {expected}"


def worst(outcomes: Iterable[Outcome]) -> Outcome | None:
    """Return the worst of some outcomes; None if there is none: it was not run."""
    found = set(outcomes)
    return next((one for one in WORST_FIRST if one in found), None)


@dataclass(frozen=True)
class Cell:
    """The runs of a scenario in a night."""

    runs: tuple[Run, ...]

    @property
    def outcome(self) -> Outcome:
        return worst(outcome_of(one) for one in self.runs) or "unknown"

    @property
    def worst_run(self) -> Run:
        """The newest of the runs that ended worst."""
        return next(one for one in reversed(self.runs) if outcome_of(one) == self.outcome)


@dataclass(frozen=True)
class Nights:
    """All runs by night and scenario. `days` are those of all nights, the oldest first, also if nothing ran."""

    days: tuple[str, ...]
    day_of: Mapping[str, str]
    cells: Mapping[str, Mapping[str, Cell]]
    """By scenario, by day."""
    named: Mapping[str, str] = field(default_factory=dict)
    """The day of each night that has a name."""

    @property
    def tonight(self) -> str:
        return self.days[-1] if self.days else ""

    @property
    def scenarios(self) -> tuple[str, ...]:
        return tuple(sorted(self.cells))

    def name_of(self, scenario: str) -> str:
        """Return the name that a suite gives a scenario, without the world."""
        newest = max(self.cells[scenario])
        return self.cells[scenario][newest].runs[-1].row["scenario"] or ""

    def runs_of(self, day: str) -> list[Run]:
        return [run for cells in self.cells.values() if day in cells for run in cells[day].runs]

    def last(self, number: int) -> tuple[str, ...]:
        return self.days[-number:]


def nights_of(runs: Sequence[Run], recorded: Iterable[Row] = ()) -> Nights:
    """Group runs, which are in order of time. `recorded` are rows of the table `nights`.

    A night without a row began on the day of its first run.
    """
    named = days_of_nights(
        [
            *((row["night"] or "", str(row["date"])) for row in recorded),
            *((run.row["night"] or "", run.date) for run in runs),
        ]
    )
    day_of = {run.key: named.get(run.row["night"] or "", run.date) for run in runs}
    grouped: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        grouped[run.scenario][day_of[run.key]].append(run)
    return Nights(
        days=tuple(sorted({*day_of.values(), *named.values()})),
        day_of=day_of,
        cells={
            scenario: {day: Cell(tuple(some)) for day, some in by_day.items()} for scenario, by_day in grouped.items()
        },
        named=named,
    )
