"""Simulated seconds per second and core, on the data-plane cluster under its swarm (bar: 20, stretch 100).

Everything that `squall simulate data-plane` does with one seed: three controllers, three brokers, 32 topic-partitions,
four producers, four consumers, real frames through real codecs, a hash over every delivery, the simulation observer,
the history and its checks. Each seed draws other faults and so has another cost; the median over several seeds counts.
The first seed only warms up: imports and codecs are made once per process, not once per seed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from squall.benchmarks.parts.measurement import Measurement
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.exploration.behaviour import Behaviour
from squall.harness.simulation.run.run import OPERATIONS, SimResult, simulate
from squall.harness.simulation.run.scenarios import find_scenario

SUITES = Path(__file__).resolve().parents[1] / "suites"
SEEDS = tuple(range(1, 10))


def run() -> list[Measurement]:
    """Measure. Raises UsageError without the suites of a checkout."""
    scenario, _ = find_scenario("data-plane", SUITES)
    simulate(scenario, SEEDS[0])
    return [*measured([simulate(scenario, seed) for seed in SEEDS]), new_behaviours(scenario, SEEDS)]


def measured(results: Sequence[SimResult]) -> list[Measurement]:
    """The figures of some seeds. A seed that is not valid has not done all the work, and measures nothing.

    The bar applies to processor time: a simulation never waits, so on an idle machine processor time and wall time are
    equal, and on a busy one the wall time also measures other processes.
    """
    wrong = [f"seed {one.seed}: {one.verdict} {one.problem}" for one in results if one.verdict != "valid"]
    assert not wrong, "\n".join(wrong)
    per_core = tuple(one.simulated_s / one.processor_s for one in results)
    per_wall = tuple(one.simulated_s / one.wall_s for one in results)
    events = tuple(one.counts["events"] / one.processor_s for one in results)
    frames = tuple(one.counts["frames"] / one.processor_s for one in results)
    seeds = tuple(60 / one.processor_s for one in results)
    operations = tuple(one.counts[OPERATIONS] / one.simulated_s for one in results)
    return [
        figure("simulated time per second of a core", per_core, "s/s", must=20, stretch=100),
        figure("the same by the clock on the wall", per_wall, "s/s"),
        figure("seeds per minute of a core", seeds, "seeds/min"),
        figure("events per second of a core", events, "events/s"),
        figure("frames per second of a core", frames, "frames/s"),
        figure("client operations per simulated second", operations, "operations/s", must=20),
    ]


def new_behaviours(scenario: Scenario, seeds: Sequence[int]) -> Measurement:
    """What the seeds show of the nodes that none before them has, per minute of a core.

    Every seed shows less that is new, so the figure holds for this number of first seeds only. They run once more for
    it, since recording behaviour takes time of its own.
    """
    known: set[str] = set()
    samples, worked = [], 0.0
    for seed in seeds:
        behaviour = Behaviour()
        spent = simulate(scenario, seed, witness=behaviour).processor_s
        samples.append(60 * len(behaviour.features - known) / spent)
        known |= behaviour.features
        worked += spent
    name = f"new behaviours per minute of a core, of the first {len(seeds)} seeds"
    return Measurement(name, 60 * len(known) / worked, "behaviours/min", samples=tuple(samples))


def figure(
    name: str, samples: tuple[float, ...], unit: str, *, must: float | None = None, stretch: float | None = None
) -> Measurement:
    return Measurement(name, statistics.median(samples), unit, must=must, stretch=stretch, samples=samples)


def smallest(scenario: Scenario, load_s: float) -> Scenario:
    """The same scenario with a load of so many seconds, for a quick test."""
    return scenario.model_copy(update={"time": scenario.time.model_copy(update={"load": load_s})})
