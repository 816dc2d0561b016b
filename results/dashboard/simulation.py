"""Simulation over nights: seeds, new behaviours and an estimate of unseen ones, invariants, mutants that were caught."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from squall.results.dashboard.lake_facts import LakeFacts, Row, Run
from squall.results.dashboard.nights import outcome_of


@dataclass(frozen=True)
class CampaignFacts:
    """A campaign of many seeds."""

    row: Row

    @property
    def seeds_per_minute(self) -> float | None:
        seconds, seeds = self.row["seconds"], self.row["seeds"]
        return 60 * seeds / seconds if seconds and seeds is not None else None


@dataclass(frozen=True)
class CampaignDay:
    """The campaigns of a day: all seeds, the new behaviours, and an estimate of those that nothing has shown yet."""

    date: str
    seeds: int
    seeds_per_minute: float | None
    failed: int
    new_behaviours: int | None
    known: int | None
    """Behaviours seen until then."""
    unseen: float | None


@dataclass(frozen=True)
class Kill:
    """A mutant in a scenario: in how many runs it was on, and in how many a violation was found."""

    mutant: str
    scenario: str
    runs: int
    killed: int


@dataclass(frozen=True)
class Simulation:
    """What is known of simulation. `invariants` counts the runs in which each was broken, unexpectedly."""

    campaigns: tuple[CampaignFacts, ...]
    days: tuple[CampaignDay, ...]
    simulated_runs: int
    invariants: tuple[tuple[str, str, int, str], ...]
    kills: tuple[Kill, ...]


def simulation_of(facts: LakeFacts) -> Simulation:
    """Return what campaigns and simulated runs show."""
    simulated = [one for one in facts.runs if one.row["world"] == "simulation"]
    return Simulation(
        campaigns=tuple(CampaignFacts(row) for row in facts.campaigns),
        days=_days(facts.campaigns),
        simulated_runs=len(simulated),
        invariants=_broken(simulated),
        kills=_kills(facts.runs),
    )


def estimated_unseen(known_before: int, seen: int, new: int) -> float:
    """Estimate how many behaviours nothing has shown yet, by Chapman's estimate of capture and recapture.

    Tonight's campaign saw `seen` behaviours, `new` of them for the first time; `known_before` were known. If each were
    as likely as any other, the share of known ones among those seen would be their share of all. Since some are much
    rarer, it is a lower bound.
    """
    again = max(0, seen - new)
    total = (known_before + 1) * (seen + 1) / (again + 1) - 1
    return max(0.0, total - known_before - new)


def _days(campaigns: Sequence[Row]) -> tuple[CampaignDay, ...]:
    by_day: dict[str, list[Row]] = defaultdict(list)
    for row in campaigns:
        by_day[row["date"]].append(row)
    days, known = [], 0
    for day, rows in sorted(by_day.items()):
        counted = [row for row in rows if row["new_behaviours"] is not None]
        new = sum(row["new_behaviours"] for row in counted)
        seen = max((row["behaviours"] or 0 for row in counted), default=0)
        timed = [row for row in rows if row["seconds"] and row["seeds"] is not None]
        seconds = sum(row["seconds"] for row in timed)
        days.append(
            CampaignDay(
                date=day,
                seeds=sum(row["seeds"] or 0 for row in rows),
                seeds_per_minute=60 * sum(row["seeds"] for row in timed) / seconds if seconds else None,
                failed=sum(row["invalid"] or 0 for row in rows if row["kind"] != "mutants"),
                new_behaviours=new if counted else None,
                known=known + new if counted or known else None,
                unseen=estimated_unseen(known, max(seen, new), new) if counted and known else None,
            )
        )
        known += new
    return tuple(days)


def _broken(runs: Sequence[Run]) -> tuple[tuple[str, str, int, str], ...]:
    """Anomalies of simulated runs that were not as expected: name, meaning, runs and the newest day."""
    counts: Counter[str] = Counter()
    meaning: dict[str, str] = {}
    last: dict[str, str] = {}
    for run in runs:
        if outcome_of(run) == "invalid":
            for one in run.anomalies:
                counts[one.name] += 1
                meaning[one.name], last[one.name] = one.meaning, run.date
    return tuple((name, meaning[name], number, last[name]) for name, number in counts.most_common())


def _kills(runs: Sequence[Run]) -> tuple[Kill, ...]:
    on: Counter[tuple[str, str]] = Counter()
    killed: Counter[tuple[str, str]] = Counter()
    for run in runs:
        for mutant in run.row["mutants"] or ():
            on[mutant, run.scenario] += 1
            killed[mutant, run.scenario] += run.verdict == "invalid"
    return tuple(
        Kill(mutant, scenario, number, killed[mutant, scenario]) for (mutant, scenario), number in sorted(on.items())
    )
