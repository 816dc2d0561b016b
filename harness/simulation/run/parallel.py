"""Run many seeds in several processes, with results as they come and bounded memory.

Worker processes are replaced after `SEEDS_PER_WORKER` seeds each, so that memory that Python never returns cannot add
up over thousands of seeds. Only as many seeds are handed out as keep the workers busy: a caller that stops after a
failure waits for a few seeds and not for all.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions, SimResult, simulate
from squall.harness.simulation.run.workers import end_at_once, pool_of_workers

SEEDS_PER_WORKER = 100
HANDED_OUT_PER_WORKER = 2
AS_IT_IS = SimOptions()
"""The scenario without additions."""


def simulate_many(
    scenario: Scenario, seeds: Sequence[int], options: SimOptions = AS_IT_IS, *, processes: int = 1
) -> Generator[SimResult, None, None]:
    """Run many seeds; results come as they are ready. Closing the iterator skips the remaining seeds."""
    if processes <= 1 or len(seeds) == 1:
        yield from (simulate(scenario, seed, options) for seed in seeds)
        return
    size = processes * SEEDS_PER_WORKER
    for begin in range(0, len(seeds), size):
        yield from _generation(scenario, seeds[begin : begin + size], options, processes)


def _generation(scenario: Scenario, seeds: Sequence[int], options: SimOptions, processes: int) -> Iterator[SimResult]:
    """Run as many seeds as one set of workers does.

    Spawned workers start with a fresh interpreter, as a single seed does.
    """
    workers = min(processes, len(seeds))
    pending: set[Future[SimResult]] = set()
    with pool_of_workers(workers) as pool:
        try:
            for seed in seeds:
                pending.add(pool.submit(simulate, scenario, seed, options))
                if len(pending) >= workers * HANDED_OUT_PER_WORKER:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    yield from _by_seed(done)
            yield from _by_seed(wait(pending).done)
        except BaseException:  # interrupted, closed, or a seed that failed
            end_at_once(pool)
            raise


def _by_seed(done: set[Future[SimResult]]) -> list[SimResult]:
    return sorted((future.result() for future in done), key=lambda result: result.seed)
