"""Parameters of `squall bench`, which imports what carries it out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squall.harness.errors import INTERRUPTED_EXIT_STATUS
from squall.harness.lake.options import AddToLakeOption, NoLakeOption, lake_for_rows
from squall.harness.terminal.console import console

BENCH_EXAMPLES = (
    "Examples: squall bench · squall bench interpreter · squall bench verdict --json verdict.json · "
    "squall bench reconciliation --charts ."
)


def bench(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="by default, list the benchmarks")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="keep figures and samples")] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="number of topic-partitions (controller); 2000000 is the published form")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of repetitions (controller); ten or more")] = None,
    operations: Annotated[
        int | None,
        typer.Option(min=10_000, help="number of operations (checker); smaller numbers have no limit to meet"),
    ] = None,
    billion: Annotated[bool, typer.Option("--billion", help="a billion operations as well (checker)")] = False,
    short: Annotated[bool, typer.Option("--short", help="the form that takes seconds (experiments)")] = False,
    system: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="measure only this one (two-million); repeatable")
    ] = None,
    zookeeper_servers: Annotated[
        int | None, typer.Option(min=1, max=5, help="servers of the ensemble (two-million); 1 by default")
    ] = None,
    zookeeper_round_trip: Annotated[
        float | None,
        typer.Option(min=0, max=1000, metavar="MS", help="lengthen the controller's way to ZooKeeper (two-million)"),
    ] = None,
    equal_timeouts: Annotated[
        bool, typer.Option("--equal-timeouts", help="all systems notice a failure after the same time (two-million)")
    ] = False,
    charts: Annotated[
        Path | None, typer.Option("--charts", metavar="DIRECTORY", help="draw the charts there (experiments)")
    ] = None,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
) -> int:
    """Run a benchmark and compare it with its required figures. Exit status 1 if one is missed."""
    from squall.harness.cli.figures import bench as bench_module
    from squall.harness.lake.adding import RowsAdder
    from squall.harness.lake.rows import of_benchmark

    out = console()
    if name is None:
        for known, about in bench_module.described():
            out.print(f"{known:<23}{about}", markup=False)
        return 0
    sizes = {"partitions": partitions, "rounds": rounds, "operations": operations, "billion": billion, "short": short}
    interrupted, failure = False, None
    rows = RowsAdder(lake_for_rows(lake, no_lake), out, "bench")
    try:
        measurements = bench_module.measure(
            name,
            **sizes,
            system=system,
            equal_timeouts=equal_timeouts,
            zookeeper_servers=zookeeper_servers,
            zookeeper_round_trip=zookeeper_round_trip,
        )
    except bench_module.Interrupted as early:
        measurements, interrupted, failure = early.measurements, True, early.failure
    bench_module.print_measurements(out, name, measurements)
    rows.add(lambda: of_benchmark(name, measurements, ended=not interrupted))
    if json_file is not None:
        from squall.harness.provenance import machine, versions

        bench_module.save(
            json_file, name, measurements, interrupted=interrupted, machine=machine(), versions=versions()
        )
    if charts is not None and not interrupted:
        for path in bench_module.draw(charts, name, measurements):
            out.print(f"written    {path}", markup=False, soft_wrap=True)
    if interrupted:
        how = "interrupted" if failure is None else "failed"
        out.print(f"{how}: {len(measurements)} figures were known by then; the others are missing")
        if failure is not None:
            raise failure
        return INTERRUPTED_EXIT_STATUS
    return 0 if all(one.passed for one in measurements) else 1
