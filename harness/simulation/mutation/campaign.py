"""`squall mutants --generate`: judge a sample of generated mutants, keep a ledger, print the score.

The ledger can be interrupted at any time and goes on where it was. Mutants are judged side by side, one in each
process; threads only wait for their process.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from squall.harness.errors import UsageError
from squall.harness.simulation.mutation.baseline import Baselines, fingerprint_of_code
from squall.harness.simulation.mutation.generation.mutation import (
    ROOT,
    Mutation,
    module_path,
    mutated_modules,
    squall_root,
)
from squall.harness.simulation.mutation.generation.operators import generate, mutations_of
from squall.harness.simulation.mutation.generation.sampling import sample
from squall.harness.simulation.mutation.judgement import (
    HISTORY,
    SIMULATION,
    UNIT,
    Bounds,
    Judgement,
    judge_in_simulation,
)
from squall.harness.simulation.mutation.ledger import Campaign, Entry, Ledger
from squall.harness.simulation.mutation.process import end_all
from squall.harness.simulation.mutation.report import print_score, write_score
from squall.harness.simulation.mutation.unit_tests import UnitTests

MODES = (UNIT, SIMULATION, HISTORY)
SCENARIOS = tuple(
    name
    for other in ("push-raft", "zookeeper", "swarm", "control-plane", "push-raft-with-hint")
    for name in ("worlds",) * 5 + (other,)
)
"""A seed of `worlds` costs a fraction of the others' time and draws settings that they do not have.

Of 94 mutants that the simulation killed, 84 were killed by `worlds`, and most of the others by a protocol that `worlds`
does not have. With every second seed of another scenario, `worlds` got a quarter of the time.
"""


@dataclass(frozen=True)
class Asked:
    """What the command line asked for."""

    ledger: Path
    sampled: int = 400
    seed: int = 1
    scenarios: tuple[str, ...] = SCENARIOS
    budget_s: float = 1200.0
    seeds: int = 200
    modes: tuple[str, ...] = MODES
    only: tuple[str, ...] = ()
    processes: int = 1
    report: Path | None = None


class Judge:
    """Judges single mutants, with everything that all of them share."""

    def __init__(self, asked: Asked) -> None:
        self.stopping = threading.Event()
        self._asked = asked
        self._texts = {source.module: source.text for source in mutated_modules()}
        self._baselines = Baselines(_beside(asked.ledger, "twins"), asked.scenarios)
        self._tests = UnitTests(_beside(asked.ledger, "tests")) if UNIT in asked.modes else None

    def judge(self, mutation: Mutation, modes: tuple[str, ...]) -> Iterator[Judgement]:
        """Judge one mutant in these modes."""
        text = self._texts[mutation.module]
        if self._tests is not None and UNIT in modes:
            yield self._tests.judge(mutation, text)
        simulated = tuple(mode for mode in modes if mode != UNIT)
        if simulated:
            bounds = Bounds(self._asked.budget_s, self._asked.seeds)
            yield from judge_in_simulation(mutation, text, self._baselines, bounds, simulated)

    def close(self) -> None:
        self._baselines.close()


def run_campaign(
    asked: Asked, console: Console, record: Callable[[Sequence[Entry]], None] = lambda entries: None
) -> int:
    """Judge what the ledger does not hold yet; print the score of all that it holds then. `record` gets all of it."""
    chosen = chosen_mutants(asked)
    campaign = Campaign(fingerprint_of_code(), commit(), asked.seed, asked.scenarios, asked.budget_s)
    ledger = Ledger(asked.ledger, campaign)
    try:
        open_modes = {one: tuple(mode for mode in asked.modes if not ledger.has(one, mode)) for one in chosen}
        waiting = [one for one in chosen if open_modes[one]]
        console.print(f"{'mutants':<11}{len(chosen)} chosen, {len(waiting)} to be judged", markup=False)
        judge = Judge(asked)
        try:
            _judge_all(judge, [(one, open_modes[one]) for one in waiting], ledger, asked.processes, console)
        finally:
            judge.close()
    finally:
        ledger.close()
    wanted = {one.change for one in chosen}
    entries = [one for one in ledger.entries if one.mutation.change in wanted]
    print_score(console, campaign, entries)
    record(entries)
    if asked.report is not None:
        write_score(asked.report, campaign, entries)
    return 0


def chosen_mutants(asked: Asked) -> list[Mutation]:
    """Return the sample, or the mutants that were named. Raises UsageError."""
    return [named(name) for name in asked.only] if asked.only else sample(generate(), asked.sampled, asked.seed)


def named(name: str) -> Mutation:
    """Return the mutant of this id. Raises UsageError."""
    module = f"{ROOT}.{name.partition(':')[0]}"
    for source in mutated_modules():
        if source.module == module:
            for one in mutations_of(source):
                if one.id == name:
                    return one
    raise UsageError(f"no generated mutant has the id {name}", remedy="ids are in the ledger and in the score")


def _judge_all(
    judge: Judge,
    tasks: list[tuple[Mutation, tuple[str, ...]]],
    ledger: Ledger,
    processes: int,
    console: Console,
) -> None:
    columns = (
        TextColumn("judged"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    pool = ThreadPoolExecutor(processes)
    try:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("", total=len(tasks))
            pending: list[Future[Mutation]] = [pool.submit(_judge_one, judge, task, ledger) for task in tasks]
            for future in as_completed(pending):
                progress.update(bar, advance=1, description=future.result().id)
    except BaseException:  # interrupted: what is being judged is judged again by the next campaign
        judge.stopping.set()
        end_all()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _judge_one(judge: Judge, task: tuple[Mutation, tuple[str, ...]], ledger: Ledger) -> Mutation:
    mutation, modes = task
    for judgement in judge.judge(mutation, modes):
        if judge.stopping.is_set():
            break
        ledger.append(Entry(mutation, judgement, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())))
    return mutation


def show_diff(name: str, console: Console) -> int:
    """Print one mutant as a diff."""
    one = named(name)
    console.print(one.diff(module_path(one.module).read_text(encoding="utf-8")), markup=False, highlight=False, end="")
    return 0


def _beside(ledger: Path, what: str) -> Path:
    return ledger.with_name(f"{ledger.stem}.{what}.jsonl")


def commit() -> str:
    """Return the commit of the checkout, empty if there is none."""
    root = (squall_root() / "nodes").resolve().parent
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else ""
