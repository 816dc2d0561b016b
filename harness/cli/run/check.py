"""Judge runs: start the checker's engine once, check, and print the verdict in the words of `results/report/render.py`.

One Spark session serves all runs of a command. It starts when it is first needed; whether there is a Java for it is
checked before a run begins. `verdict.json` holds the verdict for programs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import msgspec
from rich.console import Console
from rich.text import Text

import squall.harness.plugins.check_plugins  # noqa: F401  # checks of installed packages become known
from squall.harness.cli.run.show import parse_rows, row_data, shown_rows
from squall.harness.errors import NO_ROOM, UsageError
from squall.harness.lake.runs import add_to_lake
from squall.harness.terminal.documents import print_document
from squall.harness.terminal.paths import shown_path
from squall.harness.terminal.time_left import share_done
from squall.results.check import check_runs
from squall.results.checkers.common.text import several
from squall.results.checkers.engine.cluster import SparkTrouble, require_master
from squall.results.checkers.engine.engines import Engine, InProcess
from squall.results.checkers.engine.spark import LOCAL_MASTER, SparkEngine, require_java
from squall.results.cross_check.cross_check import CrossCheck, compared_with
from squall.results.history.history import History
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import Manifest
from squall.results.history.store import NoSuchRun, checked_alone, find_run, is_run
from squall.results.report.render import verdict_lines
from squall.results.report.report import REPORT_FILE
from squall.results.verdict.verdict import EXIT_CODES, Verdict, worst

RUNS = Path("runs")
VERDICT_MARKS = {"valid": "✔", "invalid": "✘", "unknown": "?"}
STYLES = {
    "good": "bold green",
    "bad": "bold red",
    "doubt": "bold yellow",
    "strong": "bold",
    "dim": "dim",
    "plain": "",
}


class Judge:
    """The checker, with an engine that is started once. Use as a context."""

    def __init__(
        self, console: Console, *, spark_master: str | None, in_process: bool, budget: float | None = None
    ) -> None:
        refuse_ignored_master(spark_master, in_process=in_process)
        self.console = console
        self.budget = budget
        self.spark_master = spark_master
        self.in_process = in_process
        self.engine: InProcess | SparkEngine | None = None
        self.spark: SparkEngine | None = None

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.spark is not None:
            self.spark.close()

    def prepare(self) -> None:
        """Make sure that a verdict will be possible, before anything else is done. Raises UsageError."""
        if not self.in_process:
            try:
                require_java()
                require_master(self.spark_master or LOCAL_MASTER)
            except SparkTrouble as trouble:
                raise UsageError(str(trouble)) from None

    def judge(self, runs: Sequence[Path]) -> list[Verdict]:
        """Check runs and print their verdicts. Raises UsageError if Spark fails; runs then stay unchanged."""
        try:
            with checked_alone(runs, self._say_waiting), self._progress(self._engine()) as engine:
                verdicts = check_runs(runs, engine, budget=self.budget)
        except SparkTrouble as trouble:
            again = " ".join(["squall check --in-process", *map(shown_path, runs)])
            raise UsageError(f"{trouble}\nOn this host and without Spark: {again}") from None
        except OSError as trouble:
            if trouble.errno not in NO_ROOM:
                raise
            where = trouble.filename or ", ".join(map(shown_path, runs))
            again = " ".join(["squall check", *map(shown_path, runs)])
            problem = f"{where}: {os.strerror(trouble.errno)}; what was recorded is there, the verdict is not"
            raise UsageError(problem, remedy=f"free some space, then: {again}") from None
        for run, verdict in zip(runs, verdicts, strict=True):
            print_verdict(self.console, verdict, run)
        return verdicts

    def _say_waiting(self, run: Path) -> None:
        self.console.print(f"{'wait':<7}another check of {shown_path(run)} is under way", markup=False, soft_wrap=True)

    def compare(self, runs: Sequence[Path], verdicts: Sequence[Verdict]) -> bool:
        """Print the second opinion on the logs. Return whether it is the same wherever there is one."""
        assert self.spark is not None, "judge first, on Spark"
        opinions = compared_with(list(zip(runs, verdicts, strict=True)), self.spark.session)
        for run, one in zip(runs, opinions, strict=True):
            self.console.print(Text(f"second opinion  {shown_path(run)}: {told(one)}"), soft_wrap=True, highlight=False)
        return not any(one.disagreements for one in opinions if one is not None)

    def _engine(self) -> InProcess | SparkEngine:
        if self.engine is None:
            if self.in_process:
                self.engine = InProcess()
            else:
                self.engine = self.spark = SparkEngine(self.spark_master or LOCAL_MASTER)
        return self.engine

    @contextmanager
    def _progress(self, engine: InProcess | SparkEngine) -> Iterator[Engine]:
        """Show a bar of the checking progress while the check runs, on a terminal only."""
        if not self.console.is_terminal:
            yield engine
            return
        with share_done(self.console, "check ") as on_progress:
            engine.on_progress = on_progress
            try:
                yield engine
            finally:
                engine.on_progress = None


def refuse_ignored_master(spark_master: str | None, *, in_process: bool) -> None:
    """Raise UsageError for a Spark cluster named together with `--in-process`, which would ignore it."""
    if in_process and spark_master is not None:
        raise UsageError(
            f"--in-process checks without Spark, and --spark-master {spark_master} would be ignored",
            remedy="leave out one of them",
        )


def judge_stored(
    runs: Sequence[Path],
    *,
    spark_master: str | None,
    in_process: bool,
    console: Console,
    budget: float | None = None,
    second_opinion: bool = False,
    lake: Path | None = None,
    as_json: bool = False,
) -> int:
    """`squall check`: judge runs again. Return the worst status. After `budget` seconds no further check begins.

    `lake` is where the rows about the runs are added, or replaced.
    """
    if second_opinion and (in_process or budget is not None):
        raise UsageError("--second-opinion is a query to Spark about whole runs: leave out --in-process and --budget")
    found = [run_directory(run) for run in runs]
    with Judge(console, spark_master=spark_master, in_process=in_process, budget=budget) as judge:
        judge.prepare()
        verdicts = judge.judge(found)
        agreed = judge.compare(found, verdicts) if second_opinion else True
        if len(found) > 1:
            sum_up(console, found, verdicts)
    if lake is not None:
        for run in found:
            add_to_lake(run, lake, console)
    status = EXIT_CODES[worst([*(one.verdict for one in verdicts), *(() if agreed else ("unknown",))])]
    if as_json:
        runs_judged = [{"directory": str(run), "verdict": one.data()} for run, one in zip(found, verdicts, strict=True)]
        opinion = {"second_opinion_agrees": agreed} if second_opinion else {}
        print_document({"runs": runs_judged, **opinion, "exit_status": status})
    return status


def sum_up(console: Console, runs: Sequence[Path], verdicts: Sequence[Verdict]) -> None:
    """Print one line per run, and one for all of them."""
    console.rule("runs", align="left", style="dim")
    for run, verdict in zip(runs, verdicts, strict=True):
        anomalies = f" ({', '.join(one.name for one in verdict.anomalies)})" if verdict.anomalies else ""
        line = f"{VERDICT_MARKS[verdict.verdict]} {shown_path(run):<60} {verdict.verdict}{anomalies}"
        console.print(line, markup=False, soft_wrap=True)
    counts = Counter(one.verdict for one in verdicts)
    seconds = sum(one.coverage.seconds for one in verdicts)
    counted = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    console.print(f"{several(len(runs), 'run')}: {counted}   {seconds:.1f} s", markup=False)


def told(opinion: CrossCheck | None) -> str:
    """Describe a second opinion."""
    if opinion is None:
        return "none, its logs were not checked"
    if not opinion.disagreements:
        places = ", ".join(opinion.left_out)
        return f"the same in all {several(opinion.counts, 'count')}" + (
            f"; none on {places}, where unclean elections were allowed to lose records" if places else ""
        )
    several_of_them = "; ".join(opinion.disagreements)
    return f"{several_of_them}. This is a mistake of Squall's: do not trust the verdict, and report it with the run"


def run_directory(name: Path) -> Path:
    """Find a run by its path, `latest`, or its scenario's name. Raises UsageError."""
    if name.is_symlink() and not name.exists():
        raise UsageError(f"{name}: points to a deleted run")
    try:
        found = find_run(name, RUNS)
    except NoSuchRun as missing:
        if name.is_dir() and is_run(name):
            return name  # a run without its manifest cannot be judged: unknown, not bad usage
        if name.is_dir() and any(name.iterdir()):
            problem = f"{name}: is not a run: it has neither a manifest (run.json) nor a history"
            raise UsageError(problem, remedy="name the directory of a run, such as runs/latest") from None
        raise UsageError(str(missing)) from None
    if not is_run(found):
        problem = f"{shown_path(found)}: its run.json is not the manifest of a run, and no history is beside it"
        raise UsageError(problem, remedy="name the directory of a run, such as runs/latest")
    return found


# --- printing ------------------------------------------------------------------------------------------------------


def print_verdict(console: Console, verdict: Verdict, run: Path) -> None:
    """Print what was checked, the result, and where the report lies."""
    report = run / REPORT_FILE
    lines = verdict_lines(verdict, shown_path(run), shown_path(report) if report.exists() else "")
    console.print()
    for style, text in lines:
        console.print(Text(text, style=STYLES[style]), soft_wrap=True, highlight=False)


def show_run(name: Path, rows: str | None, console: Console, *, as_json: bool = False) -> int:
    """`squall show`: print the verdict of a run in words, or rows of its history."""
    run = run_directory(name)
    try:
        manifest = Manifest.load(run)
        if rows is not None:
            history = History.load(run, run_id=manifest.run_id)
            asked, origin = parse_rows(rows), manifest.load_started or 0
            if as_json:
                print_document({"directory": str(run), "rows": list(row_data(history, asked, origin))})
                return 0
            for line in shown_rows(history, asked, origin):
                console.print(line, soft_wrap=True, highlight=False, markup=False)
            return 0
    except IllFormedHistory as trouble:
        return _unreadable(run, f"{trouble}", console, as_json=as_json)
    if not as_json:
        for label, text in manifest_lines(manifest):
            console.print(f"{label:<11}{text}", markup=False, highlight=False, soft_wrap=True)
    try:
        verdict = Verdict.load(run)
    except FileNotFoundError:
        if as_json:
            return _print_shown(run, manifest, None)
        console.print(f"{'verdict':<11}none yet: squall check {shown_path(run)}", markup=False)
        return 0
    except IllFormedHistory as trouble:
        return _unreadable(
            run, f"{trouble}\n    regenerate it: squall check {shown_path(run)}", console, as_json=as_json
        )
    if as_json:
        return _print_shown(run, manifest, verdict)
    print_verdict(console, verdict, run)
    return 0


def _print_shown(run: Path, manifest: Manifest, verdict: Verdict | None) -> int:
    """Print a run as a document. The verdict of a run that was never judged is null."""
    judged = None if verdict is None else verdict.data()
    print_document({"directory": str(run), "manifest": msgspec.to_builtins(manifest), "verdict": judged})
    return 0


def _unreadable(run: Path, problem: str, console: Console, *, as_json: bool) -> int:
    """Print why nothing of a run can be shown. Return the status."""
    if as_json:
        print_document({"directory": str(run), "verdict": None, "problem": problem})
    else:
        console.print(Text(f"UNKNOWN   {problem}"), soft_wrap=True)
    return EXIT_CODES["unknown"]


def manifest_lines(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield what was run, as (label, text)."""
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
