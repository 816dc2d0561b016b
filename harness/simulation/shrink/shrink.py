"""Shrink a failing seed to the shortest schedule that fails in the same way (docs/simulation.md, "Shrinking").

    run the seed, recording → schedule → ddmin over polls, sends, faults → smaller workload and cluster
    → rounder and shorter times → ddmin again, until nothing gets simpler or the budget is spent

"In the same way" is by name: the same invariant or anomaly breaks. Each candidate is a separate deterministic simulated
run. Candidates therefore run in parallel processes, and which of them is taken (the first, in the order of simplicity)
does not depend on the number of processes.

A candidate is a different run from its origin: with one send less, all later messages take other times. A bug that
needs luck may therefore stay hidden. Once runs are short, each candidate gets a few seeds; the seed that made it fail
becomes the schedule's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions, Simulation, judged, simulate, what_broke
from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.run.workers import pool_of_workers
from squall.harness.simulation.shrink import simplify
from squall.harness.simulation.shrink.ddmin import ddmin
from squall.harness.simulation.shrink.schedule_file import reread
from squall.harness.simulation.shrink.schedule_recorder import (
    Recording,
    event_count,
    explicit_scenario,
    scheduled_faults,
    swarm_faults,
)
from squall.harness.simulation.swarm.budget import FaultBudget
from squall.harness.simulation.world.world import SimWorld
from squall.nemesis.runner import NemesisEvent
from squall.nemesis.schedule import build_schedule

BUDGETED = {
    "kill": "crash", "leader-kill-lagging": "crash", "power-loss": "power-loss", "wipe-disk": "wipe-disk",
    "disk-error": "disk-error",
}  # fmt: skip
"""Faults of suites by their names in swarms, without the role of the host."""

MORE_SEEDS = 3
FEW_EVENTS = 40
MOST_ROUNDS = 4


class NothingToShrink(Exception):
    """The seed does not fail, or fails only as a seed and not as a schedule; the message says which."""


@dataclass(frozen=True)
class Trial:
    """The outcome of one candidate."""

    broken: tuple[str, ...]
    problem: str
    ended_s: float


@dataclass(frozen=True)
class FailureSignature:
    """Names of breaches that count as the same failure. If empty, every failure counts."""

    names: tuple[str, ...] = ()

    def of(self, trial: Trial) -> bool:
        return bool(trial.broken) and (not self.names or bool(set(self.names) & set(trial.broken)))


def try_out(scenario: Scenario, seed: int, within_budget: bool = False) -> Trial:
    """Run one candidate.

    A candidate that cannot run at all (for example, a fault without the fault that it refers to) has not failed. With
    `within_budget`, a candidate with more simultaneous faults than a system must survive has not failed either (the
    budget of swarms, `budget.py`).
    """
    try:
        spending = Spending(scenario, seed) if within_budget else None
        result = simulate(scenario, seed, witness=spending)
    except ValueError:
        return Trial((), "", -1.0)
    failed = result.verdict == "invalid" and not (spending is not None and spending.exceeded)
    return Trial(result.broken if failed else (), result.problem, result.ended_s)


class Spending(Witness):
    """Counts faults against the budget of a swarm."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.exceeded = False
        schedule = build_schedule(scenario.nemesis, scenario.time.load, seed, quiet_s=scenario.time.quiet)
        self._lengths = {fault.id: fault.for_s for fault in schedule.faults}
        self._topics = scenario.cluster.topics
        self._budget: FaultBudget

    def watch(self, world: SimWorld) -> None:
        self._budget = FaultBudget(world, self._topics)
        self._roles = {place.name: "broker" if place.is_broker else "controller" for place in world.places}

    def fault(self, event: NemesisEvent) -> None:
        kind = BUDGETED.get(event.kind)
        if event.phase == "started" and kind is not None:
            for host in event.targets:
                named = kind if kind == "wipe-disk" else f"{kind}-{self._roles[host]}"
                self.exceeded |= not self._budget.allows(named, host, self._lengths[event.id])
        if event.phase == "started" and event.kind == "alter-config":
            self.exceeded |= not self._budget.allows_edit(self._lengths[event.id])


@dataclass
class Budget:
    """How many seconds and how many runs shrinking may take."""

    seconds: float = 300.0
    runs: int = 100_000
    used: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> bool:
        return self.used >= self.runs or time.monotonic() - self.began >= self.seconds


class Trials:
    """Runs candidates, several in parallel, and remembers their outcomes. Use as a context."""

    def __init__(self, budget: Budget, processes: int, *, swarming: bool = False) -> None:
        """With `swarming`, candidates have to keep within the budget of swarms."""
        self.budget = budget
        self.processes = processes
        self.swarming = swarming
        self._known: dict[tuple[str, int], Trial] = {}
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Trials:
        if self.processes > 1:
            self._pool = pool_of_workers(self.processes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def first(
        self, candidates: Iterable[tuple[Scenario, int]], wanted: Callable[[Trial], bool]
    ) -> tuple[int, Trial] | None:
        """Return the first candidate, in their order, whose trial is wanted, or None.

        Returns None also if the budget is spent.
        """
        todo = list(enumerate(candidates))
        running: list[tuple[int, tuple[str, int], Trial | Future[Trial]]] = []
        while todo or running:
            while todo and len(running) < max(1, self.processes) and not self.budget.spent:
                index, (scenario, seed) = todo.pop(0)
                key = (scenario.model_dump_json(), seed)
                running.append((index, key, self._known[key] if key in self._known else self._begin(scenario, seed)))
            if not running:
                return None
            index, key, trial = running.pop(0)
            done = trial.result() if isinstance(trial, Future) else trial
            self._known[key] = done
            if wanted(done):
                for _, _, other in running:
                    if isinstance(other, Future):
                        other.cancel()
                return index, done
        return None

    def _begin(self, scenario: Scenario, seed: int) -> Trial | Future[Trial]:
        self.budget.used += 1
        if self._pool is None:
            return try_out(scenario, seed, self.swarming)
        return self._pool.submit(try_out, scenario, seed, self.swarming)


@dataclass
class Shrunk:
    """The progress of shrinking: a schedule, the seed with which it fails, and how it fails."""

    scenario: Scenario
    seed: int
    trial: Trial
    events_before: int

    @property
    def events(self) -> int:
        return event_count(self.scenario)

    def pinned(self) -> Scenario:
        """Return the schedule with its seed."""
        return self.scenario.model_copy(update={"seeds": (self.seed,)})


def record(scenario: Scenario, seed: int, options: SimOptions) -> tuple[Scenario, Trial]:
    """Run a seed and record what it drew. Raises NothingToShrink if it does not fail."""
    recording = Recording()
    with TemporaryDirectory(prefix="squall-shrink-") as directory:
        simulation = Simulation(scenario, seed, options, Path(directory), recording)
        broken, problem = what_broke(simulation)
        ended_s = simulation.ended_s()
        if not broken:
            verdict, broken, problem = judged(simulation)
            if verdict != "invalid":
                raise NothingToShrink(f"seed {seed} is {verdict}: there is no failure to shrink")
    if simulation.load_started is None:
        raise NothingToShrink(f"seed {seed} fails before its load begins, so that no schedule can say less: {problem}")
    if simulation.swarming:
        faults = swarm_faults(simulation.begun)
    else:
        faults = scheduled_faults(simulation.schedule, recording, simulation.load_started)
    listed = explicit_scenario(simulation.scenario, seed, options.mutants, recording, faults, simulation.load_started)
    return listed, Trial(broken, problem, ended_s)


class Shrinker:
    """Makes a failing schedule smaller. Calls `tell` with every smaller schedule that it finds.

    Interrupted once there is a smaller one, it returns that, and `interrupted` is true.
    """

    def __init__(self, trials: Trials, same: FailureSignature, tell: Callable[[Shrunk], None]) -> None:
        self.trials = trials
        self.same = same
        self.tell = tell
        self.interrupted = False
        self.best: Shrunk

    def shrink(self, listed: Scenario, seed: int, trial: Trial) -> Shrunk:
        """Return the smallest schedule found within the budget.

        Raises NothingToShrink if the schedule does not fail like its seed.
        """
        self.first_seed = seed
        self.best = Shrunk(listed, seed, trial, event_count(listed))
        ended = reread(simplify.ending(listed, trial.ended_s))
        if not self._take([ended], MORE_SEEDS * 2):
            raise NothingToShrink(
                f"seed {seed} fails with {' and '.join(trial.broken)}, but written down as a schedule it does not, nor "
                f"with {MORE_SEEDS * 2} other seeds; shrink another failing seed"
            )
        try:
            self._until_nothing_helps()
        except KeyboardInterrupt:
            self.interrupted = True
        return self.best

    def _until_nothing_helps(self) -> None:
        self._take(simplify.without_polls(self.best.scenario))
        self._take(simplify.around_faults(self.best.scenario))
        self._fewest_events()
        for _ in range(MOST_ROUNDS):
            before = self.best.scenario
            self._simpler_surroundings()
            self._simpler_times()
            self._fewest_events()
            if self.best.scenario == before or self.trials.budget.spent:
                break

    # -- what is tried ------------------------------------------------------------------------------------------

    def _fewest_events(self) -> None:
        """Reduce to a 1-minimal list of operations and faults, if the budget allows."""
        scenario = self.best.scenario
        ddmin(simplify.operations_of(scenario), self._failing(lambda left: self._with_operations(left)))
        ddmin(self.best.scenario.nemesis, self._failing(lambda left: self._with_faults(left)))

    def _with_operations(self, left: list[Any]) -> Scenario:
        return simplify.with_events(self.best.scenario, left, self.best.scenario.nemesis)

    def _with_faults(self, left: list[Any]) -> Scenario:
        return simplify.with_events(self.best.scenario, simplify.operations_of(self.best.scenario), left)

    def _simpler_surroundings(self) -> None:
        for simpler in (simplify.fewer_clients, simplify.fewer_topic_partitions, simplify.fewer_nodes):
            while self._take(simpler(self.best.scenario)):
                pass
        config = list(self.best.scenario.cluster.config.items())
        ddmin(config, self._failing(lambda left: simplify.with_cluster(self.best.scenario, config=dict(left))))
        places = list(self.best.scenario.cluster.buggify)
        ddmin(places, self._failing(lambda left: simplify.with_cluster(self.best.scenario, buggify=tuple(left))))

    def _simpler_times(self) -> None:
        self._take([simplify.ending(self.best.scenario, self.best.trial.ended_s)])
        for simpler in (simplify.sooner, simplify.weaker, simplify.rounder):
            while self._take(simpler(self.best.scenario)):
                pass
        self._take([simplify.ending(self.best.scenario, self.best.trial.ended_s)])

    # -- how it is tried ----------------------------------------------------------------------------------------

    def _failing(self, made: Callable[[list[Any]], Scenario]) -> Callable[[list[list[Any]]], int | None]:
        """Return a predicate for ddmin: the first of several lists that fails. That list becomes the best so far."""

        def first_failing(lists: list[list[Any]]) -> int | None:
            return self._taken([made(left) for left in lists])

        return first_failing

    def _take(self, candidates: Iterable[Scenario], more_seeds: int | None = None) -> bool:
        """Return whether one of these fails in the same way; the first that does is the best so far."""
        return self._taken(list(candidates), more_seeds) is not None

    def _taken(self, candidates: Sequence[Scenario], more_seeds: int | None = None) -> int | None:
        simpler = [(index, reread(one)) for index, one in enumerate(candidates) if one != self.best.scenario]
        tries = [(scenario, seed) for seed in self._seeds(more_seeds) for _, scenario in simpler]
        found = self.trials.first(tries, self.same.of)
        if found is None:
            return None
        place, trial = found
        scenario, seed = tries[place]
        self.best = Shrunk(scenario, seed, trial, self.best.events_before)
        self.tell(self.best)
        return simpler[place % len(simpler)][0]

    def _seeds(self, more: int | None) -> list[int]:
        """Return the seed that failed, followed by further seeds once a run is short."""
        if more is None:
            more = MORE_SEEDS if self.best.events <= FEW_EVENTS else 0
        return list(dict.fromkeys([self.best.seed, *(100 * self.first_seed + n for n in range(1, more + 1))]))


def cores() -> int:
    return os.cpu_count() or 1
