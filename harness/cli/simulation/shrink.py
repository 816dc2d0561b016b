"""`squall shrink`: write the shortest schedule that fails in the same way as a seed, and its trace in words.

`squall simulate --shrink` does the same after a campaign, with the first failing seed of each kind. A cluster shrinks
each on one executor, all of them at once, and brings the schedules back; files and replays are made here.

Exit status: 0 if the schedule was written and failed again in every replay, 1 if it was written and did not, 2 if there
was nothing to shrink, 254 for bad usage.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from squall.harness.distributed.calls import CallsOnSpark
from squall.harness.errors import UsageError
from squall.harness.lake.adding import RowsAdder
from squall.harness.lake.rows import Row, short
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.explain.spacetime import save_picture
from squall.harness.simulation.explain.traced import trace_of
from squall.harness.simulation.run.run import SimOptions, SimResult
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.shrink.schedule_file import save
from squall.harness.simulation.shrink.shrink import (
    Budget,
    FailureSignature,
    NothingToShrink,
    Shrinker,
    Shrunk,
    Trial,
    Trials,
    record,
)
from squall.harness.simulation.shrink.simplify import operations_of
from squall.harness.simulation.shrink.whole import SECONDS, ShrinkOutcome, shrink_seed
from squall.harness.terminal.known_mutants import refuse_unknown_mutants
from squall.harness.terminal.paths import free_name, shown_path
from squall.results.checkers.common.text import several
from squall.results.checkers.engine.cluster import SparkTrouble
from squall.workloads.log import LogOptions

REPLAY_HASH_SEEDS = ("0", "1", "random")
NOTHING_EXIT_STATUS = 2


@dataclass(frozen=True)
class ShrinkOptions:
    """The arguments of `squall shrink`."""

    seed: int
    suite: str
    mutants: tuple[str, ...] = ()
    swarm: bool = False
    out: Path | None = None
    seconds: float = 300.0
    runs: int = 100_000
    processes: int = 1
    any_failure: bool = False
    lake: Path | None = None
    """Where a row about it is added; None for nowhere."""


def shrink(asked: ShrinkOptions, console: Console) -> int:
    """Shrink one seed and write the result. Return the exit status.

    Interrupted, it writes the smallest schedule found so far and raises KeyboardInterrupt.
    """
    refuse_unknown_mutants(asked.mutants)
    scenario, said = find_scenario(asked.suite, swarm=asked.swarm)
    refuse_what_cannot_be_listed(scenario)
    began = time.monotonic()
    rows = RowsAdder(asked.lake, console, "shrink")
    try:
        listed, trial = record(scenario, asked.seed, SimOptions(swarm=asked.swarm, mutants=asked.mutants))
        console.print(f"{'fails':<11}seed {asked.seed}: {trial.problem.splitlines()[0]}", markup=False)
        console.print(f"{'recorded':<11}{_events(listed)} until {trial.ended_s:.3f} s of load", markup=False)
        shrunk, runs, interrupted = _shrink(asked, listed, trial, asked.swarm or bool(scenario.swarm), console)
    except NothingToShrink as nothing:
        console.print(f"{'nothing':<11}{nothing}", markup=False)
        return NOTHING_EXIT_STATUS
    path = asked.out or free_name(Path(f"{listed.scenario}.yaml"))
    rows.add(
        lambda: {"campaigns": [shrink_row(ShrinkOutcome(asked.seed, shrunk, runs), scenario.scenario, asked.mutants)]}
    )
    origin = f"squall shrink {asked.seed} --suite {said}" + "".join(f" --mutant {one}" for one in asked.mutants)
    origin += " --swarm" * asked.swarm
    if interrupted:
        save(shrunk.pinned(), path, _comments(origin, shrunk))
        _print_shrunk(shrunk.scenario, runs, time.monotonic() - began, console)
        console.print(
            f"interrupted: {shown_path(path)} is the smallest found by then, and was not replayed", markup=False
        )
        raise KeyboardInterrupt
    return write_schedule(shrunk, path, origin, runs, console, seconds=time.monotonic() - began)


def write_schedule(
    shrunk: Shrunk, path: Path, origin: str, runs: int, console: Console, *, seconds: float | None = None
) -> int:
    """Write a schedule with its account and its picture, and replay it. Return 0 if every replay fails, else 1."""
    saved = save(shrunk.pinned(), path, _comments(origin, shrunk))
    _print_shrunk(saved, runs, seconds, console)
    story = save_picture(trace_of(saved, shrunk.seed), path)
    failed = sum(_replay(path, hash_seed) == 1 for hash_seed in REPLAY_HASH_SEEDS)
    console.print(f"{'replayed':<11}{failed} of {len(REPLAY_HASH_SEEDS)} replays fail", markup=False)
    console.print()
    console.print(story, markup=False, highlight=False)
    for label, name in (
        ("schedule", path),
        ("account", path.with_suffix(".txt")),
        ("picture", path.with_suffix(".svg")),
    ):
        console.print(f"{label:<11}{shown_path(name)}", markup=False)
    console.print(f"{'repeat':<11}squall simulate {shown_path(path)}", markup=False)
    return 0 if failed == len(REPLAY_HASH_SEEDS) else 1


def _print_shrunk(scenario: Scenario, runs: int, seconds: float | None, console: Console) -> None:
    took = "" if seconds is None else f", {seconds:.0f} s"
    console.print(f"{'shrunk':<11}{_events(scenario)}, {several(runs, 'run')}{took}", markup=False)


def shrink_row(outcome: ShrinkOutcome, scenario: str, mutants: tuple[str, ...]) -> Row:
    """Return the row of the lake about one shrunk seed: how many runs it took, and what is left."""
    shrunk = outcome.shrunk
    found = outcome.problem if shrunk is None else f"{_events(shrunk.scenario)}: {shrunk.trial.problem}"
    return {
        "scenario": scenario,
        "first_seed": outcome.seed,
        "seeds": outcome.runs,
        "mutants": list(mutants),
        "broken": [] if shrunk is None else list(shrunk.trial.broken),
        "result": short(next(iter(found.strip().splitlines()), "")),
        "ended": shrunk is not None,
    }


def refuse_what_cannot_be_listed(scenario: Scenario) -> None:
    """Raise UsageError for a workload whose operations a schedule cannot list."""
    if not isinstance(scenario.workload, LogOptions):
        raise UsageError(
            f"scenario {scenario.scenario}: a schedule can list the operations of the workload log only,"
            f" and this is {scenario.workload.name}",
            remedy=f"look at the seed itself: squall simulate {scenario.scenario} --seed N --picture FILE",
        )


def _shrink(
    asked: ShrinkOptions, listed: Scenario, trial: Trial, swarming: bool, console: Console
) -> tuple[Shrunk, int, bool]:
    """What is left, how many runs that took, and whether it was interrupted."""
    budget = Budget(asked.seconds, asked.runs)
    same = FailureSignature(() if asked.any_failure else trial.broken)
    with (
        Progress(
            TextColumn("shrink    "), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
            console=console, disable=not console.is_terminal,
        ) as progress,
        Trials(budget, asked.processes, swarming=swarming) as trials,
    ):  # fmt: skip
        task = progress.add_task(_events(listed), total=1.0)

        def tell(best: Shrunk | None) -> None:
            spent = max(budget.used / budget.runs, (time.monotonic() - budget.began) / budget.seconds)
            words = _events(best.scenario if best is not None else listed)
            progress.update(task, completed=min(1.0, spent), description=f"{words}, {several(budget.used, 'run')}")

        shrinker = Shrinker(trials, same, tell)
        shrunk = shrinker.shrink(listed, asked.seed, trial)
    return shrunk, budget.used, shrinker.interrupted


def _events(scenario: Scenario) -> str:
    operations, faults = len(operations_of(scenario)), len(scenario.nemesis)
    return f"{several(operations + faults, 'event')} ({several(operations, 'operation')}, {several(faults, 'fault')})"


def _comments(origin: str, shrunk: Shrunk) -> tuple[str, ...]:
    """Return the comments above a schedule: its origin, what it shows, how to run it."""
    return (
        f"{shrunk.trial.problem.splitlines()[0]}",
        f"From {several(shrunk.events_before, 'event')} by: {origin}",
        "Times count from the start of the load. The seed holds what no host obeys: latencies and election timeouts.",
    )


def _replay(path: Path, hash_seed: str) -> int:
    """Run the saved schedule in a separate process. Return its exit status."""
    return subprocess.run(
        [sys.executable, "-m", "squall.harness.cli.main", "simulate", str(path), "--no-lake"],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
    ).returncode


# -- after a campaign --------------------------------------------------------------------------------------------------

Shrinking = Callable[[Scenario, SimOptions, Sequence[int]], Iterator[ShrinkOutcome]]
"""Shrinks seeds; outcomes come as they are ready."""


def shrunk_here(
    processes: int, scenario: Scenario, options: SimOptions, seeds: Sequence[int]
) -> Iterator[ShrinkOutcome]:
    """Shrink one seed after the other, each with so many processes."""
    for seed in seeds:
        yield shrink_seed(scenario, options, SECONDS, processes, seed)


def shrunk_on_spark(
    calls: CallsOnSpark, scenario: Scenario, options: SimOptions, seeds: Sequence[int]
) -> Iterator[ShrinkOutcome]:
    """Shrink each seed on one executor. A seed whose process ended there has no schedule, and says why."""
    for number, ended in calls.run(shrink_seed, (scenario, options, SECONDS, 1), seeds):
        yield ShrinkOutcome(seeds[number], problem=ended.problem) if ended.problem else ended.value


def first_of_each_kind(results: Sequence[SimResult]) -> list[SimResult]:
    """Return the invalid seed of the smallest number for each set of names that broke."""
    found: dict[frozenset[str], SimResult] = {}
    for one in sorted(results, key=lambda one: one.seed):
        if one.verdict == "invalid":
            found.setdefault(frozenset(one.broken), one)
    return list(found.values())


def shrink_first_failures(
    results: Sequence[SimResult],
    scenario: Scenario,
    options: SimOptions,
    shrinking: Shrinking,
    console: Console,
    lake: Path | None,
) -> None:
    """Shrink the first failing seed of each kind, and write its schedule. Trouble is reported and changes nothing."""
    failures = first_of_each_kind(results)
    if not failures:
        return
    try:
        refuse_what_cannot_be_listed(scenario)
    except UsageError as refused:
        console.print(f"{'shrink':<11}{refused}", markup=False, soft_wrap=True)
        return
    kinds = several(len(failures), "kind")
    seeds = [one.seed for one in failures]
    console.print(f"{'shrink':<11}{kinds} of failures: seeds {', '.join(map(str, seeds))}", markup=False)
    rows = RowsAdder(lake, console, "shrink")
    outcomes = []
    try:
        for outcome in shrinking(scenario, options, seeds):
            outcomes.append(outcome)
            _write_outcome(outcome, options, console)
    except SparkTrouble as trouble:
        console.print(f"{'cluster':<11}{trouble}", markup=False, soft_wrap=True)
    finally:
        rows.add(lambda: {"campaigns": [shrink_row(one, scenario.scenario, options.mutants) for one in outcomes]})


def _write_outcome(outcome: ShrinkOutcome, options: SimOptions, console: Console) -> None:
    console.print()
    if outcome.shrunk is None:
        console.print(f"{'nothing':<11}{outcome.problem.strip()}", markup=False, soft_wrap=True)
        return
    path = free_name(Path(f"{outcome.shrunk.scenario.scenario}.yaml"))
    flags = "".join(f" --mutant {one}" for one in options.mutants) + " --swarm" * options.swarm
    origin = f"squall simulate {options.said} --seed {outcome.seed}{flags} --shrink"
    write_schedule(outcome.shrunk, path, origin, outcome.runs, console)
