"""Judging runs: start the checker's engine once, check, and print the verdict for people.

    check  61 241 sends, 240 806 records read, 8 topic-partitions            Spark local[2], 7.4 s
           linearizable appends ✔   gap-free reads ✔   nothing acknowledged lost ✔   longest gap 2.3 s (events-3, …)

    VALID                                               runs/quickstart/2026-11-20T21-03-11/report.html

One Spark session serves all runs of a command; it starts when it is first needed, and that there is a Java to
start it with is found out before a run begins. `verdict.json` holds the same for machines.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.text import Text

from squall.harness.display import CHECK, CROSS, DETAIL_COLUMN
from squall.harness.errors import UsageError
from squall.harness.showing import parse_rows, shown_rows
from squall.results.check import check_runs
from squall.results.checks.engines import Engine, InProcess
from squall.results.checks.spark import LOCAL_MASTER, NoJava, SparkEngine, require_java
from squall.results.history import History, IllFormedHistory
from squall.results.manifest import Manifest
from squall.results.report import REPORT_FILE
from squall.results.store import NoSuchRun, find_run
from squall.results.text import duration, grouped, several
from squall.results.verdict import EXIT_CODES, Coverage, Verdict, worst
from squall.results.witness import Witness

RUNS = Path("runs")
STYLES = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}
MOST_WITNESSES = 3


class Judge:
    """The checker, with an engine that is started once. Use as a context."""

    def __init__(self, console: Console, *, spark_master: str | None, in_process: bool) -> None:
        self.console = console
        self.spark_master = spark_master
        self.in_process = in_process
        self.engine: Engine | None = None
        self.spark: SparkEngine | None = None
        self.starting_seconds = 0.0

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.spark is not None:
            self.spark.close()

    def prepare(self) -> None:
        """Make sure that there will be a verdict, before anything else is done. Raises UsageError."""
        if not self.in_process:
            try:
                require_java()
            except NoJava as missing:
                raise UsageError(str(missing)) from None

    def judge(self, runs: Sequence[Path]) -> list[Verdict]:
        """Check runs and print their verdicts."""
        began = time.perf_counter()
        verdicts = check_runs(runs, self._engine())
        seconds = time.perf_counter() - began
        for run, verdict in zip(runs, verdicts, strict=True):
            print_verdict(self.console, verdict, run, seconds)
        return verdicts

    def _engine(self) -> Engine:
        if self.engine is None:
            if self.in_process:
                self.engine = InProcess()
            else:
                self.engine = self.spark = SparkEngine(self.spark_master or LOCAL_MASTER)
        return self.engine


def judge_stored(runs: Sequence[Path], *, spark_master: str | None, in_process: bool, console: Console) -> int:
    """`squall check`: judge runs again; the status of the worst."""
    found = [run_directory(run) for run in runs]
    with Judge(console, spark_master=spark_master, in_process=in_process) as judge:
        judge.prepare()
        verdicts = judge.judge(found)
    return EXIT_CODES[worst([one.verdict for one in verdicts])]


def run_directory(name: Path) -> Path:
    """A run by its path, `latest`, or its scenario's name. Raises UsageError."""
    if name.is_symlink() and not name.exists():
        raise UsageError(f"{name}: points to a run that is no longer there")
    try:
        return find_run(name, RUNS)
    except NoSuchRun as missing:
        if name.is_dir() and any(name.iterdir()):
            return name  # a run without its manifest is a run that cannot be judged: unknown, not bad usage
        raise UsageError(str(missing)) from None


# --- printing ------------------------------------------------------------------------------------------------------


def print_verdict(console: Console, verdict: Verdict, run: Path, seconds: float) -> None:
    """What was checked, what came of it, and where the report lies."""
    console.print()
    for line in check_lines(verdict, seconds):
        console.print(line, soft_wrap=True, highlight=False)
    console.print()
    for line in verdict_lines(verdict, run):
        console.print(line, soft_wrap=True, highlight=False)


def check_lines(verdict: Verdict, seconds: float) -> Iterator[Text]:
    """How much was checked by what, and every statement with its mark."""
    coverage = verdict.coverage
    if coverage.engine:
        text = f"{looked_at(coverage):<{66}}{coverage.engine}, {seconds:.1f} s"
        yield Text.assemble(("check  ", "bold"), text)
    statements = [f"{one.text} {mark(one.holds)}" for one in verdict.statements]
    outage = verdict.longest_outage
    if outage is not None and outage.nanoseconds > 0:
        under = f", under {', '.join(outage.faults)}" if outage.faults else ""
        statements.append(f"availability: longest gap {duration(outage.nanoseconds)} ({outage.where}{under})")
    if statements:
        yield Text("       " + "   ".join(statements))


def looked_at(coverage: Coverage) -> str:
    sends = grouped(coverage.sends_ok + coverage.sends_info + coverage.sends_fail)
    partitions = several(coverage.topic_partitions, "topic-partition")
    return f"{sends} sends, {grouped(coverage.records)} records read, {partitions}"


def mark(holds: bool | None) -> str:
    return "? not known" if holds is None else CHECK if holds else CROSS


def verdict_lines(verdict: Verdict, run: Path) -> Iterator[Text]:
    """The verdict in one line, then its anomalies, witnesses and reasons."""
    head = Text(verdict.verdict.upper(), style=STYLES[verdict.verdict])
    said = headline(verdict)
    where = shown_path(run / REPORT_FILE) if (run / REPORT_FILE).exists() else shown_path(run)
    head.append(f"   {said}" if said else "", style="not bold default")
    head.append(" " * max(3, DETAIL_COLUMN - len(head.plain)) + where, style="not bold default")
    yield head
    for witness in verdict.witnesses[:MOST_WITNESSES]:
        yield from witness_lines(witness, run)
    if len(verdict.witnesses) > MOST_WITNESSES:
        yield Text(f"\n  {len(verdict.witnesses) - MOST_WITNESSES} more witnesses are in the report.")
    for reason in verdict.reasons:
        yield Text(f"  {reason}", style="yellow" if verdict.verdict == "unknown" else "dim")
    if verdict.verdict == "unknown":
        yield Text("  Nothing can be concluded from this run.")
    if verdict.verdict != "valid" and verdict.command:
        yield Text(f"  Repeat: {verdict.command}", style="dim")


def headline(verdict: Verdict) -> str:
    """`1 anomaly, lost_write`; nothing for a run without anomalies."""
    if not verdict.anomalies:
        return ""
    names = ", ".join(f"{one.name} ×{grouped(one.count)}" if one.count > 1 else one.name for one in verdict.anomalies)
    return f"{several(len(verdict.anomalies), 'anomaly', 'anomalies')}: {names}"


def witness_lines(witness: Witness, run: Path) -> Iterator[Text]:
    """One witness: what is wrong, who did what when, what it means, and how to see its rows."""
    yield Text(f"\n  {witness.title}\n", style="bold")
    subject = max((len(line.subject) for line in witness.lines), default=0)
    for line in witness.lines:
        yield Text(f"    {line.subject:<{subject}}  {line.text:<96} {line.time:>10}")
    yield Text(f"\n  Read this as: {witness.hint}")
    yield Text(f"  Rows: squall show {shown_path(run)} {witness.rows}", style="dim")


def shown_path(path: Path) -> str:
    """A path as one would type it from here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def show_run(name: Path, rows: str | None, console: Console) -> int:
    """`squall show`: the verdict of a run in words, or rows of its history."""
    run = run_directory(name)
    try:
        manifest = Manifest.load(run)
        if rows is not None:
            history = History.load(run)
            for line in shown_rows(history, parse_rows(rows), manifest.load_started or 0):
                console.print(line, soft_wrap=True, highlight=False, markup=False)
            return 0
    except IllFormedHistory as trouble:
        console.print(Text(f"UNKNOWN   {trouble}"))
        return EXIT_CODES["unknown"]
    for label, text in manifest_lines(manifest):
        console.print(f"{label:<11}{text}", markup=False, highlight=False, soft_wrap=True)
    try:
        verdict = Verdict.load(run)
    except FileNotFoundError:
        console.print(f"{'verdict':<11}none yet: squall check {shown_path(run)}", markup=False)
        return 0
    print_verdict(console, verdict, run, verdict.coverage.seconds)
    return 0


def manifest_lines(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """What was run."""
    yield "scenario", f"{manifest.scenario}   seed {manifest.seed}   {manifest.started}"
    if manifest.description:
        yield "", manifest.description
    for host in manifest.hosts:
        yield "host", f"{host.name}  {host.address}  {' '.join(host.roles)}"
    if manifest.mutants:
        yield "mutants", ", ".join(manifest.mutants)
    yield (
        "expected",
        manifest.expect.verdict + (f" ({', '.join(manifest.expect.anomalies)})" * bool(manifest.expect.anomalies)),
    )
    yield "repeat", manifest.command
