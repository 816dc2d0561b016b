"""Everything that the pages say, worked out of a lake once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from squall.results.dashboard.benchmarks import BenchmarkFigure, benchmark_figures
from squall.results.dashboard.coverage import Coverage, coverage_of
from squall.results.dashboard.findings import KnownFinding, known_findings
from squall.results.dashboard.fleet import Fleet, fleet_of
from squall.results.dashboard.lake_facts import LakeFacts, Run
from squall.results.dashboard.levels import CANARIES, NIGHTS_MAX, Basis, Level, canary_of, levels_of
from squall.results.dashboard.night_table import NightFacts, night_facts
from squall.results.dashboard.nights import Nights, nights_of
from squall.results.dashboard.series_cache import SeriesCache
from squall.results.dashboard.simulation import Simulation, simulation_of
from squall.results.trends.flakes import FlakeRate, Outcome, flake_rates

FLAKE_NIGHTS = 30
WEEK = 7


@dataclass(frozen=True)
class Overview:
    """What is known. `levels` are those of each scenario; `flakes` those of the last nights that flaked at all."""

    facts: LakeFacts
    nights: Nights
    findings: list[KnownFinding]
    levels: Mapping[str, list[Level]]
    flakes: list[FlakeRate]
    flake_total: FlakeRate
    fleet: Fleet
    coverage: Coverage
    benchmarks: list[BenchmarkFigure]
    simulation: Simulation
    recorded: Mapping[str, NightFacts]

    @property
    def tonight(self) -> list[Run]:
        return sorted(self.nights.runs_of(self.nights.tonight), key=lambda one: (one.started, one.key))


def overview_of(facts: LakeFacts, cache: SeriesCache | None = None) -> Overview:
    """Work out everything; series that are in the cache are not segmented again."""
    cache = cache or SeriesCache()
    nights = nights_of(facts.runs, facts.nights)
    flakes = _flakes(nights)
    return Overview(
        facts=facts,
        nights=nights,
        findings=known_findings(nights),
        levels=levels_of(Basis(nights, _canaries(nights), cache, facts.decisions)),
        flakes=[one for one in flakes if one.flakes],
        flake_total=FlakeRate("all scenarios", sum(one.flakes for one in flakes), sum(one.runs for one in flakes)),
        fleet=fleet_of(facts, nights, cache),
        coverage=coverage_of(nights),
        benchmarks=benchmark_figures(facts, cache),
        simulation=simulation_of(facts),
        recorded=night_facts(facts, nights),
    )


def _canaries(nights: Nights) -> list[list[float]]:
    return [canary_of(nights, nights.last(NIGHTS_MAX), name) for name in CANARIES]


def _flakes(nights: Nights) -> list[FlakeRate]:
    """Return the flake rates of the last nights, the largest first."""
    shown = set(nights.last(FLAKE_NIGHTS))
    outcomes = [
        Outcome(scenario, f"{run.row['scenario_hash']}/{run.row['schedule_hash']}", run.commit, _ending(run))
        for scenario in nights.scenarios
        for day, cell in nights.cells[scenario].items()
        if day in shown
        for run in cell.runs
    ]
    return sorted(flake_rates(outcomes), key=lambda one: (-one.rate, one.scenario))


def _ending(run: Run):  # type: ignore[no-untyped-def]
    return "error" if run.verdict not in ("valid", "invalid", "unknown") else run.verdict


def ratio_to_the_week_before(levels: Mapping[str, list[Level]], metric: str) -> float | None:
    """Return the median, over all scenarios, of tonight's figure over the median of the seven nights before.

    A change of the machine shows in all scenarios at once, one of the system mostly in some.
    """
    ratios = []
    for some in levels.values():
        level = next(one for one in some if one.metric.name == metric)
        before = [one for one in level.values[-WEEK - 1 : -1] if one is not None]
        now = level.values[-1] if level.values else None
        if now is not None and before and median(before) > 0:
            ratios.append(now / median(before))
    found = median(ratios) if ratios else math.nan
    return None if math.isnan(found) else found
