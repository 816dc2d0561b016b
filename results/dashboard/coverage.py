"""How often each fault held, proven: at which role, in which state of in-sync replicas, with an election or without."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from squall.results.dashboard.lake_facts import FaultFacts, Run
from squall.results.dashboard.nights import Nights

ISR_CLASSES: Final = ("1", "2", "3 or more", "not observed")
ELECTION_CLASSES: Final = ("election", "no election")


@dataclass(frozen=True)
class FaultCoverage:
    """A kind of fault. `cells` counts proven instances by role, ISR class and election class."""

    kind: str
    planned: int
    proven: int
    scenarios: int
    last_proven: str
    cells: dict[tuple[str, str, str], int]
    recovery_s: float | None
    """The median time from injection to the end of the silence that it caused; None if it never caused one."""
    worst_silence_s: float | None


@dataclass(frozen=True)
class Coverage:
    """All kinds of fault over the states in which they might have held."""

    faults: tuple[FaultCoverage, ...]
    roles: tuple[str, ...]
    most: int
    explored: int
    possible: int


def isr_class(size: int | None) -> str:
    """Return the class of the size of an ISR."""
    if size is None:
        return "not observed"
    return str(size) if size < 3 else "3 or more"


def coverage_of(nights: Nights) -> Coverage:
    """Count proven faults of all runs."""
    grouped: dict[str, list[tuple[Run, FaultFacts]]] = defaultdict(list)
    for scenario in nights.scenarios:
        for cell in nights.cells[scenario].values():
            for run in cell.runs:
                for fault in run.faults:
                    grouped[fault.kind].append((run, fault))
    faults = tuple(_coverage(kind, grouped[kind]) for kind in sorted(grouped))
    roles = tuple(sorted({role for one in faults for role, _, _ in one.cells}))
    counts = [number for one in faults for number in one.cells.values()]
    observable = sum(isr != "not observed" for one in faults for _, isr, _ in one.cells)
    return Coverage(
        faults=faults,
        roles=roles,
        most=max(counts, default=0),
        explored=observable,
        possible=len(faults) * len(roles) * (len(ISR_CLASSES) - 1) * len(ELECTION_CLASSES),
    )


def _coverage(kind: str, instances: Iterable[tuple[Run, FaultFacts]]) -> FaultCoverage:
    some = list(instances)
    proven = [(run, fault) for run, fault in some if fault.proven]
    cells = Counter(
        (fault.role or "unknown role", isr_class(fault.isr), ELECTION_CLASSES[0 if fault.elections else 1])
        for _, fault in proven
    )
    recoveries = [fault.recovered_s for _, fault in proven if fault.recovered_s is not None]
    silences = [fault.silence_s for _, fault in proven if fault.silence_s is not None]
    return FaultCoverage(
        kind=kind,
        planned=len(some),
        proven=len(proven),
        scenarios=len({run.scenario for run, _ in proven}),
        last_proven=max((run.date for run, _ in proven), default=""),
        cells=dict(cells),
        recovery_s=median(recoveries) if recoveries else None,
        worst_silence_s=max(silences, default=None),
    )
