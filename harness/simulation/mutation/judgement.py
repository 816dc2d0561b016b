"""Judge one mutant in simulation: seeds in turn until one is not valid, or the budget of processor time is used up.

Two judgements come of it. `simulation` is the simulation as a whole, with its observer. `history` is the history's
checks alone, as on hosts, where there is no observer. A seed that the observer did not end is the same run for both,
since the observer changes nothing; so only seeds that it did end are run again without it.

Seeds whose healthy twin is not valid, or never executes the mutated statement, are skipped and cost no budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from squall.harness.simulation.mutation.baseline import Baselines
from squall.harness.simulation.mutation.generation.mutation import Mutation
from squall.harness.simulation.mutation.process import WorkerProcess
from squall.harness.simulation.mutation.reach import reaches, statement_line
from squall.harness.simulation.mutation.seeds import Loaded, SeedOutcome, SeedRun

SIMULATION, HISTORY, UNIT = "simulation", "history", "unit"
KILLED, SURVIVED, NOT_REACHED = "killed", "survived", "not reached"
LIMIT_FACTOR, LIMIT_EXTRA_S = 6, 10
"""A seed that takes longer than its healthy twin by this hangs."""


@dataclass(frozen=True)
class Judgement:
    """What one way of judging found about one mutant.

    `tried` counts seeds (or tests) that were run, `differed` those whose trace was not that of the healthy twin.
    `seconds` is processor time until the kill, or in all.
    """

    mode: str
    outcome: str
    by: tuple[str, ...] = ()
    scenario: str = ""
    seed: int = 0
    seconds: float = 0.0
    tried: int = 0
    skipped: int = 0
    differed: int = 0
    problem: str = ""


@dataclass
class _Course:
    """One way of judging, as far as it has come."""

    mode: str
    budget_s: float
    tried: int = 0
    differed: int = 0
    seconds: float = 0.0
    killer: SeedOutcome | None = None
    skipped: int = field(default=0)

    @property
    def open(self) -> bool:
        return self.killer is None and self.seconds < self.budget_s

    def note(self, outcome: SeedOutcome, healthy: SeedOutcome) -> None:
        self.tried += 1
        self.seconds += outcome.seconds
        self.differed += outcome.digest != healthy.digest
        if not outcome.valid:
            self.killer = outcome

    def judgement(self) -> Judgement:
        killer = self.killer
        outcome = KILLED if killer else SURVIVED if self.tried else NOT_REACHED
        found = Judgement(
            self.mode,
            outcome,
            seconds=round(self.seconds, 2),
            tried=self.tried,
            skipped=self.skipped,
            differed=self.differed,
        )
        if killer is None:
            return found
        by = {"by": killer.broken, "scenario": killer.scenario, "seed": killer.seed, "problem": killer.problem}
        return Judgement(**{**vars(found), **by})


@dataclass(frozen=True)
class Bounds:
    """How long one mutant is tried in one mode, in processor seconds, and how many seeds are looked through."""

    budget_s: float
    seeds: int


def judge_in_simulation(
    mutation: Mutation, text: str, baselines: Baselines, bounds: Bounds, modes: tuple[str, ...]
) -> list[Judgement]:
    """Judge one mutant by simulation, with and without observer as `modes` ask."""
    courses = {mode: _Course(mode, bounds.budget_s) for mode in (SIMULATION, HISTORY)}
    if HISTORY not in modes:
        courses[HISTORY].budget_s = -1.0
    line = statement_line(mutation, text)
    worker: WorkerProcess | None = None
    try:
        for index in range(bounds.seeds):
            if not any(course.open for course in courses.values()):
                break
            healthy = baselines.at(index)
            if not healthy.valid or not reaches(healthy.reached or {}, mutation, line):
                for course in courses.values():
                    course.skipped += 1
                continue
            worker = worker or WorkerProcess(Loaded(mutation.module, mutation.apply(text)))
            _try_seed(worker, healthy, courses[SIMULATION], courses[HISTORY])
    finally:
        if worker is not None:
            worker.close()
    return [courses[mode].judgement() for mode in (SIMULATION, HISTORY) if mode in modes]


def _try_seed(worker: WorkerProcess, healthy: SeedOutcome, simulation: _Course, history: _Course) -> None:
    """Run a seed with the observer if that course goes on, and without it if the other cannot use the same run."""
    limit_s = healthy.seconds * LIMIT_FACTOR + LIMIT_EXTRA_S
    if simulation.open:
        outcome = worker.run(SeedRun(healthy.scenario, healthy.seed, limit_s))
        simulation.note(outcome, healthy)
        if not outcome.by_observer:
            if history.open:
                history.note(outcome, healthy)
            return
    if history.open:
        history.note(worker.run(SeedRun(healthy.scenario, healthy.seed, limit_s, observed=False)), healthy)
