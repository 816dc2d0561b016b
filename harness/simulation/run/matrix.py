"""`squall mutants --verify`: run every seeded bug and its healthy twin on the same seeds (HX-08).

A checker that has never caught a bug is not known to work, and false alarms are worse than no checker. So each mutant
has a *trial*: a scenario in which it must do harm, and the names of the invariants or anomalies that must catch it. On
every seed the scenario runs twice, with the mutant and without. The mutant counts as caught on a seed only if the
verdict is invalid and one of the *expected* names is among what broke. A crash, a cluster that does not become whole,
or another anomaly does not count. The twin must be valid on every seed, or the catch proves nothing.

Controls have trials too: correct nodes in a configuration that is documented to lose records (N09). There the twin is
another scenario, with the configuration that does not lose them.

Twins that several trials share run once. The threshold is 19 of 20 seeds, or a corresponding number of fewer.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from squall.harness.distributed.calls import CallsOnSpark
from squall.harness.errors import UsageError
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.on_spark import lost
from squall.harness.simulation.run.run import REQUIRED, SimOptions, SimResult, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.run.workers import end_at_once, pool_of_workers
from squall.harness.yaml_source import suggestion
from squall.nodes.mutants import MUTANTS
from squall.results.checkers.engine.cluster import SparkTrouble

SEEDS = 20
CAUGHT_SHARE = 19 / 20


@dataclass(frozen=True)
class Trial:
    """One seeded bug, or control, and how it must be caught.

    `scenario` names the run that must be invalid, with `mutants` switched on; `twin` names the one that must be valid,
    without. `expected` are names of invariants (docs/requirements.md) and anomalies (docs/reading-a-report.md).
    """

    name: str
    requirement: str
    scenario: str
    expected: tuple[str, ...]
    twin: str
    mutants: tuple[str, ...]

    def catches(self, result: SimResult) -> tuple[str, ...]:
        """Return the expected names among what broke; empty if the bug was not caught as itself."""
        if result.verdict != "invalid":
            return ()
        return tuple(name for name in result.broken if name in self.expected)


def mutant(name: str, requirement: str, scenario: str, *expected: str) -> Trial:
    """Return the trial of a mutant: its twin is the same scenario without it."""
    return Trial(name, requirement, scenario, expected, scenario, (name,))


def control(name: str, requirement: str, scenario: str, twin: str, *expected: str) -> Trial:
    """Return the trial of a configuration: correct nodes in both scenarios."""
    return Trial(name, requirement, scenario, expected, twin, ())


TRIALS: tuple[Trial, ...] = (
    mutant("fetch-epoch-unfenced", "EP-03", "metadata-starved-follower", "DP-13", "LM", "ISR", "ELECT", "ACK"),
    mutant("alter-partition-unfenced", "IS-07", "late-proposal", "ISR", "ELECT", "ACK", "lost_write"),
    mutant("hw-before-isr-ack", "DP-06", "leader-kill-loop", "ISR", "ACK", "PREFIX"),
    mutant("ack-before-replication", "DP-08", "leader-kill-lagging", "ACK", "lost_write"),
    mutant("truncate-to-hw", "DP-13", "two-hop-failover", "ISR", "ELECT", "ACK", "UNIQ", "lost_write"),
    mutant("isr-shrink-uncommitted", "IS-04", "isr-limbo-shrink", "ISR", "ELECT", "ACK"),
    mutant("isr-expand-ignored", "IS-05", "isr-limbo-expand", "ISR", "ELECT", "ACK"),
    mutant("broker-epoch-unchecked", "IS-08", "wiped-disk-fast-rejoin", "ISR", "ELECT", "ACK"),
    mutant("unclean-restart-stays-eligible", "EL-05", "lossy-return", "EL-05", "ISR", "ELECT", "ACK", "lost_write"),
    mutant("hw-advances-under-min-isr", "EL-03", "frozen-high-watermark", "ISR", "ELECT", "ACK"),
    mutant("dedup-lost-on-failover", "DP-05", "retry-after-failover", "DP-05", "UNIQ", "duplicate"),
    mutant("dedup-wrong-offset", "DP-05", "lost-response", "ACK", "UNIQ", "lost_write", "inconsistent_offset"),
    mutant("producer-state-survives-truncation", "DP-05", "truncated-retry", "DP-05", "ACK", "UNIQ", "lost_write"),
    mutant("torn-tail-accepted", "FD-03", "torn-tail", "LM", "UNIQ", "phantom"),
    mutant("log-start-past-hw", "DP-07", "retention-behind", "DP-07"),
    mutant("hw-restored-too-high", "DP-14", "leader-kill-lagging", "LM", "ISR", "ELECT", "PREFIX", "DURABLE"),
    mutant("divergent-suffix-kept", "DP-13", "divergent-suffix", "LM"),
    mutant("stale-fetch-appended", "EP-04", "late-fetch-answer", "EP-04"),
    mutant("end-offset-unguarded", "DP-14", "end-offsets-after-failover", "stale_read", "hw_regress"),
    mutant("epoch-cache-not-truncated", "DP-13", "barren-epoch", "DP-13", "LIVENESS"),
    mutant("vote-ignores-log", "QC-07", "lagging-voter", "ELECT", "HWM"),
    mutant("hw-counts-old-epoch", "QC-16", "figure8-metadata", "HWM", "ELECT"),
    mutant("metadata-not-fsynced", "QC-20", "quorum-power-loss", "DURABLE", "ELECT", "HWM"),
    mutant("vote-not-persisted", "QC-08", "split-vote-crash", "QC-08", "ELECT"),
    mutant(
        "uncommitted-metadata-applied", "MD-03", "minority-active-controller", "HWM", "IMAGE", "ELECT", "EPOCH", "LM"
    ),
    mutant("observer-counted", "QC-16", "minority-active-controller", "HWM", "ELECT", "IMAGE", "EPOCH", "LM"),
    mutant("removed-voter-counted", "QC-16", "removed-voter-with-its-leader", "HWM", "ELECT", "IMAGE", "EPOCH", "LM"),
    mutant("timers-on-wall-clock", "FD-05", "clock-skew", "FD-05", "QC-18", "ELECT", REQUIRED),
    mutant("snapshot-above-hw", "SN-02", "snapshot-of-a-minority", "SN-03", "LM", "HWM", "IMAGE", "ELECT", "EPOCH"),
    mutant("reassignment-shrinks-early", "RA-05", "reassign-chaos", "RA-05", "ISR", "ELECT", "ACK", "LM", "lost_write"),
    mutant("removed-replica-stays-eligible", "EL-01", "moved-back", "RA-05", "ISR", "ELECT", "ACK", "lost_write"),
    mutant("shutdown-granted-early", "CS-04", "starved-shutdown", "CS-04"),
    mutant("follower-ends-kept", "DP-06", "returning-leader", "ISR", "ELECT", "ACK", "lost_write"),
    mutant("duplicate-acked-early", "DP-08", "repeated-batch", "ACK", "lost_write"),
    mutant("older-metadata-applied", "MD-04", "late-metadata", "ISR", "ELECT", "ACK", "lost_write"),
    mutant("session-additions-ignored", "DP-04", "leader-kill-loop", "DP-04", "LIVENESS"),
    mutant("clean-mark-before-flush", "FD-03", "interrupted-stop", "ISR", "ELECT", "ACK", "EP-04", "lost_write"),
    mutant("parked-writes-repeated", "MD-09", "parked-writes", "MD-09"),
    mutant("switch-raises-no-epoch", "EL-03", "unaware-leader", "ISR", "ELECT", "ACK", "lost_write"),
    mutant("stale-controller-epoch-accepted", "ZK-14", "zookeeper-late-update", "ZK-14"),
    mutant("deposed-leader-and-isr-applied", "ZK-14", "zookeeper-late-orders", "ZK-14"),
    mutant("controller-epoch-not-checked", "ZK-14", "zookeeper-depositions", "ELECT", "EPOCH"),
    mutant("isr-version-unchecked", "ZK-07", "zookeeper-late-isr", "EPOCH"),
    mutant("watch-not-set-again", "ZK-04", "zookeeper-failures", "RECOVER", "LIVENESS"),
    mutant("shutdown-answered-early", "ZK-08", "zookeeper-rolling-restart", "ZK-08"),
    mutant("control-queue-shared", "CL-16", "control-listener-backlog", "CL-16"),
    mutant("stop-replica-late", "ZK-06", "control-listener-recreated-topics", "ZK-06"),
    control("N09-elr-off", "EL-01", "last-replica-standing-elr-off", "last-replica-standing", "ISR", "ELECT", "ACK"),
)


@dataclass(frozen=True)
class TrialResult:
    """The outcome of one trial on all seeds."""

    trial: Trial
    seeds: int
    caught: int
    by: Mapping[str, int]
    twin_valid: int
    misses: tuple[SimResult, ...] = ()
    twin_failures: tuple[SimResult, ...] = ()
    processor_s: float = 0.0
    """Processor time of the runs with the mutant."""

    @property
    def passed(self) -> bool:
        return self.caught >= needed(self.seeds) and self.twin_valid == self.seeds


def needed(seeds: int) -> int:
    """Return on how many of so many seeds a mutant must be caught: 19 of 20, all of 3."""
    return ceil(CAUGHT_SHARE * seeds)


@dataclass(frozen=True)
class _Task:
    """One simulation: a scenario with or without mutants, on one seed."""

    scenario: str
    mutants: tuple[str, ...]
    seed: int


@dataclass
class Matrix:
    """All trials on all seeds: which simulations to run, and their results so far."""

    trials: Sequence[Trial]
    seeds: Sequence[int]
    results: dict[_Task, SimResult] = field(default_factory=dict)

    def tasks(self) -> list[_Task]:
        """Return every simulation once, seed by seed, so that the first column is complete early."""
        wanted: dict[_Task, None] = {}
        for seed in self.seeds:
            for trial in self.trials:
                wanted[_Task(trial.scenario, trial.mutants, seed)] = None
                wanted[_Task(trial.twin, (), seed)] = None
        return list(wanted)

    def run(self, processes: int = 1, calls: CallsOnSpark | None = None) -> Generator[SimResult, None, None]:
        """Run the simulations, here or on a cluster; results come as they are ready. Raises SparkTrouble."""
        scenarios = {name: find_scenario(name)[0] for one in self.trials for name in (one.scenario, one.twin)}
        tasks = self.tasks()
        running = _simulated(tasks, scenarios, processes) if calls is None else _on_spark(tasks, scenarios, calls)
        with contextlib.closing(running):
            for task, result in running:
                self.results[task] = result
                yield result

    def rows(self) -> list[TrialResult]:
        """Return one row for each trial of which a seed has run, with its twin; a row counts such seeds only."""
        rows = [self._row(trial) for trial in self.trials]
        return [row for row in rows if row.seeds]

    def _row(self, trial: Trial) -> TrialResult:
        pairs = [
            (
                self.results.get(_Task(trial.scenario, trial.mutants, seed)),
                self.results.get(_Task(trial.twin, (), seed)),
            )
            for seed in self.seeds
        ]
        ended = [(mutated, healthy) for mutated, healthy in pairs if mutated is not None and healthy is not None]
        broken, twins = [mutated for mutated, _ in ended], [healthy for _, healthy in ended]
        caught = [one for one in broken if trial.catches(one)]
        return TrialResult(
            trial=trial,
            seeds=len(ended),
            caught=len(caught),
            by=Counter(name for one in caught for name in trial.catches(one)),
            twin_valid=sum(one.verdict == "valid" for one in twins),
            misses=tuple(one for one in broken if not trial.catches(one)),
            twin_failures=tuple(one for one in twins if one.verdict != "valid"),
            processor_s=sum(one.processor_s for one in broken),
        )


def _simulated(
    tasks: Sequence[_Task], scenarios: Mapping[str, Scenario], processes: int
) -> Generator[tuple[_Task, SimResult], None, None]:
    if processes <= 1:
        yield from ((task, _simulate(scenarios[task.scenario], task)) for task in tasks)
        return
    with pool_of_workers(processes) as pool:
        pending = {pool.submit(_simulate, scenarios[task.scenario], task): task for task in tasks}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        except BaseException:  # interrupted: the results of what still runs are not asked for
            end_at_once(pool)
            raise


def _on_spark(
    tasks: Sequence[_Task], scenarios: Mapping[str, Scenario], calls: CallsOnSpark
) -> Generator[tuple[_Task, SimResult], None, None]:
    with contextlib.closing(calls.run(_simulate_task, (scenarios,), tasks)) as running:
        for number, ended in running:
            task = tasks[number]
            yield task, lost(task.seed, ended.problem) if ended.problem else ended.value


def _simulate_task(scenarios: Mapping[str, Scenario], task: _Task) -> SimResult:
    return _simulate(scenarios[task.scenario], task)


def _simulate(scenario: Scenario, task: _Task) -> SimResult:
    return simulate(scenario, task.seed, SimOptions(mutants=task.mutants))


def chosen_trials(names: Iterable[str]) -> tuple[Trial, ...]:
    """Return the trials of these names, or all if no name is given. Raises UsageError."""
    known = {trial.name: trial for trial in TRIALS}
    wanted = tuple(names)
    for name in wanted:
        if name not in known:
            raise UsageError(f"--mutant {name}: there is no trial of that name{suggestion(name, known)}")
    return tuple(known[name] for name in wanted) or TRIALS


def verify(
    *,
    seeds: int,
    first_seed: int,
    names: Sequence[str],
    processes: int,
    console: Console,
    witnesses: Path | None = None,
    calls: CallsOnSpark | None = None,
    record: Callable[[Matrix, bool], None] | None = None,
) -> int:
    """Run the trials and print the matrix. Return 0 if every mutant is caught and every twin valid, else 1.

    `witnesses` is a directory for the first witness of each mutant on the first seed. Interrupted, it prints the matrix
    of the seeds that ended and raises KeyboardInterrupt; if a cluster of `calls` gives up, it returns 2. `record` gets
    what ended, and whether that is all.
    """
    gave_up = False
    matrix = Matrix(chosen_trials(names), range(first_seed, first_seed + seeds))
    with Progress(
        TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeRemainingColumn(),
        console=console, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        total = len(matrix.tasks())
        task = progress.add_task("mutants", total=total)
        try:
            with contextlib.closing(matrix.run(processes, calls)) as running, contextlib.suppress(KeyboardInterrupt):
                for _ in running:
                    progress.advance(task)
        except SparkTrouble as trouble:
            if not matrix.results:
                raise
            gave_up = True
            console.print(f"{'cluster':<11}{trouble}", markup=False, soft_wrap=True)
    ended = len(matrix.results) == total
    if witnesses is not None and ended:
        save_witnesses(matrix, witnesses)
    rows = matrix.rows()
    console.print(table_of(rows))
    for line in complaints(rows):
        console.print(line, markup=False, highlight=False)
    if record is not None:
        record(matrix, ended)
    if not ended:
        console.print(f"interrupted: {len(matrix.results)} of {total} runs ended", markup=False, highlight=False)
        if not gave_up:
            raise KeyboardInterrupt
        return 1 if any(not row.passed for row in rows) else 2
    return 0 if all(row.passed for row in rows) else 1


def save_witnesses(matrix: Matrix, directory: Path) -> None:
    """Write a file for each trial that was caught on the first seed, with its first witness."""
    directory.mkdir(parents=True, exist_ok=True)
    for trial in matrix.trials:
        result = matrix.results[_Task(trial.scenario, trial.mutants, matrix.seeds[0])]
        if trial.catches(result):
            (directory / f"{trial.name}.txt").write_text(first_witness(trial, result), encoding="utf-8")


def first_witness(trial: Trial, result: SimResult) -> str:
    """Return the first witness of a caught trial: what broke and where, and the circumstances."""
    lines = [
        f"{trial.name}: {MUTANTS.get(trial.name, 'no mutant, but a configuration that is known to lose records')}",
        f"$ squall simulate {trial.scenario} --seed {result.seed}{_flags(trial)}",
        f"{result.verdict.upper()}  seed {result.seed}: {', '.join(result.broken)}",
        *(f"  {line.strip()}" for line in result.problem.splitlines()),
        *(f"    {line}" for line in result.witness),
    ]
    return "\n".join(lines) + "\n"


def _flags(trial: Trial) -> str:
    return "".join(f" --mutant {name}" for name in trial.mutants)


def table_of(rows: Sequence[TrialResult]) -> Table:
    """Render the matrix as a table."""
    table = Table(box=None, pad_edge=False)
    for heading in ("mutant", "breaks", "scenario", "caught", "by", "twin valid", ""):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        by = ", ".join(f"{name} {count}" for name, count in sorted(row.by.items(), key=lambda one: (-one[1], one[0])))
        table.add_row(
            row.trial.name,
            row.trial.requirement,
            row.trial.scenario,
            f"{row.caught}/{row.seeds}",
            by or "-",
            f"{row.twin_valid}/{row.seeds}",
            "✔" if row.passed else "✘",
        )
    return table


def complaints(rows: Sequence[TrialResult]) -> Iterator[str]:
    """Yield what was missed, with the command that repeats it."""
    told: set[tuple[str, int]] = set()
    for row in rows:
        trial = row.trial
        if row.caught < needed(row.seeds):
            for result in row.misses[:3]:
                yield f"MISSED  {trial.name}, seed {result.seed}: {_said(result)}"
                yield f"  Repeat with: squall simulate {trial.scenario} --seed {result.seed}{_flags(trial)}"
        for result in row.twin_failures[:3]:
            if (trial.twin, result.seed) not in told:
                told.add((trial.twin, result.seed))
                yield f"TWIN    {trial.twin}, seed {result.seed}: {_said(result)}"
                yield f"  Repeat with: squall simulate {trial.twin} --seed {result.seed}"


def _said(result: SimResult) -> str:
    broken = f" ({', '.join(result.broken)})" if result.broken else ""
    return f"{result.verdict}{broken} {result.problem.splitlines()[0] if result.problem else ''}".rstrip()
