"""What the page *Tonight* says: one sentence, then whether the system, the testbed or the machine needs a look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, Literal

from squall.results.checkers.common.text import listed, several
from squall.results.dashboard.findings import STATES, KnownFinding
from squall.results.dashboard.lake_facts import Run
from squall.results.dashboard.levels import Level
from squall.results.dashboard.night_table import NO_REASON, not_run_tonight
from squall.results.dashboard.nights import WORST_FIRST, Cell, Outcome, outcome_of
from squall.results.dashboard.overview import Overview, ratio_to_the_week_before
from squall.results.dashboard.words import percent, run_link, scenario_link

GRID_NIGHTS: Final = 30
RESOLVED_DAYS: Final = 30
LINES_MAX: Final = 6
SAME_SPEED: Final = 0.03

Condition = Literal["good", "doubt", "bad"]


@dataclass(frozen=True)
class Line:
    """A line with a link, or without."""

    text: str
    href: str = ""


@dataclass(frozen=True)
class Tile:
    """The condition of the system, the testbed or the machine, with reasons."""

    name: str
    condition: Condition
    headline: str
    lines: tuple[Line, ...] = ()
    more: int = 0


@dataclass(frozen=True)
class GridRow:
    """A scenario over the last nights; None on a night on which it was not run."""

    scenario: str
    cells: tuple[Cell | None, ...]
    troubles: int

    @property
    def tonight(self) -> str:
        return self.cells[-1].outcome if self.cells and self.cells[-1] else "none"


@dataclass(frozen=True)
class Tonight:
    """The page."""

    day: str
    sentence: str
    tiles: tuple[Tile, ...]
    counts: dict[Outcome, int]
    runs: int
    scenarios: int
    findings: dict[str, list[KnownFinding]]
    older_resolved: list[KnownFinding]
    grid_days: tuple[str, ...]
    grid: tuple[GridRow, ...]
    not_run: list[tuple[str, str]]
    alarms: tuple[Level, ...] = field(default=())


def tonight_of(overview: Overview) -> Tonight:
    """Work the page out."""
    nights = overview.nights
    runs = overview.tonight
    counts = Counter(outcome_of(one) for one in runs)
    recent, older = _by_state(overview)
    alarms = tuple(
        one
        for some in overview.levels.values()
        for one in some
        if one.alarm is not None and one.alarm_state != "hidden"
    )
    not_run = not_run_tonight(nights, overview.recorded.get(nights.tonight))
    tiles = (_system(overview, runs, alarms), _testbed(overview, runs, not_run), _machine(overview, alarms))
    return Tonight(
        day=nights.tonight,
        sentence=_sentence(overview, runs, not_run, tiles[2]),
        tiles=tiles,
        counts={one: counts[one] for one in WORST_FIRST if counts[one]},
        runs=len(runs),
        scenarios=len({one.scenario for one in runs}),
        findings=recent,
        older_resolved=older,
        grid_days=nights.last(GRID_NIGHTS),
        grid=_grid(overview),
        not_run=not_run,
        alarms=alarms,
    )


def _by_state(overview: Overview) -> tuple[dict[str, list[KnownFinding]], list[KnownFinding]]:
    recent: dict[str, list[KnownFinding]] = {state: [] for state in STATES}
    older = []
    for one in overview.findings:
        age = (date.fromisoformat(overview.nights.tonight) - one.state.last_seen).days
        if one.state.state == "resolved" and age > RESOLVED_DAYS:
            older.append(one)
        else:
            recent[one.state.state].append(one)
    return recent, older


def _sentence(overview: Overview, runs: Sequence[Run], not_run: Sequence[tuple[str, str]], machine: Tile) -> str:
    """Return the one sentence: how the runs ended, what is new or still open, what is missing."""
    parts = [_endings(runs), *_open_findings(overview.findings)]
    if not_run:
        parts.append(f"{several(len(not_run), 'scenario')} {'was' if len(not_run) == 1 else 'were'} not run")
    if machine.condition != "good":
        parts.append(f"of the machine: {machine.headline}")
    return "; ".join(parts) + "."


def _endings(runs: Sequence[Run]) -> str:
    if not runs:
        return "Nothing was run"
    counts = Counter(outcome_of(one) for one in runs)
    expected = counts["valid"] + counts["expected"]
    if expected == len(runs):
        return f"All {several(len(runs), 'run')} ended as expected" if len(runs) > 1 else "The run ended as expected"
    parts = [f"{expected} of {several(len(runs), 'run')} ended as expected"]
    if counts["invalid"]:
        parts.append(f"{counts['invalid']} did not")
    if counts["unknown"]:
        parts.append(f"{counts['unknown']} {'shows' if counts['unknown'] == 1 else 'show'} nothing")
    return ", ".join(parts)


def _open_findings(findings: Sequence[KnownFinding]) -> list[str]:
    parts = []
    for state, words in (("new", "new"), ("ongoing", "still open"), ("rare", "rare and still open")):
        some = [one for one in findings if one.state.state == state]
        if some:
            others = f" and {several(len(some) - 1, 'other finding')} are" if len(some) > 1 else " is"
            parts.append(f"{some[0].anomaly.name} in {some[0].scenario}{others} {words}")
    return parts


# -- tiles ------------------------------------------------------------------------------------------------------------


def _tile(name: str, condition: Condition, headline: str, lines: Sequence[Line]) -> Tile:
    return Tile(name, condition, headline, tuple(lines[:LINES_MAX]), max(0, len(lines) - LINES_MAX))


def _system(overview: Overview, runs: Sequence[Run], alarms: Sequence[Level]) -> Tile:
    open_findings = [one for one in overview.findings if one.state.state != "resolved"]
    new = [one for one in open_findings if one.state.state == "new"]
    worse = [one for one in alarms if one.alarm is not None and one.alarm.shift > 0 and one.alarm.cause == "metric"]
    better = [one for one in alarms if one.alarm is not None and one.alarm.shift < 0 and one.alarm.cause == "metric"]
    missed = [one for one in runs if outcome_of(one) == "invalid" and not one.anomalies]
    lines = [
        Line(f"{one.state.state}: {one.anomaly.name} in {one.scenario}{_since(one)}", run_link(one.run))
        for one in open_findings
    ]
    lines += [
        Line(f"{one.scenario}: expected {one.row['expected']}, ended {one.verdict}", run_link(one)) for one in missed
    ]
    lines += [Line(_alarm_text(one), scenario_link(one.scenario)) for one in [*worse, *better]]
    if new:
        return _tile("System", "bad", several(len(new), "new finding"), lines)
    if missed:
        return _tile("System", "bad", f"{several(len(missed), 'run')} did not end as expected", lines)
    if open_findings:
        return _tile("System", "bad", f"{several(len(open_findings), 'open finding')}, none new", lines)
    undecided = [one for one in worse if one.alarm_state != "acknowledged"]
    if undecided:
        return _tile("System", "doubt", f"{several(len(undecided), 'metric')} became worse", lines)
    if not runs:
        return _tile("System", "doubt", "nothing was run", lines)
    return _tile("System", "good", "no open finding", lines)


def _since(one: KnownFinding) -> str:
    returned = ", back after it was resolved" if one.state.returned else ""
    return returned if one.state.state == "new" else f" since {one.state.first_seen}{returned}"


def _alarm_text(level: Level) -> str:
    assert level.alarm is not None
    decision = f", {level.alarm_state} by {level.decision.who}" if level.decision else ""
    since = level.days[level.alarm.since]
    return f"{level.metric.title} of {level.scenario} {percent(level.alarm.shift)} since {since}{decision}"


def _testbed(overview: Overview, runs: Sequence[Run], not_run: Sequence[tuple[str, str]]) -> Tile:
    unknown = [one for one in runs if outcome_of(one) == "unknown"]
    unproven = sum(not fault.proven for one in runs for fault in one.faults)
    lines = [Line(f"{one.scenario}: {(one.row['reasons'] or ['never judged'])[0]}", run_link(one)) for one in unknown]
    if unproven:
        lines.append(Line(f"{several(unproven, 'fault')} without evidence tonight", "coverage.html"))
    lines += [Line(f"not run, {why}: {listed(names, 4)}") for why, names in _by_reason(not_run).items()]
    if not runs:
        return _tile("Testbed", "bad", "nothing was run", lines)
    if unknown:
        return _tile("Testbed", "doubt", f"{several(len(unknown), 'run')} of unknown outcome", lines)
    if unproven or not_run:
        headline = f"{several(len(not_run), 'scenario')} not run" if not_run else "faults without evidence"
        return _tile("Testbed", "doubt", headline, lines)
    return _tile("Testbed", "good", "every run was decided", lines)


def _by_reason(not_run: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, why in not_run:
        found.setdefault(why or NO_REASON, []).append(name)
    return found


def _machine(overview: Overview, alarms: Sequence[Level]) -> Tile:
    fleet = overview.fleet
    lines = []
    for canary in fleet.alarms:
        assert canary.alarm is not None
        lines.append(
            Line(f"{canary.title} {percent(canary.alarm.shift)} since {canary.days[canary.alarm.since]}", "fleet.html")
        )
    lines += [
        Line(f"{_alarm_text(one)}, as the canary", scenario_link(one.scenario))
        for one in alarms
        if one.alarm is not None and one.alarm.cause == "environment"
    ]
    ratio = ratio_to_the_week_before(overview.levels, "p50")
    if ratio is not None:
        lines.append(
            Line(f"over all scenarios, the median latency is {ratio:.2f} times that of the week before", "compare.html")
        )
    if fleet.noise_tonight is not None:
        lines.append(Line(f"the canary loop varied by {fleet.noise_tonight:.0%} within a run", "fleet.html"))
    if fleet.alarms:
        return _tile("Machine", "doubt", "its speed changed", lines)
    if fleet.noisy:
        return _tile("Machine", "doubt", "its speed varied within runs", lines)
    if fleet.noise_tonight is None:
        return _tile("Machine", "doubt", "nothing was measured", lines)
    alone = len(overview.nights.days) == 1
    return _tile("Machine", "good", "quiet, on the first night" if alone else "as fast and quiet as before", lines)


# -- grid -------------------------------------------------------------------------------------------------------------


def _grid(overview: Overview) -> tuple[GridRow, ...]:
    """Return a row for each scenario that ran in the last nights, those in trouble first."""
    days = overview.nights.last(GRID_NIGHTS)
    rows = []
    for scenario in overview.nights.scenarios:
        by_day = overview.nights.cells[scenario]
        cells = tuple(by_day.get(day) for day in days)
        if any(cells):
            troubles = sum(one is not None and one.outcome in ("invalid", "unknown") for one in cells)
            rows.append(GridRow(scenario, cells, troubles))
    order = {outcome: place for place, outcome in enumerate((*WORST_FIRST, "none"))}
    return tuple(sorted(rows, key=lambda one: (min(order[one.tonight], 2), -one.troubles, one.scenario)))
