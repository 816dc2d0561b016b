"""Findings over many runs, by fingerprint: new, ongoing, rare or resolved, with the newest witness of each."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from typing import Final

from squall.results.dashboard.lake_facts import Anomaly, Run
from squall.results.dashboard.nights import Nights, outcome_of
from squall.results.trends.findings import FindingState, Night, finding_state

STATES: Final = ("new", "ongoing", "rare", "resolved")


@dataclass(frozen=True)
class KnownFinding:
    """A finding with its state tonight. `run` is the newest run that shows it, and `anomaly` what it shows."""

    fingerprint: str
    scenario: str
    anomaly: Anomaly
    run: Run
    runs_seen: int
    seen_by_day: dict[str, int]
    state: FindingState


def known_findings(nights: Nights) -> list[KnownFinding]:
    """Return all findings of runs that were not as expected, those that matter most first."""
    found = [one for scenario in nights.scenarios for one in _findings_of(scenario, nights)]
    return sorted(
        found,
        key=lambda one: (STATES.index(one.state.state), -one.state.last_seen.toordinal(), one.scenario),
    )


def _findings_of(scenario: str, nights: Nights) -> list[KnownFinding]:
    cells = nights.cells[scenario]
    seen: dict[str, list[tuple[str, Run, Anomaly]]] = defaultdict(list)
    for day in sorted(cells):
        for run in cells[day].runs:
            if outcome_of(run) == "invalid":
                for anomaly in run.anomalies:
                    seen[anomaly.fingerprint].append((day, run, anomaly))
    return [one for mark, sightings in seen.items() if (one := _finding(mark, scenario, sightings, nights))]


def _finding(
    mark: str, scenario: str, sightings: list[tuple[str, Run, Anomaly]], nights: Nights
) -> KnownFinding | None:
    keys: dict[str, set[str]] = defaultdict(set)
    for day, run, _ in sightings:
        keys[day].add(run.key)
    decided = {
        day: sum(run.verdict in ("valid", "invalid") for run in cell.runs)
        for day, cell in nights.cells[scenario].items()
    }
    state = finding_state(
        Night(date.fromisoformat(day), runs, len(keys[day]) if day in keys else 0) for day, runs in decided.items()
    )
    if state is None:
        return None
    _, run, anomaly = sightings[-1]
    return KnownFinding(
        fingerprint=mark,
        scenario=scenario,
        anomaly=anomaly,
        run=run,
        runs_seen=sum(len(some) for some in keys.values()),
        seen_by_day={day: len(some) for day, some in keys.items()},
        state=state,
    )
