"""Run one seed up to an instant and continue it with other seeds, many at once.

A continuation repeats the run of its parent, bit for bit, until the instant; there every stream of randomness is seeded
again, and so are the faults that a swarm would still begin (`run/recipe.py`). Faults that a scenario states stay as
they are. The continuation fails *in the same way* if the same invariant or anomaly breaks as in the parent.

A parent that ended at a breach bounds its continuations: what breaks much later is another event, and the run up to
there costs time. So a continuation is cut off some seconds after its parent's breach, and has not failed then. If only
the checks after the run saw the parent's failure, every continuation runs to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.collector import without_collector
from squall.harness.simulation.run.parallel import SEEDS_PER_WORKER
from squall.harness.simulation.run.recipe import Recipe
from squall.harness.simulation.run.run import SimOptions, Simulation, judged, what_broke
from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.run.workers import end_at_once, pool_of_workers
from squall.harness.simulation.shrink.shrink import FailureSignature, Trial
from squall.harness.simulation.why.search import Request
from squall.harness.simulation.world.world import SimWorld

GRACE_US = 5_000_000
GRACE_SHARE = 4
"""A continuation may fail later than its parent by five seconds, or by a quarter of the parent's load."""


class NothingToExplain(Exception):
    """The seed does not fail; the message says how it ended."""


class _BeyondHorizon(BaseException):
    """The run has reached its horizon. Not an Exception: that would be taken for a crash of a node."""


@dataclass(frozen=True)
class Parent:
    """A failing run. Times are virtual microseconds; `horizon` is None if continuations run to their end.

    `same` says which failures of continuations count.
    """

    scenario: Scenario
    recipe: Recipe
    options: SimOptions
    broken: tuple[str, ...]
    same: FailureSignature
    problem: str
    load_started: int
    ended: int
    horizon: int | None

    def continued(self, at: int, number: int) -> Recipe:
        """Return the recipe of a continuation, `number` counted from 0.

        The parent's own seed is left out: it would draw the parent's faults again.
        """
        seed = number + 1
        return self.recipe.continued(at, seed + (seed >= self.recipe.seed))

    def shown(self, at: int) -> float:
        """Return an instant in seconds since the load began."""
        return (at - self.load_started) / 1e6


class _UntilHorizon(Witness):
    """Ends the run at the horizon."""

    def __init__(self, horizon: int | None) -> None:
        self._horizon = horizon

    def watch(self, world: SimWorld) -> None:
        if self._horizon is not None:
            world.kernel.at(self._horizon, self._reached)

    def _reached(self) -> None:
        raise _BeyondHorizon


def find_parent(scenario: Scenario, recipe: Recipe, options: SimOptions, *, any_failure: bool = False) -> Parent:
    """Run the seed once. With `any_failure`, all failures of continuations count. Raises NothingToExplain."""
    options = replace(options, kinds=recipe.kinds, continuations=recipe.continuations)
    with without_collector(), TemporaryDirectory(prefix="squall-why-") as directory:
        simulation = Simulation(scenario, recipe.seed, options, Path(directory))
        broken, problem = what_broke(simulation)
        ended, started = simulation.ended_at // 1000, (simulation.load_started or 0) // 1000
        breach_ended_it = bool(broken)
        if not broken:
            verdict, broken, problem = judged(simulation)
            if verdict != "invalid":
                raise NothingToExplain(f"seed {recipe.seed} is {verdict}: there is no failure to explain")
    grace = max(GRACE_US, (ended - started) // GRACE_SHARE)
    horizon = ended + grace if breach_ended_it else None
    same = FailureSignature(() if any_failure else broken)
    return Parent(scenario, recipe, options, broken, same, problem, started, ended, horizon)


def fails_alike(parent: Parent, recipe: Recipe) -> bool:
    """Run one continuation. Return whether it fails as its parent does, up to the horizon."""
    options = replace(parent.options, continuations=recipe.continuations)
    with without_collector(), TemporaryDirectory(prefix="squall-why-") as directory:
        simulation = Simulation(parent.scenario, recipe.seed, options, Path(directory), _UntilHorizon(parent.horizon))
        try:
            broken, problem = what_broke(simulation)
        except _BeyondHorizon:
            return False
        if not broken:
            verdict, broken, problem = judged(simulation)
            broken = broken if verdict == "invalid" else ()
    return parent.same.of(Trial(broken, problem, simulation.ended_s()))


class Continuations:
    """Runs continuations of one parent, several in parallel. Use as a context."""

    def __init__(self, parent: Parent, processes: int) -> None:
        self.parent = parent
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._handed_out = 0

    def __enter__(self) -> Continuations:
        if self._processes > 1:
            self._pool = pool_of_workers(self._processes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            if kind is not None:
                self.abandon()
            self._pool.shutdown(cancel_futures=True)

    def abandon(self) -> None:
        """End the continuations that are under way: their outcomes are not needed."""
        if self._pool is not None:
            end_at_once(self._pool)

    def outcomes(self, requests: Sequence[Request]) -> Iterator[tuple[int, bool]]:
        """Yield the place of each request and its outcome, as they come in."""
        recipes = [self.parent.continued(request.at, request.number) for request in requests]
        self._renew_workers(len(recipes))
        if self._pool is None:
            yield from ((place, fails_alike(self.parent, recipe)) for place, recipe in enumerate(recipes))
            return
        places: dict[Future[bool], int] = {
            self._pool.submit(fails_alike, self.parent, recipe): place for place, recipe in enumerate(recipes)
        }
        pending = set(places)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            yield from ((places[future], future.result()) for future in done)

    def _renew_workers(self, more: int) -> None:
        """Replace workers that have run many continuations: Python never returns some of their memory."""
        if self._pool is not None and self._handed_out > self._processes * SEEDS_PER_WORKER:
            self._pool.shutdown()
            self._pool, self._handed_out = pool_of_workers(self._processes), 0
        self._handed_out += more
