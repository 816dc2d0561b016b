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
from squall.harness.simulation.run.run import SimOptions, SimResult, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.run.workers import end_at_once, pool_of_workers


@dataclass(frozen=True)
class Explored:
    """One seed: its result, and how much of what it showed was new."""

    scenario: str
    result: SimResult
    new: int

    def __str__(self) -> str:
        return f"{self.scenario} {self.result.seed}"


@dataclass
class Progress:
    """What an exploration has done by now."""

    runs: int = 0
    processor_s: float = 0.0
    failed: list[Explored] = field(default_factory=list)
    """Runs that are not valid: invalid or unknown."""
    curve: list[Accumulated] = field(default_factory=list)


def run_seed(scenario: str, seed: int, mutants: tuple[str, ...] = ()) -> tuple[SimResult, set[str]]:
    """Run a seed. Return its result, and the features that it showed."""
    found, said = find_scenario(scenario)
    behaviour = Behaviour()
    result = simulate(found, seed, SimOptions(mutants=mutants, said=said), behaviour)
    return result, behaviour.features


class Explorer:
    """Explores scenarios, from a first seed on."""

    def __init__(self, scenarios: Sequence[str], seed: int, corpus: Corpus) -> None:
        self.corpus = corpus
        self.progress = Progress()
        self._turns = zip(itertools.cycle(scenarios), itertools.count(seed), strict=False)

    def explore(self, goes_on: Callable[[Progress], bool], processes: int = 1) -> Generator[Explored, None, None]:
        """Run until `goes_on` returns False; yield each run as it ends."""
        if processes == 1:
            while goes_on(self.progress):
                scenario, seed = next(self._turns)
                yield self._ended(scenario, *run_seed(scenario, seed))
            return
        with _pool(processes) as pool:
            running: dict[Future[tuple[SimResult, set[str]]], str] = {}
            while goes_on(self.progress):
                while len(running) < processes:
                    scenario, seed = next(self._turns)
                    running[pool.submit(run_seed, scenario, seed)] = scenario
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield self._ended(running.pop(future), *future.result())

    def _ended(self, scenario: str, result: SimResult, features: set[str]) -> Explored:
        progress = self.progress
        explored = Explored(scenario, result, self.corpus.add(scenario, result.seed, features))
        progress.runs += 1
        progress.processor_s += result.processor_s
        progress.curve.append(Accumulated(progress.runs, progress.processor_s, len(self.corpus.seen)))
        if result.verdict != "valid":
            progress.failed.append(explored)
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
