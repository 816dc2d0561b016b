"""The mutation score: which share of generated mutants unit tests, simulation and history's checks catch.

Figures are of mutants that are not equivalent (`equivalents.yaml`) and have been judged in every mode of the ledger. A
kill is attributed to what was seen first: an invariant of the observer, an anomaly of the history's checks, `CRASH`,
`LIVENESS` (the cluster does not become whole, or final reads do not complete), `HANG`, or `UNKNOWN` (the run allows no
conclusion). Of the history's kills, those by an anomaly are counted apart, since a crash or a cluster that does not
become whole is seen without any check of the history.

Pure functions from ledger entries to figures; `report` prints them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from squall.harness.simulation.mutation.equivalents import Equivalents
from squall.harness.simulation.mutation.generation.mutation import Mutation
from squall.harness.simulation.mutation.judgement import HISTORY, KILLED, NOT_REACHED, SIMULATION, UNIT, Judgement
from squall.harness.simulation.mutation.ledger import Entry

ENOUGH_SEEDS = 5
"""A mutant that changed no trace on so many seeds that reach it may be equivalent."""


@dataclass(frozen=True)
class Judged:
    """One mutant with all its judgements."""

    mutation: Mutation
    by_mode: dict[str, Judgement]

    def killed(self, mode: str) -> bool:
        return mode in self.by_mode and self.by_mode[mode].outcome == KILLED

    @property
    def survives(self) -> bool:
        """Whether nothing that was tried kills it."""
        return not any(self.killed(mode) for mode in self.by_mode)

    @property
    def killed_by_anomaly(self) -> bool:
        """Whether the history's checks alone kill it, by an anomaly: their names are in lower case."""
        return self.killed(HISTORY) and any(name == name.lower() for name in self.by_mode[HISTORY].by)

    @property
    def not_reached(self) -> bool:
        return SIMULATION in self.by_mode and self.by_mode[SIMULATION].outcome == NOT_REACHED

    @property
    def maybe_equivalent(self) -> bool:
        """Whether nothing kills it and no trace differs from the healthy twin's."""
        found = self.by_mode.get(SIMULATION)
        return self.survives and found is not None and found.differed == 0 and found.tried >= ENOUGH_SEEDS

    @property
    def survival(self) -> str:
        """Why the simulation does not kill it, as far as figures tell."""
        found = self.by_mode[SIMULATION]
        if found.outcome == NOT_REACHED:
            return f"not reached by any of {found.skipped} seeds"
        if not found.differed:
            return f"reached by {found.tried} seeds, no trace differs: rare circumstances, or equivalent"
        return f"reached by {found.tried} seeds, {found.differed} traces differ, no check sees it"


@dataclass(frozen=True)
class Row:
    """How many mutants of one kind there are, and how many each mode kills."""

    name: str
    mutants: int
    unit: int
    simulation: int
    history: int
    anomalies: int
    nothing: int
    not_reached: int


@dataclass(frozen=True)
class Times:
    """Processor seconds until the kill."""

    median: float
    ninetieth: float


@dataclass(frozen=True)
class Score:
    """The figures of one ledger."""

    total: Row
    packages: tuple[Row, ...]
    operators: tuple[Row, ...]
    killers: dict[str, dict[str, int]]
    """By mode, names in order of how often they kill."""
    times: dict[str, Times]
    equivalent: int
    simulation_survivors: tuple[Judged, ...]
    """What the simulation does not kill, not reached ones first."""


def judged_mutants(entries: Iterable[Entry]) -> list[Judged]:
    """Group a ledger's entries by mutant."""
    grouped: dict[str, Judged] = {}
    for entry in entries:
        one = grouped.setdefault(entry.mutation.id, Judged(entry.mutation, {}))
        one.by_mode[entry.judgement.mode] = entry.judgement
    return list(grouped.values())


def score_of(entries: Iterable[Entry], equivalents: Equivalents) -> Score:
    """Return all figures of a ledger, of the mutants that have been judged in every mode that occurs in it."""
    everything = judged_mutants(entries)
    modes = {mode for one in everything for mode in one.by_mode}
    everything = [one for one in everything if modes <= set(one.by_mode)]
    judged = [one for one in everything if not (one.survives and equivalents.has(one.mutation))]
    survivors = [one for one in judged if SIMULATION in one.by_mode and not one.killed(SIMULATION)]
    return Score(
        total=_row("all", judged),
        packages=_rows(judged, lambda one: one.mutation.package),
        operators=_rows(judged, lambda one: one.mutation.operator),
        killers={mode: _killers(judged, mode) for mode in (SIMULATION, HISTORY)},
        times={mode: times for mode in (SIMULATION, HISTORY) if (times := _times(judged, mode)) is not None},
        equivalent=len(everything) - len(judged),
        simulation_survivors=tuple(sorted(survivors, key=lambda one: (not one.not_reached, one.mutation.id))),
    )


def _rows(judged: list[Judged], kind: Callable[[Judged], str]) -> tuple[Row, ...]:
    names = sorted({kind(one) for one in judged})
    return tuple(_row(name, [one for one in judged if kind(one) == name]) for name in names)


def _row(name: str, judged: list[Judged]) -> Row:
    return Row(
        name=name,
        mutants=len(judged),
        unit=sum(one.killed(UNIT) for one in judged),
        simulation=sum(one.killed(SIMULATION) for one in judged),
        history=sum(one.killed(HISTORY) for one in judged),
        anomalies=sum(one.killed_by_anomaly for one in judged),
        nothing=sum(one.survives for one in judged),
        not_reached=sum(one.not_reached for one in judged),
    )


def _killers(judged: list[Judged], mode: str) -> dict[str, int]:
    return dict(Counter(name for one in judged if one.killed(mode) for name in one.by_mode[mode].by[:1]).most_common())


def _times(judged: list[Judged], mode: str) -> Times | None:
    seconds = sorted(one.by_mode[mode].seconds for one in judged if one.killed(mode))
    if not seconds:
        return None
    return Times(median(seconds), seconds[min(len(seconds) - 1, len(seconds) * 9 // 10)])
