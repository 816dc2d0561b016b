"""`squall simulate`: run many seeds of a scenario, describe the first failures, and sum up what took place."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from squall.harness.cli.simulation.shrink import Shrinking, shrink_first_failures, shrunk_here, shrunk_on_spark
from squall.harness.distributed.calls import calls_on
from squall.harness.errors import UsageError
from squall.harness.lake.adding import RowsAdder
from squall.harness.lake.rows import Rows, of_seeds
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.explain.spacetime import save_picture
from squall.harness.simulation.explain.traced import trace_of
from squall.harness.simulation.run.buggified import buggify_words, named_places
from squall.harness.simulation.run.metadata_kinds import kind_of, refuse_kind
from squall.harness.simulation.run.on_spark import simulate_on_spark
from squall.harness.simulation.run.parallel import simulate_many
from squall.harness.simulation.run.recipe import parse_recipe
from squall.harness.simulation.run.run import (
    ACKNOWLEDGED,
    BUGGIFY,
    OPERATIONS,
    SimOptions,
    SimResult,
    metadata_words,
    refuse_kept,
    seed_words,
)
from squall.harness.simulation.run.run import simulate as simulate_seed
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.run.traces_file import compare_traces, make_place, read_traces, write_traces
from squall.harness.simulation.why.account import findability_words
from squall.harness.terminal.known_mutants import refuse_unknown_mutants
from squall.results.checkers.engine.cluster import SparkTrouble
from squall.workloads.log import LogOptions

SHOWN_FAILURES = 5
LONG = 100
"""From this number of seeds on, a log without a progress bar gets a line for each tenth of the work."""
GROUPS = ("fault ", "effect ", BUGGIFY)
"""What the names of counts begin with that a summary lists after the others."""
EXIT = {"valid": 0, "invalid": 1, "unknown": 2}


def simulate(
    name: str,
    *,
    seeds: int,
    first_seed: int | None,
    console: Console,
    mutants: tuple[str, ...] = (),
    swarm: bool = False,
    processes: int | None = None,
    keep: Path | None = None,
    until_failure: bool = False,
    picture: Path | None = None,
    only: str | None = None,
    observed: bool = True,
    buggify: str = "",
    metadata: str = "",
    spark_master: str | None = None,
    shrink: bool = False,
    lake: Path | None = None,
    traces: Path | None = None,
    same_as: Path | None = None,
) -> int:
    """Run the seeds, by default from the scenario's own seed on; return the status of the worst verdict.

    Runs all of them, or with `until_failure` up to the first that is not valid. `picture` is where to draw what one
    seed does. If interrupted, it sums up the completed seeds and raises KeyboardInterrupt (exit status 130). With
    `spark_master` the seeds run on a cluster; if that gives up, the seeds that did not end are unknown. `shrink`
    shortens the first failing seed of each kind afterwards. `lake` is where a row about the campaign is added.
    `traces` is where the hash of each seed is written; those in `same_as` have to be the same, else the status is 1.
    """
    refuse_what_a_cluster_cannot(spark_master, keep=keep, picture=picture, processes=processes)
    if picture is not None and seeds > 1:
        raise UsageError("--picture draws one seed", remedy="leave out --seeds, and say which with --seed")
    refuse_unknown_mutants(mutants)
    named_places(buggify)
    wanted_traces = None if same_as is None else read_traces(same_as)
    scenario, said = find_scenario(name, swarm=swarm, only=only)
    kind = kind_of(metadata) if metadata else None
    if kind is not None:
        refuse_kind(scenario, kind)
        if shrink:
            raise UsageError("--shrink takes the scenario's kind of controller", remedy="leave out --metadata")
    options = SimOptions(
        swarm=swarm, mutants=mutants, keep=keep, said=said, observed=observed, metadata=kind, buggify=buggify
    )
    first = first_seed if first_seed is not None else (*scenario.seeds, 1)[0]
    wanted = range(first, first + seeds)
    if keep is not None:
        for seed in wanted:
            refuse_kept(keep, seed)
    if traces is not None:
        make_place(traces)
    results: list[SimResult] = []
    rows = RowsAdder(lake, console, "simulate")
    with _seeds_run(spark_master, processes or os.cpu_count() or 1, console) as (run, shrinking):
        try:
            ended = _collect(run(scenario, wanted, options), results, scenario, options, until_failure, seeds, console)
        except SparkTrouble as trouble:
            if not results:
                raise
            console.print(f"{'cluster':<11}{trouble}", markup=False, soft_wrap=True)
            ended = None
        if results:
            console.print(summary(results), markup=False, highlight=False)
        if traces is not None:
            write_traces(traces, results)
        rows.add(lambda: _rows(results, scenario, first, options, spark_master, ended=bool(ended)))
        if not ended:
            left = f"interrupted: {len(results)} of {seeds} seeds ended"
            again = next(seed for seed in wanted if seed not in {result.seed for result in results})
            console.print(f"{left}; the first that did not is {again}", markup=False, highlight=False)
            if ended is not None:
                raise KeyboardInterrupt
        if shrink:
            shrink_first_failures(results, scenario, options, shrinking, console, lake)
    if picture is not None:
        save_picture(trace_of(scenario, first, options), picture)
        console.print(f"{'picture':<11}{picture.with_suffix('.svg')}, in words {picture.with_suffix('.txt')}")
    if wanted_traces is not None and same_as is not None:
        compared = compare_traces(results, wanted_traces)
        console.print(f"{'traces':<11}{compared.words(same_as)}", markup=False, highlight=False, soft_wrap=True)
        if compared.differing:
            return 1
    verdicts = [result.verdict for result in results] + ["unknown"] * (not ended)
    return max((EXIT[verdict] for verdict in verdicts), key=lambda status: (status == 1, status))


Run = Callable[[Scenario, Sequence[int], SimOptions], Generator[SimResult, None, None]]
"""Runs seeds; results come as they are ready."""


@contextlib.contextmanager
def _seeds_run(spark_master: str | None, processes: int, console: Console) -> Iterator[tuple[Run, Shrinking]]:
    """Provide what runs seeds, and what shrinks failing ones: here or on a cluster. Raises UsageError."""
    if spark_master is None:
        yield partial(simulate_many, processes=processes), partial(shrunk_here, processes)
        return
    with calls_on(spark_master, lambda line: console.print(f"{'cluster':<11}{line}", markup=False)) as calls:
        yield partial(simulate_on_spark, calls), partial(shrunk_on_spark, calls)


def refuse_what_a_cluster_cannot(
    spark_master: str | None, *, keep: Path | None, picture: Path | None, processes: int | None
) -> None:
    """Raise UsageError for an option that makes no sense with a cluster."""
    given = {"--keep": keep, "--picture": picture, "--processes": processes}
    for option, value in given.items():
        if spark_master is not None and value is not None:
            raise UsageError(
                f"{option} is about seeds that run on this host, and --spark-master runs them on a cluster",
                remedy=f"leave out {option}, or run the seed in question here",
            )


def _collect(
    running: Generator[SimResult, None, None],
    results: list[SimResult],
    scenario: Scenario,
    options: SimOptions,
    until_failure: bool,
    seeds: int,
    console: Console,
) -> bool:
    """Append the results as they come, and describe the first failures. Return whether it was not interrupted."""
    milestones = tenths(seeds)
    shown = 0
    with Progress(
        TextColumn("simulate"), BarColumn(), MofNCompleteColumn(), TextColumn("seeds"), TimeRemainingColumn(),
        console=console, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("simulate", total=seeds)
        with contextlib.closing(running), contextlib.suppress(KeyboardInterrupt):
            for result in running:
                results.append(result)
                progress.advance(task)
                if not console.is_terminal and len(results) in milestones:
                    valid = sum(result.verdict == "valid" for result in results)
                    console.print(f"simulate   {len(results)} of {seeds} seeds, {valid} valid", highlight=False)
                if result.verdict != "valid" and shown < SHOWN_FAILURES:
                    shown += 1
                    listable = isinstance(scenario.workload, LogOptions)
                    console.print(told(result, options.said, options, listable), markup=False, highlight=False)
                if result.verdict != "valid" and until_failure:
                    break
            return True
    return False


def _rows(
    results: Sequence[SimResult],
    scenario: Scenario,
    first: int,
    options: SimOptions,
    spark_master: str | None,
    *,
    ended: bool,
) -> Rows:
    if not results:
        return {}
    return {
        "campaigns": [
            of_seeds(
                results,
                scenario=scenario.scenario,
                first_seed=first,
                engine=spark_master or "local",
                mutants=list(options.mutants),
                ended=ended,
            )
        ]
    }


def simulate_recipe(
    text: str,
    name: str,
    console: Console,
    *,
    mutants: tuple[str, ...] = (),
    swarm: bool = False,
    keep: Path | None = None,
    observed: bool = True,
    buggify: str = "",
) -> int:
    """Run one recipe of the scenario of this name. Return the verdict's status."""
    refuse_unknown_mutants(mutants)
    named_places(buggify)
    recipe = parse_recipe(name, text)
    scenario, said = find_scenario(recipe.scenario, swarm=swarm)
    options = SimOptions(
        swarm=swarm,
        mutants=mutants,
        keep=keep,
        said=said,
        observed=observed,
        kinds=recipe.kinds,
        continuations=recipe.continuations,
        buggify=buggify,
    )
    result = simulate_seed(scenario, recipe.seed, options)
    if result.verdict != "valid":
        console.print(told(result, said, options, listable=False), markup=False, highlight=False)
    console.print(summary([result]), markup=False, highlight=False)
    return EXIT[result.verdict]


def tenths(seeds: int) -> set[int]:
    """Return the seed counts after which a log of a long simulation gets a progress line; none for a short one."""
    return {seeds * tenth // 10 for tenth in range(1, 10)} if seeds >= LONG else set()


def told(result: SimResult, name: str, options: SimOptions, listable: bool = True) -> str:
    """Describe one failing seed, with the command that repeats it.

    Adds the command that shortens it if a schedule can list its operations.
    """
    words = [f"{result.verdict.upper()}  seed {result.seed}: {', '.join(result.broken)}", f"  {result.problem}"]
    words += [f"    {line}" for line in result.witness]
    words += [f"    world: {line}" for line in result.drawn]
    words += [f"    {fault}" for fault in result.faults[-12:] if fault not in result.witness]
    flags = "".join(f" --mutant {mutant}" for mutant in options.mutants) + (" --swarm" if options.swarm else "")
    unobserved = "" if options.observed else " --no-observer"
    if (
        result.verdict == "invalid"
        and listable
        and " --only " not in name
        and not (options.buggify or options.metadata)
    ):
        words.append(f"  Shorten with: squall shrink {result.seed} --suite {name}{flags}")
    rare = metadata_words(options) + buggify_words(options.buggify)
    words.append(f"  Repeat with: squall simulate {name} {seed_words(result.seed, options)}{flags}{unobserved}{rare}")
    return "\n".join(words)


def summary(results: list[SimResult]) -> str:
    """Return how many seeds had each verdict, and what took place in all of them."""
    verdicts = Counter(result.verdict for result in results)
    broken = Counter(name for result in results for name in result.broken)
    totals: Counter[str] = Counter()
    for result in results:
        totals.update(result.counts)
    simulated = sum(result.simulated_s for result in results)
    wall = max(sum(result.wall_s for result in results), 1e-9)
    worked = max(sum(result.processor_s for result in results), 1e-9)
    unknown = verdicts["unknown"] / len(results)
    acknowledged = [result.counts.get(ACKNOWLEDGED, 0) for result in results]
    lines = [
        f"seeds      {len(results)}: "
        + ", ".join(f"{number} {name}" for name, number in sorted(verdicts.items()))
        + (f" ({unknown:.1%} unknown)" if unknown else ""),
        f"time       {simulated:,.0f} simulated seconds, {simulated / wall:.1f} per second and core "
        f"({simulated / worked:.1f} per second of processor time)",
        f"clients    {sum(acknowledged):,} sends acknowledged, median {median(acknowledged):,.0f} a seed; "
        f"{totals[OPERATIONS] / max(simulated, 1e-9):.1f} operations per simulated second",
    ]
    if broken:
        lines.append("broken     " + ", ".join(f"{name} in {number}" for name, number in broken.most_common()))
    if broken and len(results) > 1:
        found = (findability_words(name, number, len(results)) for name, number in broken.most_common())
        lines.append("findable   " + "; ".join(found))
    for group in ("", *GROUPS):
        for key in sorted(key for key in totals if _group(key) == group):
            lines.append(f"{'':<11}{totals[key]:>12,} {key}")
    if len(results) == 1:
        lines += [f"{'' if number else 'world':<11}{line}" for number, line in enumerate(results[0].drawn)]
        lines.append(f"trace      {results[0].digest}")
    return "\n".join(lines)


def _group(key: str) -> str:
    return next((group for group in GROUPS if key.startswith(group)), "")
