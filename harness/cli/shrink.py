"""`squall shrink`: write the shortest schedule that fails in the same way as a seed, and its trace in words.

Exit status: 0 if the schedule was written and failed again in every replay, 1 if it was written and did not, 2 if there
was nothing to shrink, 254 for bad usage.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from squall.harness.cli.check import shown_path
from squall.harness.errors import UsageError
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.explain.spacetime import save_picture
from squall.harness.simulation.explain.traced import trace_of
from squall.harness.simulation.run.run import SimOptions
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
from squall.harness.terminal.known_mutants import refuse_unknown_mutants
from squall.results.checkers.common.text import several
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


def shrink(asked: ShrinkOptions, console: Console) -> int:
    """Shrink one seed and write the result. Return the exit status.

    Interrupted, it writes the smallest schedule found so far and raises KeyboardInterrupt.
    """
    refuse_unknown_mutants(asked.mutants)
    scenario, said = find_scenario(asked.suite, swarm=asked.swarm)
    refuse_what_cannot_be_listed(scenario)
    began = time.monotonic()
    try:
        listed, trial = record(scenario, asked.seed, SimOptions(swarm=asked.swarm, mutants=asked.mutants))
        console.print(f"{'fails':<11}seed {asked.seed}: {trial.problem.splitlines()[0]}", markup=False)
        console.print(f"{'recorded':<11}{_events(listed)} until {trial.ended_s:.3f} s of load", markup=False)
        shrunk, runs, interrupted = _shrink(asked, listed, trial, asked.swarm or bool(scenario.swarm), console)
    except NothingToShrink as nothing:
        console.print(f"{'nothing':<11}{nothing}", markup=False)
        return NOTHING_EXIT_STATUS
    path = asked.out or free_name(Path(f"{listed.scenario}.yaml"))
    saved = save(shrunk.pinned(), path, _comments(asked, said, shrunk))
    seconds = time.monotonic() - began
    console.print(f"{'shrunk':<11}{_events(saved)}, {several(runs, 'run')}, {seconds:.0f} s", markup=False)
    if interrupted:
        console.print(
            f"interrupted: {shown_path(path)} is the smallest found by then, and was not replayed", markup=False
        )
        raise KeyboardInterrupt
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


def free_name(wanted: Path) -> Path:
    """Create an empty file of this name, or of this name with a number if it exists, and return its path.

    The exclusive creation prevents a clash with other processes.
    """
    for number in itertools.count():
        path = wanted if number == 0 else wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
        with contextlib.suppress(FileExistsError):
            path.touch(exist_ok=False)
            return path
    raise AssertionError("numbers do not end")


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


def _comments(asked: ShrinkOptions, said: str, shrunk: Shrunk) -> tuple[str, ...]:
    """Return the comments above a schedule: its origin, what it shows, how to run it."""
    words = f"squall shrink {asked.seed} --suite {said}" + "".join(f" --mutant {one}" for one in asked.mutants)
    return (
        f"{shrunk.trial.problem.splitlines()[0]}",
        f"From {several(shrunk.events_before, 'event')} by: {words}{' --swarm' * asked.swarm}",
        "Times count from the start of the load. The seed holds what no host obeys: latencies and election timeouts.",
    )


def _replay(path: Path, hash_seed: str) -> int:
    """Run the saved schedule in a separate process. Return its exit status."""
    return subprocess.run(
        [sys.executable, "-m", "squall.harness.cli.main", "simulate", str(path)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
    ).returncode
