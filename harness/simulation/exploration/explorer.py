"""Explore: run seeds, and count what each showed that no run had shown before; until the time is over.

`Explorer` is the loop of `squall explore`. It takes the scenarios in turn, each with the next seed. Runs are ordinary
simulated runs with a witness that collects behaviour.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from squall.harness.simulation.exploration.behaviour import Behaviour
from squall.harness.simulation.exploration.corpus import Corpus
from squall.harness.simulation.exploration.estimate import Accumulated
from squall.harness.simulation.run.recipe import Recipe
from squall.harness.simulation.run.run import SimOptions, SimResult, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.run.workers import end_at_once, pool_of_workers


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


def run_recipe(recipe: Recipe, mutants: tuple[str, ...] = ()) -> tuple[SimResult, dict[str, int]]:
    """Run a recipe. Return its result, and the features with the instants at which they first showed."""
    scenario, said = find_scenario(recipe.scenario)
    options = SimOptions(mutants=mutants, said=said, kinds=recipe.kinds, continuations=recipe.continuations)
    behaviour = Behaviour()
    result = simulate(scenario, recipe.seed, options, behaviour)
    return result, behaviour.first


class Explorer:
    """Explores scenarios, from a first seed on."""

    def __init__(self, scenarios: Sequence[str], seed: int, corpus: Corpus) -> None:
        self.corpus = corpus
        self.progress = Progress()
        self._recipes = map(Recipe, itertools.cycle(scenarios), itertools.count(seed))

    def explore(self, goes_on: Callable[[Progress], bool], processes: int = 1) -> Generator[Explored, None, None]:
        """Run until `goes_on` returns False; yield each run as it ends."""
        if processes == 1:
            while goes_on(self.progress):
                recipe = next(self._recipes)
                yield self._ended(recipe, *run_recipe(recipe))
            return
        with _pool(processes) as pool:
            running: dict[Future[tuple[SimResult, dict[str, int]]], Recipe] = {}
            while goes_on(self.progress):
                while len(running) < processes:
                    recipe = next(self._recipes)
                    running[pool.submit(run_recipe, recipe)] = recipe
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield self._ended(running.pop(future), *future.result())

    def _ended(self, recipe: Recipe, result: SimResult, first: dict[str, int]) -> Explored:
        progress, explored = self.progress, Explored(recipe, result, self.corpus.add(recipe, first))
        progress.runs += 1
        progress.processor_s += result.processor_s
        progress.curve.append(Accumulated(progress.runs, progress.processor_s, len(self.corpus.seen)))
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
