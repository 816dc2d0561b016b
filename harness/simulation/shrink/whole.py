"""Shrink one seed from its recording to the smallest schedule, without a terminal: a call that any process can do."""

from __future__ import annotations

from dataclasses import dataclass

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions
from squall.harness.simulation.shrink.shrink import (
    Budget,
    FailureSignature,
    NothingToShrink,
    Shrinker,
    Shrunk,
    Trials,
    record,
)

SECONDS = 300.0


@dataclass(frozen=True)
class ShrinkOutcome:
    """The smallest schedule that was found, and after how many runs; or why there is none."""

    seed: int
    shrunk: Shrunk | None = None
    runs: int = 0
    problem: str = ""


def shrink_seed(scenario: Scenario, options: SimOptions, seconds: float, processes: int, seed: int) -> ShrinkOutcome:
    """Record a failing seed, and shrink it for at most so many seconds."""
    budget = Budget(seconds)
    try:
        listed, trial = record(scenario, seed, options)
        with Trials(budget, processes, swarming=options.swarm or bool(scenario.swarm)) as trials:
            shrunk = Shrinker(trials, FailureSignature(trial.broken), lambda best: None).shrink(listed, seed, trial)
    except NothingToShrink as nothing:
        return ShrinkOutcome(seed, runs=budget.used, problem=str(nothing))
    return ShrinkOutcome(seed, shrunk, budget.used)
