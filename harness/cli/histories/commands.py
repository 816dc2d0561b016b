"""Parameters of `squall forge` and `squall import`; each imports what carries it out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from squall.harness.errors import UsageError
from squall.harness.lake.options import AddToLakeOption, NoLakeOption, lake_for_rows
from squall.harness.terminal.console import console
from squall.harness.terminal.options import ClusterOption

FORGE_EXAMPLES = (
    "Examples: squall forge --list · squall forge --operations 1000000 --seed 7 --anomaly lost_write OUT · "
    "squall forge --kind registers OUT · squall forge --verify --seeds 60 · squall forge --runs 10000 OUT"
)


def forge(
    out: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="the directory of the run; must be new")] = None,
    operations: Annotated[int, typer.Option(min=20, help="about how many operations")] = 1_000,
    seed: Annotated[int, typer.Option(help="the same seed forges the same history")] = 1,
    anomaly: Annotated[
        str | None, typer.Option(metavar="NAME", help="add this anomaly, injection or near-miss; see --list")
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="the kind of operations; logs by default")] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="list what can be forged, and the expected verdicts")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="run the checks on all of it; exit 1 if any result is wrong")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="with --verify: seeds of each injection and near-miss")] = 60,
    clean: Annotated[int, typer.Option(min=1, help="with --verify: clean histories of each kind")] = 1_000,
    processes: Annotated[
        int | None, typer.Option(min=1, help="with --verify: how many at once; by default one for each core")
    ] = None,
    spark_master: ClusterOption = None,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="forge the rows of so many runs in nights of 60, as a lake in OUT"),
    ] = None,
) -> int:
    """Make a history without a cluster: healthy, with one anomaly, or a near-miss; or verify the checks with them."""
    from squall.harness.cli.histories import forge as forge_module

    if show_list:
        return forge_module.list_cases(console())
    if verify:
        return forge_module.verify(
            seeds=seeds,
            clean=clean,
            kind=kind,
            processes=processes or os.cpu_count() or 1,
            console=console(),
            spark_master=spark_master,
            lake=lake_for_rows(lake, no_lake),
        )
    if spark_master is not None:
        raise UsageError("--spark-master is for --verify: forging runs on this host")
    if out is None:
        raise UsageError(
            "squall forge needs a directory to write to", remedy="squall forge OUT, or --list, or --verify"
        )
    if runs is not None:
        return forge_module.forge_lake(out, runs=runs, seed=seed, console=console())
    return forge_module.forge_run(
        out, operations=operations, seed=seed, case_name=anomaly, kind=kind, console=console()
    )


IMPORT_EXAMPLES = (
    "Examples: squall import jepsen store/latest/history.edn · squall import elle history.edn OUT · "
    "squall import porcupine etcd_000.log"
)


def import_(
    tool: Annotated[str, typer.Argument(metavar="jepsen|elle|porcupine", help="the tool that recorded the history")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="EDN, JSON, or lines of a log")],
    out: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="the directory of the run; must be new")] = None,
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept, without OUT")] = Path("runs"),
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="consistency model of transactions; strict-serializable by default"),
    ] = None,
    initial: Annotated[
        str | None, typer.Option(metavar="VALUE", help="initial value of registers; none by default")
    ] = None,
) -> int:
    """Turn another tool's history into a run, for squall check."""
    from squall.harness.cli.histories.importing import import_run

    return import_run(tool, file, out, runs=runs_dir, model=model, initial=initial, console=console())
