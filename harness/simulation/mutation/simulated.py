"""Simulate one seed for the mutation score, with or without the observer; imported after the mutant is installed."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.mutation.seeds import SeedOutcome, SeedRun
from squall.harness.simulation.observer.invariants import InvariantBroken, Observer
from squall.harness.simulation.run import run as runs
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.world.kernel import Kernel
from squall.harness.simulation.world.process import SimProcess
from squall.harness.simulation.world.world import SimWorld
from squall.workloads.core.operation import Event

NOT_BY_OBSERVER = frozenset({"LIVENESS", "CRASH", "HANG", "UNKNOWN", runs.REQUIRED})


class Watching(Protocol):
    """Something that wants to know the kernel of the run."""

    kernel: Kernel


class _KernelWitness(Witness):
    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def watch(self, world: SimWorld) -> None:
        self._watching.kernel = world.kernel


class SilentObserver(Observer):
    """Sees everything and reports nothing, as if there were none, as on hosts.

    It goes on after a breach for what the run needs of it: the declared losses of unclean elections. What it says after
    a breach may be wrong; a breach within its own state switches it off.
    """

    off = False

    def event(self, name: str, **fields: object) -> None:
        self._silently(lambda: super(SilentObserver, self).event(name, **fields))

    def look(self, process: SimProcess) -> None:
        self._silently(lambda: super(SilentObserver, self).look(process))

    def client_event(self, event: Event, number: int = 0, at: int = 0) -> None:
        self._silently(lambda: super(SilentObserver, self).client_event(event, number, at))

    def final(self) -> None:
        self._silently(super().final)

    def _silently(self, watch: object) -> None:
        if self.off:
            return
        try:
            watch()  # type: ignore[operator]
        except InvariantBroken:
            pass
        except Exception:
            self.off = True


@lru_cache(maxsize=64)
def _scenario(name: str) -> Scenario:
    return find_scenario(name)[0]


def simulate_seed(asked: SeedRun, watching: Watching) -> SeedOutcome:
    """Run one seed and judge it. The only place that knows how to switch the observer off."""
    observer = runs.Observer
    try:
        if not asked.observed:
            runs.Observer = SilentObserver  # type: ignore[misc]
        result = runs.simulate(_scenario(asked.scenario), asked.seed, witness=_KernelWitness(watching))
    finally:
        runs.Observer = observer  # type: ignore[misc]
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
