"""Simulation over nights: seeds, new behaviours and an estimate of unseen ones, invariants, caught mutants."""

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
    """By the campaign's own estimate (Chao1) where it has one, else by Chapman's."""


@dataclass(frozen=True)
class Kill:
    """A mutant in a scenario, judged in one way: on how many seeds it was on and caught, by what, and when last."""

    mutant: str
    scenario: str
    mode: str
    seeds: int
    caught: int
    by: tuple[str, ...]
    date: str
    passed: bool


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
        kills=_kills(facts),
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
        estimates = [row["estimated_behaviours"] for row in counted if row["estimated_behaviours"] is not None]
        unseen = estimated_unseen(known, max(seen, new), new) if counted and known else None
        if estimates:
            unseen = max(0.0, max(estimates) - max(seen, known + new))
        days.append(
            CampaignDay(
                date=day,
                seeds=sum(row["seeds"] or 0 for row in rows),
                seeds_per_minute=60 * sum(row["seeds"] for row in timed) / seconds if seconds else None,
                failed=sum(row["invalid"] or 0 for row in rows if row["kind"] != "mutants"),
                new_behaviours=new if counted else None,
                known=known + new if counted or known else None,
                unseen=unseen,
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


def _kills(facts: LakeFacts) -> tuple[Kill, ...]:
    """The newest verification of each mutant in each scenario; where there is none, all runs with the mutant."""
    found: dict[tuple[str, str, str], Kill] = {}
    for run in facts.runs:
        for mutant in run.row["mutants"] or ():
            place = (mutant, run.scenario, run.row["world"] or "")
            before = found.get(place)
            seeds, caught = (before.seeds, before.caught) if before else (0, 0)
            caught += run.verdict == "invalid"
            by = tuple(dict.fromkeys((*(before.by if before else ()), *(run.row["anomalies"] or ()))))
            found[place] = Kill(*place, seeds + 1, caught, by, run.date, caught > 0)
    for row in facts.mutants:
        place = (row["mutant"] or "", row["scenario"] or "", row["mode"] or "")
        seeds, caught = row["seeds"] or 0, row["caught"] or 0
        found[place] = Kill(*place, seeds, caught, tuple(row["by"] or ()), row["date"], bool(row["passed"]))
    return tuple(found[place] for place in sorted(found))
