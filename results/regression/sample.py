"""What is compared with what: a named sample of runs, or of repetitions of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from squall.results.history.manifest import CANARIES
from squall.results.regression.measured_run import MeasuredRun
from squall.results.regression.metrics import METRICS, Metric


@dataclass(frozen=True)
class Figures:
    """The values of one figure, one a run."""

    metric: Metric
    values: tuple[float, ...]


@dataclass(frozen=True)
class Sample:
    """A sample: `name` is what its user wrote. `repetitions` are figures of benchmarks, by benchmark and figure.

    `machines` are fingerprints, `canaries` the figures of the machine, and `notes` say what a reader must know of it.
    """

    name: str
    runs: tuple[MeasuredRun, ...] = ()
    repetitions: Mapping[tuple[str, str], Figures] = field(default_factory=dict)
    machines: frozenset[str] = frozenset()
    canaries: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    commits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of_runs(cls, name: str, runs: list[MeasuredRun]) -> Sample:
        """Make a sample of runs."""
        unjudged = sum(one.verdict == "none" for one in runs)
        notes = [f"{unjudged} of {len(runs)} runs were never judged and count as unknown"] if unjudged else []
        if changed := sum(one.dirty for one in runs):
            notes.append(f"{changed} of {len(runs)} runs are of a checkout with changes that were not committed")
        return cls(
            name,
            tuple(runs),
            machines=frozenset(one.machine for one in runs if one.machine),
            canaries={
                canary: tuple(one.canaries[canary] for one in runs if canary in one.canaries) for canary in CANARIES
            },
            commits=tuple(sorted({one.commit for one in runs if one.commit})),
            notes=tuple(notes),
        )

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios, or benchmarks, by name."""
        return tuple(sorted({one.scenario for one in self.runs} | {name for name, _ in self.repetitions}))

    def of_scenario(self, scenario: str) -> tuple[MeasuredRun, ...]:
        return tuple(one for one in self.runs if one.scenario == scenario)

    def figures(self, scenario: str) -> dict[str, Figures]:
        """Return the figures of a scenario, or benchmark, by name; those without a value are left out."""
        runs = self.of_scenario(scenario)
        found = {
            name: Figures(metric, values)
            for name, metric in METRICS.items()
            if (values := tuple(one.figures[name] for one in runs if name in one.figures))
        }
        return found | {figure: some for (name, figure), some in self.repetitions.items() if name == scenario}
