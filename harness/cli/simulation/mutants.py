"""`squall mutants`: list the documented bugs, verify that each is caught, or generate mutants and score the simulation.

Documented mutants are branches in the nodes that a flag switches on; each has a scenario made for it. Generated mutants
are changes of one place in the source, made mechanically, which nothing was made for: their score measures how much
the simulation finds that were not seeded.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated

import typer

from squall.harness.errors import UsageError
from squall.harness.lake.options import AddToLakeOption, NoLakeOption, lake_for_rows
from squall.harness.terminal.console import console
from squall.nemesis.core.durations import parse_duration

EXAMPLES = (
    "Examples: squall mutants · squall mutants --verify · squall mutants --verify --mutant truncate-to-hw · "
    "squall mutants --verify --seeds 1000 --spark-master spark://HOST:7077 · "
    "squall mutants --generate --sample 60 --budget 45s --processes 1 --ledger before.jsonl · "
    "squall mutants --generate --sample 60 --modes simulation,history --report score.md · "
    "squall mutants --diff storage.log:Log._is_full:boundary:1 · "
    "squall mutants --score before.jsonl --score after.jsonl"
)


def mutants(
    verify: Annotated[
        bool, typer.Option("--verify", help="run each mutant, and the scenario without it, in simulation")
    ] = False,
    generate: Annotated[
        bool, typer.Option("--generate", help="generate mutants from the nodes' source, and measure what catches them")
    ] = False,
    diff: Annotated[str | None, typer.Option(metavar="ID", help="print one generated mutant as a diff")] = None,
    score: Annotated[
        list[Path] | None, typer.Option(metavar="LEDGER", help="print the score of a ledger; may be given again")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="number of seeds; 20 for --verify, at most 200 for each mutant for --generate"),
    ] = None,
    seed: Annotated[int, typer.Option(help="--verify: the first seed; --generate: the seed of the sample")] = 1,
    mutant: Annotated[list[str] | None, typer.Option(help="--verify: only this one; may be given again")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="how many runs at once; by default one for each core")
    ] = None,
    witnesses: Annotated[
        Path | None, typer.Option(help="--verify: write the first witness of each mutant to this directory")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="--generate: how many mutants")] = 400,
    scenarios: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="--generate: scenarios, whose seeds are tried in rotation; name one twice for twice the seeds",
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="--generate: processor time for each mutant and mode")
    ] = "20m",
    modes: Annotated[
        str, typer.Option(metavar="A,B,C", help="--generate: what judges a mutant")
    ] = "unit,simulation,history",
    ledger: Annotated[
        Path, typer.Option(metavar="FILE", help="--generate: the ledger; it is continued if it exists")
    ] = Path("mutants.jsonl"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="--generate: only this mutant; may be given again")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="--generate: write the score to this .md or .json file")
    ] = None,
    spark_master: Annotated[
        str | None, typer.Option(metavar="URL", help="--verify: on this Spark cluster instead of this host's cores")
    ] = None,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
) -> int:
    """List the documented bugs that nodes can be started with; verify that each is caught; or score the simulation."""
    parallel = processes or os.cpu_count() or 1
    rows_to = lake_for_rows(lake, no_lake)
    if spark_master is not None and (not verify or processes is not None):
        raise UsageError(f"--spark-master {spark_master} is for --verify, and instead of --processes")
    if verify:
        return _verify(seeds or 20, seed, tuple(mutant or ()), parallel, witnesses, spark_master, rows_to)
    if generate:
        return _generate(sample, seed, scenarios, budget, seeds, modes, ledger, only, parallel, report, rows_to)
    if diff is not None:
        from squall.harness.simulation.mutation.campaign import show_diff

        return show_diff(diff, console())
    if score:
        from squall.harness.simulation.mutation.report import print_ledgers

        return print_ledgers(console(), score)
    return _list()


def _verify(
    seeds: int,
    first_seed: int,
    names: tuple[str, ...],
    processes: int,
    witnesses: Path | None,
    spark_master: str | None,
    lake: Path | None,
) -> int:
    from squall.harness.distributed.calls import calls_on
    from squall.harness.lake.adding import RowsAdder
    from squall.harness.lake.rows import of_matrix
    from squall.harness.simulation.run.matrix import Matrix
    from squall.harness.simulation.run.matrix import verify as verify_mutants

    out = console()
    rows = RowsAdder(lake, out, "mutants")

    def record(matrix: Matrix, ended: bool) -> None:
        more = {"first_seed": first_seed, "engine": spark_master or "local", "ended": ended}
        ended_runs = list(matrix.results.values())
        rows.add(lambda: of_matrix(matrix.rows(), ended_runs, scenario=", ".join(names), **more))

    with contextlib.ExitStack() as stack:
        calls = None
        if spark_master is not None:
            calls = stack.enter_context(calls_on(spark_master, lambda line: out.print(f"{'cluster':<11}{line}")))
        return verify_mutants(
            seeds=seeds,
            first_seed=first_seed,
            names=names,
            processes=processes,
            console=out,
            witnesses=witnesses,
            calls=calls,
            record=record,
        )


def _list() -> int:
    from squall.nodes.mutants import MUTANTS

    for name, about in sorted(MUTANTS.items()):
        console().print(f"{name:<36}{about}", markup=False)
    return 0


def _generate(
    sample: int,
    seed: int,
    scenarios: str | None,
    budget: str,
    seeds: int | None,
    modes: str,
    ledger: Path,
    only: list[str] | None,
    processes: int,
    report: Path | None,
    lake: Path | None,
) -> int:
    from squall.harness.lake.adding import RowsAdder
    from squall.harness.lake.rows import of_generated
    from squall.harness.simulation.mutation.campaign import MODES, SCENARIOS, Asked, run_campaign

    asked = Asked(
        ledger=ledger,
        sampled=sample,
        seed=seed,
        scenarios=_listed(scenarios) if scenarios else SCENARIOS,
        budget_s=_seconds(budget),
        seeds=seeds or 200,
        modes=_listed(modes),
        only=tuple(only or ()),
        processes=processes,
        report=report,
    )
    unknown = [mode for mode in asked.modes if mode not in MODES]
    if unknown:
        raise UsageError(f"--modes: {unknown[0]} is not a way of judging", remedy=", ".join(MODES))
    if report is not None and report.suffix not in (".md", ".json"):
        raise UsageError(f"--report: {report} is of no known format", remedy="a name that ends in .md or .json")
    rows = RowsAdder(lake, console(), "generated")
    more = {"scenario": " ".join(asked.scenarios), "first_seed": seed, "engine": "local", "ended": True}
    return run_campaign(asked, console(), record=lambda entries: rows.add(lambda: of_generated(entries, **more)))


def _listed(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.split(",") if word.strip())


def _seconds(words: str) -> float:
    try:
        seconds = parse_duration(words)
    except ValueError as trouble:
        raise UsageError(f"--budget: {words} {trouble}") from trouble
    assert isinstance(seconds, float)
    return seconds
