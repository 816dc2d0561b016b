"""`squall lake`, `squall runs`, `squall sql`: rows about every run, listed, queried, repaired and pruned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track
from rich.table import Table

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console
from squall.harness.terminal.lake_options import (
    DEFAULT_LAKE,
    LakeOption,
    open_lake,
    opened,
    parse_day,
    runs_in,
    say,
    say_aside,
)
from squall.results.checkers.common.text import several

RUNS_EXAMPLES = (
    "Examples: squall runs · squall runs --since 7d --verdict invalid · squall runs --scenario torn-tail --json"
)
SQL_EXAMPLES = 'Examples: squall sql "select * from scenarios" · squall sql "select date, verdict, runs from verdicts"'

lake_app = typer.Typer(
    help="The lake: rows about every run, in Parquet tables.",
    epilog="Examples: squall lake show · squall lake rebuild runs · squall lake prune --before 180d --keep-invalid",
)


@lake_app.command("show", epilog="Example: squall lake show --lake runs/lake")
def show(lake: LakeOption = DEFAULT_LAKE) -> int:
    """Show the lake's tables: how many rows each has, and what they mean."""
    from squall.results.lake.schema import TABLES

    table = Table(box=None, pad_edge=False)
    for name in ("table", "rows", "meaning"):
        table.add_column(name, justify="right" if name == "rows" else "left")
    with opened(lake) as found:
        for name, one in TABLES.items():
            table.add_row(name, f"{found.table(name, columns=['key']).num_rows:,}", one.meaning)
    console().print(table)
    return 0


@lake_app.command("columns", epilog="Example: squall lake columns runs")
def columns(table: Annotated[str, typer.Argument(metavar="TABLE", help="a table, such as runs")]) -> int:
    """Show the columns of a table, with types and meanings."""
    from squall.results.lake.schema import TABLES

    if table not in TABLES:
        raise UsageError(f"{table}: is not a table of the lake", remedy=f"name one of {', '.join(TABLES)}")
    for one in TABLES[table].columns:
        console().print(f"{one.name:<22}{one.type!s:<20}{one.meaning}", markup=False, highlight=False, soft_wrap=True)
    return 0


@lake_app.command("rebuild", epilog="Examples: squall lake rebuild runs · squall lake rebuild runs/torn-tail")
def rebuild(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS…", help="directories that contain runs")],
    lake: LakeOption = DEFAULT_LAKE,
) -> int:
    """Make the rows of runs again from their directories, and compact. Rows of other runs stay.

    Those of campaigns, benchmarks and nights are made again from the entries that the lake has kept.
    """
    from squall.results.lake.store import Lake, LakeTrouble

    directories = sorted({found.resolve() for one in runs for found in runs_in(one)})
    found = Lake(lake, say=say)
    kept = list(found.kept())
    try:
        number = found.rebuild([*kept, *_entries(directories)]) - len(kept)
    except LakeTrouble as trouble:
        raise UsageError(str(trouble)) from None
    others = f"; {several(len(kept), 'entry', 'entries')} of campaigns, benchmarks and nights as well" if kept else ""
    console().print(f"{number} of {len(directories)} runs are in {lake}{others}", markup=False)
    return 0 if number == len(directories) else 2


@lake_app.command("compact", epilog="Example: squall lake compact")
def compact(lake: LakeOption = DEFAULT_LAKE) -> int:
    """Fold new rows into the Parquet tables. Dashboards and queries do this as well."""
    with opened(lake) as found:
        done = found.compact()
    console().print(f"{done.entries} entries folded into {done.periods} periods", markup=False)
    return 0


@lake_app.command("prune", epilog="Example: squall lake prune --before 180d --keep-invalid")
def prune(
    before: Annotated[str, typer.Option(metavar="DAY", help="a day, 2026-05-01, or an age: 180d, 26w")],
    keep_invalid: Annotated[
        bool, typer.Option("--keep-invalid", help="keep the rows of runs that were not valid")
    ] = False,
    lake: LakeOption = DEFAULT_LAKE,
) -> int:
    """Remove the rows of what began before a day. Run directories stay."""
    first_kept = parse_day(before, "--before")
    with opened(lake) as found:
        number = found.prune(before=first_kept, keep_invalid=keep_invalid)
    console().print(f"the rows of {number} runs, campaigns and benchmarks are removed", markup=False)
    return 0


@lake_app.command("publish", epilog="Example: squall lake publish s3a://bucket/squall")
def publish(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="of a file system that Spark knows: s3a://, hdfs://, file://")
    ],
    lake: LakeOption = DEFAULT_LAKE,
    spark_master: Annotated[
        str | None, typer.Option(metavar="URL", help="use this Spark cluster's configuration instead of local[2]")
    ] = None,
) -> int:
    """Copy the lake to a URL; only what is new travels. squall sql --lake URL reads it there."""
    from squall.results.lake.published import PublishedLake, is_url

    if not is_url(url):
        raise UsageError(
            f"{url}: is not a URL", remedy="name a file system, such as s3a://bucket/lake or file:///srv/lake"
        )
    found = open_lake(lake)
    with _spark(spark_master) as session:
        done = PublishedLake(url, session).publish(found)
    told = f"{done.copied} parts copied, {done.kept} were there, {done.removed} old files removed"
    console().print(f"{'published':<11}{url}: {told}", markup=False, soft_wrap=True)
    return 0


# -- runs and queries ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunFilter:
    """Which runs to list."""

    scenario: str | None = None
    verdict: str | None = None
    since: str = ""
    unexpected: bool = False

    def accepts(self, run: dict[str, Any]) -> bool:
        return (
            (self.scenario is None or self.scenario in run["scenario"])
            and (self.verdict is None or run["verdict"] == self.verdict)
            and not (self.unexpected and run["as_expected"])
        )


def list_runs(
    scenario: Annotated[str | None, typer.Option(metavar="TEXT", help="whose scenario's name contains this")] = None,
    verdict: Annotated[str | None, typer.Option(metavar="VERDICT", help="valid, invalid, unknown or none")] = None,
    since: Annotated[str | None, typer.Option(metavar="DAY", help="a day, 2026-11-01, or an age: 7d, 4w")] = None,
    unexpected: Annotated[bool, typer.Option("--unexpected", help="not as their scenario expects")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="at most so many, the newest")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per run, with every column")] = False,
    lake: LakeOption = DEFAULT_LAKE,
) -> int:
    """List runs, the newest first."""
    if verdict not in (None, "valid", "invalid", "unknown", "none"):
        raise UsageError(f"--verdict {verdict}: is no verdict", remedy="name valid, invalid, unknown or none")
    wanted = RunFilter(scenario, verdict, parse_day(since, "--since").isoformat() if since else "", unexpected)
    with opened(lake, as_json=as_json) as found:
        rows = [one for one in found.table("runs", since=wanted.since).to_pylist() if wanted.accepts(one)]
    rows.sort(key=lambda one: (one["started"] or "", one["key"]), reverse=True)
    if as_json:
        for one in rows[:limit]:
            typer.echo(json.dumps(one))
        return 0
    for one in rows[:limit]:
        console().print(run_line(one), markup=False, highlight=False, soft_wrap=True)
    if len(rows) > limit:
        console().print(f"… {len(rows) - limit} more; --limit {len(rows)} shows all", markup=False)
    if not rows:
        console().print("no run fits", markup=False)
    return 0


def run_line(run: dict[str, Any]) -> str:
    """Return a run in one line: mark, time, scenario, seed, verdict with anomalies, commit, directory."""
    mark = {"valid": "✔", "invalid": "✘"}.get(run["verdict"], "?")
    anomalies = f" ({', '.join(run['anomalies'])})" if run["anomalies"] else ""
    expected = "" if run["as_expected"] else f", expected {run['expected']}"
    commit = f"{(run['commit'] or '')[:10]}{'+' if run['dirty'] else ''}"
    verdict = f"{run['verdict']}{anomalies}{expected}"
    return (
        f"{mark} {(run['started'] or '')[:16]:<17}{run['scenario']:<40} seed {run['seed']!s:<8}{verdict:<30} "
        f"{commit:<12}{run['directory']}"
    )


def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="a query of the lake's tables and views")],
    lake: Annotated[
        str, typer.Option("--lake", metavar="DIR", help="the lake's directory, or the URL of a published one")
    ] = str(DEFAULT_LAKE),
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per row")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="print at most so many rows")] = 200,
    spark_master: Annotated[
        str | None, typer.Option(metavar="URL", help="ask on this Spark cluster instead of local[2]")
    ] = None,
) -> int:
    """Ask a query in SQL, on Spark. Tables: squall lake show; views: verdicts, scenarios, findings."""
    from squall.results.lake.published import PublishedLake, is_url
    from squall.results.lake.views import open_published_views, open_views

    found = None if is_url(lake) else open_lake(Path(lake), say=say_aside if as_json else say)
    with _spark(spark_master) as session:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if found is None:
            open_published_views(PublishedLake(lake, session), session)
        else:
            open_views(found, session)
        try:
            frame = session.sql(query)
            rows = [one.asDict(recursive=True) for one in frame.limit(limit + 1).collect()]
        except PySparkException as refused:
            raise UsageError(f"the query was refused: {str(refused).strip().splitlines()[0]}") from None
        except Py4JJavaError as failed:
            problem = str(failed.java_exception.getMessage()).strip().splitlines()[0]
            raise UsageError(f"the query failed: {problem}", remedy="of a damaged part: squall lake rebuild") from None
        names = list(frame.columns)
    _print_rows(names, rows[:limit], as_json=as_json)
    if len(rows) > limit:
        console().print(f"… more than {limit} rows; --limit shows more", markup=False)
    return 0


@contextmanager
def _spark(master: str | None) -> Iterator[Any]:
    """Provide a Spark session. Trouble with Spark or the lake is a UsageError."""
    from squall.results.checkers.engine.cluster import SparkTrouble
    from squall.results.checkers.engine.spark import LOCAL_MASTER, SparkEngine
    from squall.results.lake.store import LakeTrouble

    try:
        with SparkEngine(master or LOCAL_MASTER) as engine:
            yield engine.session
    except (SparkTrouble, LakeTrouble) as trouble:
        raise UsageError(str(trouble)) from None


def _print_rows(names: Sequence[str], rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for one in rows:
            typer.echo(json.dumps(one, default=str))
        return
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for one in rows:
        table.add_row(*(_cell(one[name]) for name in names))
    console().print(table, markup=False)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# -- parts of these --------------------------------------------------------------------------------------------------


def _entries(directories: Sequence[Path]) -> Iterator[Any]:
    from squall.results.history.ill_formed import IllFormedHistory
    from squall.results.lake.of_run import entry_of_run

    for directory in track(directories, "runs", console=console(), transient=True, disable=not console().is_terminal):
        try:
            yield entry_of_run(directory, say=say)
        except IllFormedHistory as trouble:
            say(f"{directory}: left out: {trouble.problem}")
