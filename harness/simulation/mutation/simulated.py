"""Simulate one seed for the mutation score, with or without the observer; imported after the mutant is installed."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.mutation.seeds import SeedOutcome, SeedRun
from squall.harness.simulation.run.run import LIVENESS, REQUIRED, SimOptions, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.world.kernel import Kernel
from squall.harness.simulation.world.world import SimWorld

NOT_BY_OBSERVER = frozenset({LIVENESS, "CONFORMANCE", "CRASH", "HANG", "UNKNOWN", REQUIRED})


class Watching(Protocol):
    """Something that wants to know the kernel of the run."""

    kernel: Kernel


class _KernelWitness(Witness):
    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def watch(self, world: SimWorld) -> None:
        self._watching.kernel = world.kernel


@lru_cache(maxsize=64)
def _scenario(name: str) -> Scenario:
    return find_scenario(name)[0]


def simulate_seed(asked: SeedRun, watching: Watching) -> SeedOutcome:
    """Run one seed and judge it, with what the nodes left as evidence in any case."""
    options = SimOptions(observed=asked.observed, evidence=True)
    result = simulate(_scenario(asked.scenario), asked.seed, options, _KernelWitness(watching))
    broken = result.broken or (() if result.verdict == "valid" else ("UNKNOWN",))
    return SeedOutcome(
        scenario=asked.scenario,
        seed=asked.seed,
        verdict=result.verdict,
        broken=broken,
        digest=result.digest,
        seconds=result.processor_s,
        problem=result.problem[:500],
        by_observer=asked.observed and len(broken) == 1 and broken[0].isupper() and broken[0] not in NOT_BY_OBSERVER,
    )
