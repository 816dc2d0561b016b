"""Explore: choose a run, do it, credit what it showed that no run had shown before; until the time is over.

`Explorer` is the loop of `squall explore` and of the comparison with random exploration. Runs are ordinary simulated
runs with a witness that collects behaviour. Work is counted in processor seconds of the runs, so that two explorations
compare at equal work on any machine. With one process the sequence of runs depends on the seed, on the corpus that was
there, and on the time that runs take (the bandit's cost); each run depends on its recipe alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from squall.harness.simulation.exploration.behaviour import Behaviour
from squall.harness.simulation.exploration.corpus import Corpus
from squall.harness.simulation.exploration.estimate import Accumulated
from squall.harness.simulation.exploration.scheduler import Choice, Kept, Scheduler
from squall.harness.simulation.run.recipe import Recipe
from squall.harness.simulation.run.run import SimOptions, SimResult, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.run.workers import end_at_once, pool_of_workers

MOST_NEW = 20.0
"""A run's reward is at most this: the first runs of all show hundreds of features."""


@dataclass(frozen=True)
class Explored:
    """One run: its result, what it showed, and how much of that was new."""

    recipe: Recipe
    result: SimResult
    new: int


@dataclass
class Progress:
    """What an exploration has done by now."""

    runs: int = 0
    processor_s: float = 0.0
    violations: list[Explored] = field(default_factory=list)
    curve: list[Accumulated] = field(default_factory=list)


def run_recipe(recipe: Recipe, mutants: tuple[str, ...]) -> tuple[SimResult, dict[str, int]]:
    """Run a recipe. Return its result, and the features with the instants at which they first showed."""
    scenario, said = find_scenario(recipe.scenario)
    options = SimOptions(
        mutants=mutants,
        said=said,
        kinds=recipe.kinds,
        continuations=recipe.continuations,
    )
    behaviour = Behaviour()
    result = simulate(scenario, recipe.seed, options, behaviour)
    return result, behaviour.first


class Explorer:
    """Explores scenarios. `replayed` recipes are run first, as they are."""

    def __init__(
        self,
        scenarios: Sequence[str],
        seed: int,
        corpus: Corpus,
        *,
        mutants: tuple[str, ...] = (),
        guided: bool = True,
        replayed: Sequence[Kept] = (),
    ) -> None:
        self.corpus = corpus
        self.progress = Progress()
        self.scheduler = Scheduler(scenarios, seed, guided=guided)
        self._mutants = mutants
        self._replayed = [kept.recipe for kept in replayed]

    def explore(self, goes_on: Callable[[Progress], bool], processes: int = 1) -> Generator[Explored, None, None]:
        """Run until `goes_on` returns False; yield each run as it ends."""
        if processes == 1:
            while goes_on(self.progress):
                choice = self._choose()
                yield self._ended(choice, *run_recipe(choice.recipe, self._mutants))
            return
        with _pool(processes) as pool:
            running: dict[Future[tuple[SimResult, dict[str, int]]], Choice] = {}
            while goes_on(self.progress):
                while len(running) < processes:
                    choice = self._choose()
                    running[pool.submit(run_recipe, choice.recipe, self._mutants)] = choice
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield self._ended(running.pop(future), *future.result())

    def _choose(self) -> Choice:
        if self._replayed:
            return Choice(self._replayed.pop(0), ())
        return self.scheduler.choose(self.corpus.kept, self.corpus.seen)

    def _ended(self, choice: Choice, result: SimResult, first: dict[str, int]) -> Explored:
        new = self.corpus.add(choice.recipe, first)
        self.scheduler.bandit.report(choice.arms, min(MOST_NEW, new), result.processor_s)
        if choice.parent is not None:
            self.corpus.kept[choice.parent].continued += 1
        progress = self.progress
        progress.runs += 1
        progress.processor_s += result.processor_s
        progress.curve.append(Accumulated(progress.runs, progress.processor_s, len(self.corpus.seen)))
        explored = Explored(choice.recipe, result, new)
        if result.verdict == "invalid":
            progress.violations.append(explored)
        return explored


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Keep a pool of workers; busy ones end with the exploration."""
    with pool_of_workers(processes) as pool:
        try:
            yield pool
        finally:
            end_at_once(pool)


def for_seconds(seconds: float) -> Callable[[Progress], bool]:
    """Go on for so many seconds of time as it passes."""
    until = time.monotonic() + seconds
    return lambda progress: time.monotonic() < until


def for_processor_seconds(seconds: float) -> Callable[[Progress], bool]:
    """Go on until the runs have taken so much processor time."""
    return lambda progress: progress.processor_s < seconds
