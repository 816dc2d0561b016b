"""Run many seeds on a Spark cluster: the same traces as here, seed by seed.

A seed whose interpreter ended, or whose run raised an exception that no run should raise, is unknown and says why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence

from squall.harness.distributed.calls import CallsOnSpark
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions, SimResult, simulate

LOST = "LOST"
"""What broke in a seed that has no result."""


def simulate_on_spark(
    calls: CallsOnSpark, scenario: Scenario, seeds: Sequence[int], options: SimOptions
) -> Generator[SimResult, None, None]:
    """Run the seeds; results come as they are ready. Closing the iterator skips the rest. Raises SparkTrouble."""
    with contextlib.closing(calls.run(_simulate_seed, (scenario, options), seeds)) as running:
        for number, ended in running:
            yield lost(seeds[number], ended.problem) if ended.problem else ended.value


def lost(seed: int, problem: str) -> SimResult:
    """Return the result of a seed that has none: unknown."""
    return SimResult(seed, "unknown", "", broken=(LOST,), problem=problem.strip())


def _simulate_seed(scenario: Scenario, options: SimOptions, seed: int) -> SimResult:
    return simulate(scenario, seed, options)
